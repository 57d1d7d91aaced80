//! Binding conditions: a driver prepares an allocated device, and reports in the status of the
//! claim when a pod that has it can be bound, or that it cannot.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, Time};

use crate::parse::{at, list, text, time};

/// Whether pods that have a claim can be bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BindingState {
    /// Its devices have no binding conditions.
    #[default]
    Unconditional,
    /// All binding conditions of its devices are true.
    Ready,
    /// A device is being prepared.
    Pending {
        device: Name,
        /// A condition that is not true.
        condition: Name,
        /// `allocationTimestamp`.
        since: Option<Time>,
    },
    /// A failure condition of a device is true.
    Failed { device: Name, condition: Name, message: Name },
}

impl BindingState {
    /// The state of a `ResourceClaim`.
    pub(super) fn from_object(claim: &Value) -> Self {
        let since = time(claim, "/status/allocation/allocationTimestamp");
        let mut state = Self::Unconditional;
        for result in list(claim, "/status/allocation/devices/results") {
            match of_device(claim, result, since) {
                failed @ Self::Failed { .. } => return failed,
                Self::Ready if state == Self::Unconditional => state = Self::Ready,
                pending @ Self::Pending { .. } if !matches!(state, Self::Pending { .. }) => {
                    state = pending;
                }
                Self::Pending { .. } | Self::Ready | Self::Unconditional => {}
            }
        }
        state
    }
}

/// The state of an allocated device.
fn of_device(claim: &Value, result: &Value, since: Option<Time>) -> BindingState {
    let required = list(result, "/bindingConditions");
    if required.is_empty() {
        return BindingState::Unconditional;
    }
    let identity = ["/driver", "/pool", "/device", "/shareID"];
    let is_it =
        |status: &&Value| identity.iter().all(|part| text(status, part) == text(result, part));
    let status = list(claim, "/status/devices").iter().find(is_it);
    let condition = |name: &str| {
        let all = status.map_or(&[][..], |status| list(status, "/conditions"));
        let mut named = all.iter().filter(|one| text(one, "/type") == Some(name));
        named.find(|one| text(one, "/status") == Some("True"))
    };
    let names = |pointer| list(result, pointer).iter().filter_map(Value::as_str);
    let device = || Name::from(text(result, "/device").unwrap_or_default());
    let mut failures = names("/bindingFailureConditions");
    if let Some((name, failed)) = failures.find_map(|name| Some((name, condition(name)?))) {
        let message = at(failed, "/message").and_then(Value::as_str).unwrap_or_default().into();
        return BindingState::Failed { device: device(), condition: name.into(), message };
    }
    match names("/bindingConditions").find(|name| condition(name).is_none()) {
        Some(name) => BindingState::Pending { device: device(), condition: name.into(), since },
        None => BindingState::Ready,
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    fn state(conditions: &[(&str, &str)]) -> BindingState {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| json!({ "type": kind, "status": status, "message": "no cable" }))
            .collect();
        BindingState::from_object(&json!({ "status": {
            "allocation": { "devices": { "results": [
                { "driver": "d", "pool": "p", "device": "other" },
                { "driver": "d", "pool": "p", "device": "x", "bindingConditions": ["attached", "ready"],
                  "bindingFailureConditions": ["broken"] },
            ] } },
            "devices": [{ "driver": "d", "pool": "p", "device": "x", "conditions": conditions }],
        } }))
    }

    #[test]
    fn a_claim_is_ready_when_all_binding_conditions_are_true() {
        assert_eq!(state(&[("attached", "True"), ("ready", "True")]), BindingState::Ready);
        assert_eq!(
            BindingState::from_object(&json!({})),
            BindingState::Unconditional,
            "nothing is allocated"
        );
    }

    #[test]
    fn a_claim_is_pending_while_a_binding_condition_is_not_true() {
        let pending = state(&[("attached", "True"), ("ready", "False"), ("broken", "False")]);
        let expected =
            BindingState::Pending { device: "x".into(), condition: "ready".into(), since: None };
        assert_eq!(pending, expected);
    }

    #[test]
    fn a_failure_condition_outweighs_binding_conditions() {
        let failed = state(&[("attached", "True"), ("ready", "True"), ("broken", "True")]);
        let expected = BindingState::Failed {
            device: "x".into(),
            condition: "broken".into(),
            message: "no cable".into(),
        };
        assert_eq!(failed, expected);
    }
}
