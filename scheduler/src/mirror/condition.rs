//! Conditions of objects.

use std::collections::BTreeMap;

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

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
    let items = list(object, "/status/conditions").iter();
    items.map(|item| (part(item, "/type"), read(item))).collect()
}

/// Of `status.conditions[]` the one of a type; the last where it stands there more than once.
pub(super) fn condition(conditions: &[Value], kind: &str) -> Option<Condition> {
    let mut items = conditions.iter().rev();
    items.find(|item| text(item, "/type").unwrap_or_default() == kind).map(read)
}

fn read(item: &Value) -> Condition {
    Condition {
        status: part(item, "/status"),
        reason: part(item, "/reason"),
        message: part(item, "/message"),
    }
}

fn part(item: &Value, pointer: &str) -> Name {
    Name::from(text(item, pointer).unwrap_or_default())
}
