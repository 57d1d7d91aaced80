//! Capacity of devices, and what a request consumes of it: the requested amount, rounded up to one
//! that the device's `requestPolicy` allows.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, json,
    quantity::{Milli, thousandths},
};
use schedlab_scheduler_core::model::{DeviceAmounts, Name};

use crate::parse::{Malformed, at, list, shown};

/// `capacity.requests` of a request, in thousandths by name.
pub(super) type CapacityRequests = DeviceAmounts;

/// The capacity of a device, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceCapacities(BTreeMap<Name, DeviceCapacity>);

/// A capacity of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeviceCapacity {
    value: Milli,
    /// What a request that does not name it consumes.
    default: Option<Milli>,
    policy: RequestPolicy,
}

/// The amounts that may be consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestPolicy {
    Any,
    /// In ascending order.
    Values(Vec<Milli>),
    Range {
        min: Milli,
        max: Option<Milli>,
        step: Option<Milli>,
    },
}

/// The capacity requests of a request, which is at `field`.
///
/// # Errors
/// An amount is not a quantity.
pub(super) fn parse_requests(request: &Value, field: &str) -> Result<CapacityRequests, Malformed> {
    let mut requests = CapacityRequests::new();
    for (name, value) in
        at(request, "/capacity/requests").and_then(Value::as_object).into_iter().flatten()
    {
        let amount = thousandths(value).ok_or_else(|| {
            let field = format!("{field}.capacity.requests[{name}]");
            Malformed::new(field, shown(value), "a quantity")
        })?;
        requests.insert(name.as_str().into(), amount);
    }
    Ok(requests)
}

/// Amounts of an object of quantities.
pub(super) fn amounts(of: Option<&Value>) -> DeviceAmounts {
    let amounts = of.and_then(Value::as_object).into_iter().flatten();
    amounts.filter_map(|(name, value)| Some((name.as_str().into(), thousandths(value)?))).collect()
}

/// The amounts as a JSON object of quantities. Whole multiples of 1024 have a binary suffix.
pub(super) fn to_quantities(amounts: &DeviceAmounts) -> Value {
    let mut quantities = json!({});
    for (name, amount) in amounts {
        quantities[&**name] = json!(quantity(*amount));
    }
    quantities
}

fn quantity(amount: Milli) -> String {
    if amount % 1000 != 0 {
        return format!("{amount}m");
    }
    let mut whole = amount / 1000;
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while whole != 0 && whole % 1024 == 0 {
        let Some(next) = suffixes.next() else { break };
        (whole, suffix) = (whole / 1024, next);
    }
    format!("{whole}{suffix}")
}

impl DeviceCapacities {
    /// The capacity of a device in a slice.
    pub(super) fn from_object(device: &Value) -> Self {
        let all = at(device, "/capacity").and_then(Value::as_object).into_iter().flatten();
        let known = all.filter_map(|(name, capacity)| {
            Some((name.as_str().into(), DeviceCapacity::from_object(capacity)?))
        });
        Self(known.collect())
    }

    pub(super) fn amounts(&self) -> DeviceAmounts {
        self.0.iter().map(|(name, it)| (Name::clone(name), it.value)).collect()
    }

    /// What the request consumes of each capacity if nothing else uses the device; `None` if it can
    /// not use the device.
    pub(super) fn consumed(&self, requests: &CapacityRequests) -> Option<DeviceAmounts> {
        if requests.keys().any(|name| !self.0.contains_key(name)) {
            return None;
        }
        let consumed = |(name, capacity): (&Name, &DeviceCapacity)| {
            Some((Name::clone(name), capacity.consumed(requests.get(name).copied())?))
        };
        self.0.iter().map(consumed).collect()
    }
}

