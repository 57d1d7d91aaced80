//! A disruption budget as the mirror keeps it.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{DisruptionBudget, Name};

use super::{Key, selectors::label_selector};
use crate::parse::{at, int32};

/// A selector that cannot be read selects nothing.
pub(super) fn read(object: &Value) -> DisruptionBudget {
    let Key { namespace, name } = Key::of(object);
    let selector = at(object, "/spec/selector").map(label_selector);
    let disrupted = at(object, "/status/disruptedPods").and_then(Value::as_object);
    DisruptionBudget {
        namespace,
        name,
        selector: selector.and_then(Result::ok).unwrap_or_default(),
        allowed: int32(object, "/status/disruptionsAllowed").unwrap_or(0),
        disrupted: disrupted.into_iter().flatten().map(|(pod, _)| Name::from(&**pod)).collect(),
    }
}
