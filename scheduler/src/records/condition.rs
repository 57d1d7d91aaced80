//! Conditions in `status.conditions[]` of objects.

use std::collections::BTreeMap;

use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use crate::parse::{list, text};

/// A condition of an object, without its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) status: Name,
    pub(crate) reason: Name,
    pub(crate) message: Name,
}

/// All conditions of an object, by type.
pub(crate) fn conditions(object: &Value) -> BTreeMap<Name, Condition> {
    let items = list(object, "/status/conditions").iter();
    items.map(|item| (part(item, "/type"), from_item(item))).collect()
}

/// The condition of a type; the last one if it is listed more than once.
pub(crate) fn find_condition(conditions: &[Value], kind: &str) -> Option<Condition> {
    let mut items = conditions.iter().rev();
    items.find(|item| text(item, "/type").unwrap_or_default() == kind).map(from_item)
}

fn from_item(item: &Value) -> Condition {
    Condition {
        status: part(item, "/status"),
        reason: part(item, "/reason"),
        message: part(item, "/message"),
    }
}

fn part(item: &Value, pointer: &str) -> Name {
    Name::from(text(item, pointer).unwrap_or_default())
}