impl DeviceCapacity {
    fn from_object(capacity: &Value) -> Option<Self> {
        let amount = |pointer| at(capacity, pointer).and_then(thousandths);
        let values: Vec<Milli> =
            list(capacity, "/requestPolicy/validValues").iter().filter_map(thousandths).collect();
        let policy = match amount("/requestPolicy/validRange/min") {
            Some(min) => RequestPolicy::Range {
                min,
                max: amount("/requestPolicy/validRange/max"),
                step: amount("/requestPolicy/validRange/step").filter(|step| *step > 0),
            },
            None if values.is_empty() => RequestPolicy::Any,
            None => RequestPolicy::Values(values),
        };
        Some(Self { value: amount("/value")?, default: amount("/requestPolicy/default"), policy })
    }

    /// `None` if no amount that the policy allows suffices.
    fn consumed(&self, requested: Option<Milli>) -> Option<Milli> {
        let amount = match requested {
            None => self.default.unwrap_or(self.value),
            Some(requested) => self.policy.round_up(requested),
        };
        let is_allowed = self.default == Some(amount) || self.policy.allows(amount);
        (is_allowed && amount >= 0 && amount <= self.value).then_some(amount)
    }
}

impl RequestPolicy {
    fn round_up(&self, requested: Milli) -> Milli {
        match self {
            Self::Values(values) => {
                values.iter().copied().find(|value| requested <= *value).unwrap_or(requested)
            }
            Self::Range { min, .. } if requested < *min => *min,
            Self::Any | Self::Range { step: None, .. } => requested,
            Self::Range { min, step: Some(step), .. } => {
                let above = requested - min;
                let steps = above / step + Milli::from(above % step != 0);
                min + steps * step
            }
        }
    }

    fn allows(&self, amount: Milli) -> bool {
        match self {
            Self::Any => true,
            Self::Values(values) => values.contains(&amount),
            Self::Range { min, max, step } => {
                max.is_none_or(|max| amount <= max)
                    && step.is_none_or(|step| (amount - min) % step == 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request for this amount of memory consumes.
    fn consumed(capacity: &Value, requested: Option<&str>) -> String {
        let device = json!({ "capacity": { "memory": capacity } });
        let requests = requested.map(|amount| json!({ "memory": amount }));
        let request = json!({ "capacity": { "requests": requests.unwrap_or(json!({})) } });
        let requests = parse_requests(&request, "").unwrap();
        let consumed = DeviceCapacities::from_object(&device).consumed(&requests);
        consumed.map_or("too much".to_owned(), |it| quantity(it["memory"]))
    }

    #[test]
    fn without_policy_a_request_consumes_what_it_says_or_everything() {
        let capacity = json!({ "value": "80Gi" });
        assert_eq!(consumed(&capacity, Some("10Gi")), "10Gi");
        assert_eq!(consumed(&capacity, None), "80Gi");
        assert_eq!(consumed(&capacity, Some("81Gi")), "too much");
    }

    #[test]
    fn a_range_rounds_up_to_a_step_from_its_minimum() {
        let range = json!({ "min": "1Gi", "max": "9Gi", "step": "2Gi" });
        let policy = json!({ "default": "1Gi", "validRange": range });
        let capacity = json!({ "value": "80Gi", "requestPolicy": policy });
        assert_eq!(consumed(&capacity, None), "1Gi");
        assert_eq!(consumed(&capacity, Some("500Mi")), "1Gi");
        assert_eq!(consumed(&capacity, Some("3Gi")), "3Gi");
        assert_eq!(consumed(&capacity, Some("4Gi")), "5Gi");
        assert_eq!(consumed(&capacity, Some("10Gi")), "too much");
    }

    #[test]
    fn valid_values_round_up_to_the_next_one() {
        let policy = json!({ "default": "10", "validValues": ["10", "20", "40"] });
        let capacity = json!({ "value": "100", "requestPolicy": policy });
        assert_eq!(consumed(&capacity, None), "10");
        assert_eq!(consumed(&capacity, Some("11")), "20");
        assert_eq!(consumed(&capacity, Some("41")), "too much");
    }

    #[test]
    fn a_request_for_a_capacity_that_the_device_lacks_does_not_fit() {
        let requests = DeviceAmounts::from([("cores".into(), 1000)]);
        assert_eq!(DeviceCapacities::default().consumed(&requests), None);
    }
}
