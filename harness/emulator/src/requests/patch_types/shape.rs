//! Merge information for a field: keyed lists, sets, and atomic maps. Lists have two properties,
//! because strategic merge and apply treat some of them differently.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedlab_api::{Map, Value};

/// The merge rules of one field, and of the fields below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergeShape {
    /// The fields whose merge rules differ from [`MergeShape::default`].
    pub fields: BTreeMap<Box<str>, Arc<MergeShape>>,
    /// The merge rules of the values of a map with free keys. Managers own the entries of such a
    /// map one by one.
    pub entries: Option<Arc<MergeShape>>,
    /// The merge rules of the items of a list.
    pub item: Option<Arc<MergeShape>>,
    /// Whether the map changes only as a whole.
    pub atomic: bool,
    /// How apply merges a list.
    pub list: ListShape,
    /// How a strategic merge patch changes the field.
    pub strategy: StrategicMerge,
}

/// How apply merges a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListShape {
    /// The list changes only as a whole.
    #[default]
    Atomic,
    /// The list is a set: it contains each value at most once.
    Set,
    /// The items are identified by these keys; the value is the default of an absent key.
    Keyed(Vec<(Box<str>, Option<Value>)>),
}

/// How a strategic merge patch changes a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StrategicMerge {
    /// The field by which the items of a list are merged; `None` if items are not merged.
    pub merge_key: Option<Box<str>>,
    /// Whether a list of plain values is united with the list in the patch.
    pub merge_values: bool,
    /// Whether a map is replaced instead of merged.
    pub replace: bool,
}

static PLAIN: std::sync::LazyLock<MergeShape> = std::sync::LazyLock::new(MergeShape::default);

impl MergeShape {
    /// The merge rules of a field about which nothing is known: maps merge, lists are replaced.
    pub(crate) fn plain() -> &'static Self {
        &PLAIN
    }

    /// The merge rules of the field or entry `name`.
    pub(crate) fn field_shape(&self, name: &str) -> &Self {
        match self.fields.get(name).or(self.entries.as_ref()) {
            Some(shape) => shape,
            None => Self::plain(),
        }
    }

    /// The merge rules of the items of the list.
    pub(crate) fn item_shape(&self) -> &Self {
        self.item.as_deref().unwrap_or_else(|| Self::plain())
    }

    /// Whether `name` is a free key of a map rather than a field of a type.
    pub(super) fn is_free_key(&self, name: &str) -> bool {
        self.entries.is_some() && !self.fields.contains_key(name)
    }
}

/// The path step of an item in a keyed list or a set: `k:{"name":"a"}`, `v:"a"`. `None` if the item
/// has no key.
pub(super) fn item_step(list: &ListShape, item: &Value) -> Option<String> {
    match list {
        ListShape::Atomic => None,
        ListShape::Set => Some(format!("v:{item}")),
        ListShape::Keyed(keys) => {
            let mut found = Map::new();
            for (key, default) in keys {
                if let Some(value) = item.get(key.as_ref()).or(default.as_ref()) {
                    found.insert(key.as_ref().to_owned(), value.clone());
                }
            }
            (!found.is_empty()).then(|| format!("k:{}", Value::Object(found)))
        }
    }
}
