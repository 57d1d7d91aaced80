//! `PodDisruptionBudget`s in the cache.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{DisruptionBudget, Name};

use crate::{
    parse::{at, int32},
    records::{ObjectKey, selectors::parse_label_selector},
};

/// Parses a `PodDisruptionBudget`. An invalid selector selects no pods.
pub(super) fn from_object(object: &Value) -> DisruptionBudget {
    let ObjectKey { namespace, name } = ObjectKey::from_object(object);
    let selector = at(object, "/spec/selector").map(parse_label_selector);
    let disrupted = at(object, "/status/disruptedPods").and_then(Value::as_object);
    DisruptionBudget {
        namespace,
        name,
        selector: selector.and_then(Result::ok).unwrap_or_default(),
        allowed: int32(object, "/status/disruptionsAllowed").unwrap_or(0),
        disrupted: disrupted.into_iter().flatten().map(|(pod, _)| Name::from(&**pod)).collect(),
    }
}
