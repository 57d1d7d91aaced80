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
    items.map(|item| (text_field(item, "/type"), condition_from_item(item))).collect()
}

/// The condition of a type; the last one if it is listed more than once.
pub(crate) fn find_condition(conditions: &[Value], kind: &str) -> Option<Condition> {
    let mut items = conditions.iter().rev();
    items.find(|item| text(item, "/type").unwrap_or_default() == kind).map(condition_from_item)
}

fn condition_from_item(item: &Value) -> Condition {
    Condition {
        status: text_field(item, "/status"),
        reason: text_field(item, "/reason"),
        message: text_field(item, "/message"),
    }
}

fn text_field(item: &Value, pointer: &str) -> Name {
    Name::from(text(item, pointer).unwrap_or_default())
}
