//! Decodes JSON to values and records duplicate fields. The last occurrence wins.

use std::cell::RefCell;
use std::fmt;

use schedlab_api::{Map, Number, Value};
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

/// A repeated field.
pub(super) struct DuplicateField {
    pub(super) name: String,
    /// The field path, such as `spec.containers[0].image`.
    pub(super) path: String,
}

/// Decodes a value and its duplicate fields.
pub(super) fn decode<'de, D>(from: D) -> Result<(Value, Vec<DuplicateField>), D::Error>
where
    D: Deserializer<'de>,
{
    let repeated = RefCell::default();
    let value = DuplicateTracker { duplicates: &repeated, fail_at: None }.deserialize(from)?;
    Ok((value, repeated.into_inner()))
}

/// Fails at the `nth` duplicate field, so that the error has its location in the text.
pub(super) fn fail_at_duplicate<'de, D: Deserializer<'de>>(
    from: D,
    nth: usize,
) -> Result<(), D::Error> {
    let repeated = RefCell::default();
    DuplicateTracker { duplicates: &repeated, fail_at: Some(nth) }.deserialize(from)?;
    Ok(())
}

/// Decodes one value. Each level prefixes its own step to the paths recorded below it, so that
/// bodies without duplicates have no path overhead.
#[derive(Clone, Copy)]
struct DuplicateTracker<'r> {
    duplicates: &'r RefCell<Vec<DuplicateField>>,
    fail_at: Option<usize>,
}

impl DuplicateTracker<'_> {
    fn duplicate_count(self) -> usize {
        self.duplicates.borrow().len()
    }

    fn record_duplicate<E: de::Error>(self, name: &str) -> Result<(), E> {
        if self.fail_at == Some(self.duplicate_count()) {
            return Err(E::custom("a field that is there again"));
        }
        let (name, path) = (name.to_owned(), name.to_owned());
        self.duplicates.borrow_mut().push(DuplicateField { name, path });
        Ok(())
    }

    fn prefix_paths(self, since: usize, step: impl fmt::Display) {
        for DuplicateField { path, .. } in self.duplicates.borrow_mut().iter_mut().skip(since) {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{step}{dot}{path}");
        }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateTracker<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
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
        loop {
            let since = self.duplicate_count();
            let Some(item) = items.next_element_seed(self)? else { return Ok(list.into()) };
            self.prefix_paths(since, format_args!("[{}]", list.len()));
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = FieldBuffer::default();
        while let Some(name) = fields.next_key::<String>()? {
            if read.has(&name) {
                self.record_duplicate(&name)?;
            }
            let since = self.duplicate_count();
            let value = fields.next_value_seed(self)?;
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
    /// All fields, once one arrived out of order.
    map: Option<Map>,
}

impl FieldBuffer {
    /// Whether the field occurred before.
    fn has(&mut self, name: &str) -> bool {
        if self.map.is_none() && self.in_order.last().is_some_and(|(last, _)| **last >= *name) {
            self.map = Some(self.in_order.drain(..).collect());
        }
        self.map.as_ref().is_some_and(|map| map.contains_key(name))
    }

    /// Adds a field, after [`Self::has`] was called for it.
    fn insert(&mut self, name: String, value: Value) {
        match &mut self.map {
            Some(map) => drop(map.insert(name, value)),
            None => self.in_order.push((name, value)),
        }
    }

    fn into_map(self) -> Map {
        self.map.unwrap_or_else(|| self.in_order.into_iter().collect())
    }
}
