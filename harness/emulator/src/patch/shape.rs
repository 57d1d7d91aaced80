//! What a merge must know about a place in an object: which lists are keyed, which are sets,
//! which maps change only as a whole. Two answers for lists, because strategic merge and apply
//! disagree about some of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedlab_json::{Map, Value};

/// What is known about the value at one place.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The fields that are known to differ from [`Shape::default`].
    pub fields: BTreeMap<Box<str>, Arc<Shape>>,
    /// For a map with free keys: its values. Such entries count as owned on their own.
    pub entries: Option<Arc<Shape>>,
    /// For a list: its items.
    pub item: Option<Arc<Shape>>,
    /// A map that changes only as a whole.
    pub atomic: bool,
    /// How apply sees a list.
    pub list: ListShape,
    /// How strategic merge sees it.
    pub strategy: Strategy,
}

/// How apply sees a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListShape {
    /// Changes only as a whole.
    #[default]
    Atomic,
    /// Each value at most once.
    Set,
    /// Items told apart by these fields; a field that is absent stands for the value beside it.
    Keyed(Vec<(Box<str>, Option<Value>)>),
}

/// How strategic merge sees a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strategy {
    /// Items of a list are merged by this field.
    pub merge_key: Option<Box<str>>,
    /// A list of plain values is united with the patch's.
    pub merge_values: bool,
    /// A map is replaced, not merged.
    pub replace: bool,
}

static PLAIN: std::sync::LazyLock<Shape> = std::sync::LazyLock::new(Shape::default);

impl Shape {
    /// Of a place about which nothing is known: maps merge, lists are replaced.
    pub fn plain() -> &'static Self {
        &PLAIN
    }

    /// Of a field.
    pub fn field(&self, name: &str) -> &Self {
        match self.fields.get(name).or(self.entries.as_ref()) {
            Some(shape) => shape,
            None => Self::plain(),
        }
    }

    /// Of a list's items.
    pub fn item(&self) -> &Self {
        self.item.as_deref().unwrap_or_else(|| Self::plain())
    }

    /// Whether `name` is a free key of a map rather than a field of a type.
    pub(super) fn is_free_key(&self, name: &str) -> bool {
        self.entries.is_some() && !self.fields.contains_key(name)
    }
}

/// An item's place in a keyed list or a set, as a path step: `k:{"name":"a"}`, `v:"a"`. `None`
/// when the item has no key.
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
