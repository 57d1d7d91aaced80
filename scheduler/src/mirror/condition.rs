//! Conditions of objects.

use std::collections::BTreeMap;

use schedlab_scheduler_core::model::Name;
use serde_json::Value;

use crate::parse::{list, text};

/// A condition that stands on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) status: Name,
    pub(crate) reason: Name,
    pub(crate) message: Name,
}

/// `status.conditions[]` by type.
pub(super) fn conditions(object: &Value) -> BTreeMap<Name, Condition> {
    let part = |item: &Value, pointer| Name::from(text(item, pointer).unwrap_or_default());
    let condition = |item: &Value| {
        let condition = Condition {
            status: part(item, "/status"),
            reason: part(item, "/reason"),
            message: part(item, "/message"),
        };
        (part(item, "/type"), condition)
    };
    list(object, "/status/conditions").iter().map(condition).collect()
}

pub(super) fn condition(object: &Value, kind: &str) -> Option<Condition> {
    conditions(object).remove(kind)
}
