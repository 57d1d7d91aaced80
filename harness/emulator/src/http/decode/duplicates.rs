//! Decodes JSON to values and records duplicate fields. The last occurrence wins.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use schedlab_api::{Map, Number, Value};
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A field that occurs twice in a map.
pub(super) struct DuplicateField {
    pub(super) name: String,
    /// The field path, such as `spec.containers[0].image`.
    pub(super) path: String,
}

/// The maximum nesting of arrays and objects that is decoded. Deeper ones are read and left empty;
/// in a known field they are refused when the object is written.
pub(crate) const NESTING_MAX: usize = 120;
/// The maximum number of duplicates that are recorded, as in kube-apiserver.
const DUPLICATES_MAX: usize = 100;

/// A decoded JSON or YAML text.
pub(super) struct Decoded {
    pub(super) value: Value,
    pub(super) duplicates: Vec<DuplicateField>,
    /// Whether an array or object was nested too deeply and left empty.
    pub(super) is_cut: bool,
}

/// Decodes a value and records its duplicate fields. More than `values_max` values are an error.
pub(super) fn decode<'de, D>(from: D, values_max: usize) -> Result<Decoded, D::Error>
where
    D: Deserializer<'de>,
{
    let state = DecodeState { values_left: values_max.into(), ..DecodeState::default() };
    let value = DuplicateTracker { state: &state, depth: 0 }.deserialize(from)?;
    let DecodeState { duplicates, is_cut, .. } = state;
    Ok(Decoded { value, duplicates: duplicates.into_inner(), is_cut: is_cut.into_inner() })
}

/// Fails at the `nth` duplicate field, so that the error has its location in the text.
pub(super) fn fail_at_duplicate<'de, D: Deserializer<'de>>(
    from: D,
    nth: usize,
) -> Result<(), D::Error> {
    let state = DecodeState { fail_at: Some(nth), ..DecodeState::default() };
    DuplicateTracker { state: &state, depth: 0 }.deserialize(from)?;
    Ok(())
}

/// The error of a text whose aliases stand for more values than the limit.
pub(super) const TOO_MANY_VALUES_MESSAGE: &str = "document contains excessive aliasing";

struct DecodeState {
    duplicates: RefCell<Vec<DuplicateField>>,
    fail_at: Option<usize>,
    values_left: Cell<usize>,
    is_cut: Cell<bool>,
}

impl Default for DecodeState {
    fn default() -> Self {
        Self {
            duplicates: RefCell::default(),
            fail_at: None,
            values_left: usize::MAX.into(),
            is_cut: false.into(),
        }
    }
}

/// Decodes one value and records duplicate fields. Paths are built only for duplicates: each level
/// puts its step before the paths that were recorded below it.
#[derive(Clone, Copy)]
struct DuplicateTracker<'r> {
    state: &'r DecodeState,
    /// The number of arrays and objects that enclose the value.
    depth: usize,
}

impl DuplicateTracker<'_> {
    fn duplicate_count(self) -> usize {
        self.state.duplicates.borrow().len()
    }

    fn record_duplicate<E: de::Error>(self, name: &str) -> Result<(), E> {
        if self.state.fail_at == Some(self.duplicate_count()) {
            return Err(E::custom("the map has a field twice"));
        }
        if self.duplicate_count() < DUPLICATES_MAX {
            let (name, path) = (name.to_owned(), name.to_owned());
            self.state.duplicates.borrow_mut().push(DuplicateField { name, path });
        }
        Ok(())
    }

    fn prefix_paths(self, since: usize, step: impl fmt::Display) {
        for DuplicateField { path, .. } in self.state.duplicates.borrow_mut().iter_mut().skip(since)
        {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{step}{dot}{path}");
        }
    }

    /// The decoder for the values in an array or object; `None` if they are nested too deeply.
    fn nested(self) -> Option<Self> {
        if self.depth == NESTING_MAX {
            self.state.is_cut.set(true);
            return None;
        }
        Some(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateTracker<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let Some(left) = self.state.values_left.get().checked_sub(1) else {
            return Err(de::Error::custom(TOO_MANY_VALUES_MESSAGE));
        };
        self.state.values_left.set(left);
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateTracker<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(is.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let Some(inner) = self.nested() else {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(list.into());
        };
        loop {
            let since = self.duplicate_count();
            let Some(item) = items.next_element_seed(inner)? else { return Ok(list.into()) };
            self.prefix_paths(since, format_args!("[{}]", list.len()));
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = FieldBuffer::default();
        let Some(inner) = self.nested() else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(read.into_map().into());
        };
        while let Some(name) = fields.next_key::<String>()? {
            if read.has(&name) {
                self.record_duplicate(&name)?;
            }
            let since = self.duplicate_count();
            let value = fields.next_value_seed(inner)?;
            self.prefix_paths(since, &name);
            read.insert(name, value);
        }
        Ok(read.into_map().into())
    }
}

/// The decoded fields of a map. While they arrive sorted by name, as most programs write them, no
/// lookup is needed and the map is built at once.
#[derive(Default)]
struct FieldBuffer {
    in_order: Vec<(String, Value)>,
    /// All fields, after one arrived out of order. It is a tree, because a body may have many
    /// fields in any order.
    tree: Option<BTreeMap<String, Value>>,
}

impl FieldBuffer {
    /// Whether the field occurred before.
    fn has(&mut self, name: &str) -> bool {
        if self.tree.is_none() && self.in_order.last().is_some_and(|(last, _)| **last >= *name) {
            self.tree = Some(self.in_order.drain(..).collect());
        }
        self.tree.as_ref().is_some_and(|tree| tree.contains_key(name))
    }

    /// Adds a field, after [`Self::has`] was called for it.
    fn insert(&mut self, name: String, value: Value) {
        match &mut self.tree {
            Some(tree) => drop(tree.insert(name, value)),
            None => self.in_order.push((name, value)),
        }
    }

    fn into_map(self) -> Map {
        match self.tree {
            Some(tree) => tree.into_iter().collect(),
            None => self.in_order.into_iter().collect(),
        }
    }
}
