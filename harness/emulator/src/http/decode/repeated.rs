//! JSON into values, taking note of fields that are there twice: the last one counts.

use std::cell::RefCell;
use std::fmt;

use schedlab_json::{Map, Number, Value};
use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

/// A field that is there again.
pub(super) struct Repeated {
    pub(super) name: String,
    /// As in `spec.containers[0].image`.
    pub(super) path: String,
}

/// A value, and the fields that its text has twice.
pub(super) fn read<'de, D>(from: D) -> Result<(Value, Vec<Repeated>), D::Error>
where
    D: Deserializer<'de>,
{
    let repeated = RefCell::default();
    let value = Reader { repeated: &repeated, until: None }.deserialize(from)?;
    Ok((value, repeated.into_inner()))
}

/// Fails at the `nth` repeated field, so that the error tells where in the text that is.
pub(super) fn read_until<'de, D: Deserializer<'de>>(from: D, nth: usize) -> Result<(), D::Error> {
    let repeated = RefCell::default();
    Reader { repeated: &repeated, until: Some(nth) }.deserialize(from)?;
    Ok(())
}

/// Reads one value. Paths grow from their end: each level puts its own step before those that
/// were noted below it, so that nothing is paid where nothing is repeated.
#[derive(Clone, Copy)]
struct Reader<'r> {
    repeated: &'r RefCell<Vec<Repeated>>,
    until: Option<usize>,
}

impl Reader<'_> {
    fn noted(self) -> usize {
        self.repeated.borrow().len()
    }

    fn note<E: de::Error>(self, name: &str) -> Result<(), E> {
        if self.until == Some(self.noted()) {
            return Err(E::custom("a field that is there again"));
        }
        let (name, path) = (name.to_owned(), name.to_owned());
        self.repeated.borrow_mut().push(Repeated { name, path });
        Ok(())
    }

    fn put_before(self, since: usize, step: impl fmt::Display) {
        for Repeated { path, .. } in self.repeated.borrow_mut().iter_mut().skip(since) {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{step}{dot}{path}");
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
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
            let since = self.noted();
            let Some(item) = items.next_element_seed(self)? else { return Ok(list.into()) };
            self.put_before(since, format_args!("[{}]", list.len()));
            list.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read = Fields::default();
        while let Some(name) = fields.next_key::<String>()? {
            if read.has(&name) {
                self.note(&name)?;
            }
            let since = self.noted();
            let value = fields.next_value_seed(self)?;
            self.put_before(since, &name);
            read.put(name, value);
        }
        Ok(read.into_map().into())
    }
}

/// The fields of a map as they are read. While they come in the order of their names, as most
/// programs write them, nothing has to be searched, and the map is made of them in one go.
#[derive(Default)]
struct Fields {
    in_order: Vec<(String, Value)>,
    /// All of them, from the first on that was out of order.
    map: Option<Map>,
}

impl Fields {
    /// Whether this name was there before.
    fn has(&mut self, name: &str) -> bool {
        if self.map.is_none() && self.in_order.last().is_some_and(|(last, _)| **last >= *name) {
            self.map = Some(self.in_order.drain(..).collect());
        }
        self.map.as_ref().is_some_and(|map| map.contains_key(name))
    }

    /// Takes a field in that was asked for just now.
    fn put(&mut self, name: String, value: Value) {
        match &mut self.map {
            Some(map) => drop(map.insert(name, value)),
            None => self.in_order.push((name, value)),
        }
    }

    fn into_map(self) -> Map {
        self.map.unwrap_or_else(|| self.in_order.into_iter().collect())
    }
}
