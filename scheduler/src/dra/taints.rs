//! Taints of devices: those of their `ResourceSlice` and of `DeviceTaintRule`s. A request gets a
//! tainted device only if it tolerates all taints of effect `NoSchedule` and `NoExecute`.

use std::fmt;

use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use super::DeviceId;
use crate::parse::{at, list, name, text};

/// A taint that keeps requests off a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceTaint {
    key: Name,
    value: Name,
    effect: Name,
}

/// A toleration of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceToleration {
    /// Empty: any key.
    key: Name,
    /// `None`: any value (operator `Exists`).
    value: Option<Name>,
    /// Empty: any effect.
    effect: Name,
}

/// A `DeviceTaintRule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaintRule {
    /// `None`: no device.
    selector: Option<TaintSelector>,
    taint: Option<DeviceTaint>,
}

/// Criteria of which each that is set must equal the device's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TaintSelector {
    driver: Option<Name>,
    pool: Option<Name>,
    device: Option<Name>,
}

impl DeviceTaint {
    /// `None` for a taint that keeps no request off, such as one of effect `None`.
    fn from_object(taint: &Value) -> Option<Self> {
        let part = |pointer| Name::from(text(taint, pointer).unwrap_or_default());
        let effect = part("/effect");
        matches!(&*effect, "NoSchedule" | "NoExecute").then(|| Self {
            key: part("/key"),
            value: part("/value"),
            effect,
        })
    }

    /// The taints of a device in a slice.
    pub(super) fn of_device(device: &Value) -> Vec<Self> {
        list(device, "/taints").iter().filter_map(Self::from_object).collect()
    }
}

impl DeviceToleration {
    /// The tolerations of a request.
    pub(super) fn of_request(request: &Value) -> Vec<Self> {
        let toleration = |one: &Value| {
            let part = |pointer| Name::from(text(one, pointer).unwrap_or_default());
            let exists = text(one, "/operator") == Some("Exists");
            Self {
                key: part("/key"),
                value: (!exists).then(|| part("/value")),
                effect: part("/effect"),
            }
        };
        let mut all: Vec<Self> = list(request, "/tolerations").iter().map(toleration).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn tolerates(&self, taint: &DeviceTaint) -> bool {
        let has_key = self.key == taint.key || self.key.is_empty() && self.value.is_none();
        let has_effect = self.effect.is_empty() || self.effect == taint.effect;
        has_key && has_effect && self.value.as_ref().is_none_or(|value| *value == taint.value)
    }
}

/// Whether each taint is tolerated.
pub(super) fn are_tolerated(taints: &[DeviceTaint], tolerations: &[DeviceToleration]) -> bool {
    taints.iter().all(|taint| tolerations.iter().any(|one| one.tolerates(taint)))
}

impl fmt::Display for DeviceToleration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.key.is_empty() { "any taint" } else { &self.key })?;
        if let Some(value) = self.value.as_ref().filter(|value| !value.is_empty()) {
            write!(f, "={value}")?;
        }
        if self.effect.is_empty() { Ok(()) } else { write!(f, ":{}", self.effect) }
    }
}

impl TaintRule {
    pub(super) fn from_object(object: &Value) -> Self {
        let selector = at(object, "/spec/deviceSelector").filter(|selector| !selector.is_null());
        Self {
            selector: selector.map(|selector| TaintSelector {
                driver: name(selector, "/driver"),
                pool: name(selector, "/pool"),
                device: name(selector, "/device"),
            }),
            taint: at(object, "/spec/taint").and_then(DeviceTaint::from_object),
        }
    }

    /// The taint that it adds to a device.
    pub(super) fn taint_of(&self, id: &DeviceId) -> Option<&DeviceTaint> {
        let TaintSelector { driver, pool, device } = self.selector.as_ref()?;
        let criteria = [(driver, &id.driver), (pool, &id.pool), (device, &id.device)];
        let is_met = |(wanted, is): (&Option<Name>, &Name)| {
            wanted.as_ref().is_none_or(|wanted| wanted == is)
        };
        self.taint.as_ref().filter(|_| criteria.into_iter().all(is_met))
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_toleration_covers_taints_by_key_value_and_effect() {
        let taints = DeviceTaint::of_device(
            &json!({ "taints": [{ "key": "ill", "value": "hot", "effect": "NoSchedule" }] }),
        );
        let tolerated = |toleration: Value| {
            let all = DeviceToleration::of_request(&json!({ "tolerations": [toleration] }));
            are_tolerated(&taints, &all)
        };
        assert!(tolerated(json!({ "key": "ill", "operator": "Exists" })));
        assert!(tolerated(json!({ "operator": "Exists" })));
        assert!(tolerated(json!({ "key": "ill", "value": "hot", "effect": "NoSchedule" })));
        assert!(!tolerated(json!({ "key": "ill", "value": "cold" })));
        assert!(!tolerated(json!({ "key": "ill", "operator": "Exists", "effect": "NoExecute" })));
        assert!(!tolerated(json!({ "key": "well", "operator": "Exists" })));
    }

    #[test]
    fn taints_without_effect_on_scheduling_are_ignored() {
        let taints = json!({ "taints": [{ "key": "noted", "effect": "None" }] });
        assert!(DeviceTaint::of_device(&taints).is_empty());
    }

    #[test]
    fn a_rule_taints_the_devices_that_meet_all_its_criteria() {
        let id = DeviceId { driver: "d".into(), pool: "p".into(), device: "x".into() };
        let taints = |selector: Value| {
            let spec = json!({ "deviceSelector": selector, "taint": { "key": "ill", "effect": "NoExecute" } });
            TaintRule::from_object(&json!({ "spec": spec })).taint_of(&id).is_some()
        };
        assert!(taints(json!({})), "the empty selector matches all devices");
        assert!(taints(json!({ "driver": "d", "device": "x" })));
        assert!(!taints(json!({ "driver": "d", "device": "y" })));
        assert!(!taints(Value::Null), "no selector matches no device");
    }
}
