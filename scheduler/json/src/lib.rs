//! JSON as objects are kept in memory. A [`Value`] has the names and the meaning of
//! `serde_json`'s; what differs is what it costs. Kubernetes' objects are many small maps of short
//! strings, and are copied, compared and dropped at every write: a map here is a list in the order
//! of its keys, and a short string stands in its place.

mod convert;
mod literal;
mod map;
mod serial;
mod tree;
mod words;

use std::fmt;
use std::ops;

pub use serde_json::Number;

pub use map::{Entry, IntoIter, Iter, Map};
pub use tree::to_value;
pub use words::types_in_words;

#[cfg(test)]
mod tests;

/// A string, or the key of a map.
pub type Text = smol_str::SmolStr;

/// Any JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Whole or not.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(Vec<Value>),
    /// A map.
    Object(Map),
}

/// What a tree says, as a type.
///
/// # Errors
/// As `serde_json::from_value`: it says something else.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value.into())
}

/// What finds a value in another: the key of a map, or a place in a list.
pub trait Index {
    /// What stands there.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// What stands there, to be changed.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// What stands there, made where it can be.
    ///
    /// # Panics
    /// Where nothing can be made, as `serde_json` does.
    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let map = value.as_object_mut().expect("only a map has keys");
        map.entry(self).or_insert(Value::Null)
    }
}

impl Index for String {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.as_str().of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.as_str().of_mut(value)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.as_str().made(value)
    }
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.of_mut(value).expect("a list that is so long")
    }
}

impl<I: Index + ?Sized> Index for &I {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).of(value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).of_mut(value)
    }

    fn made<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).made(value)
    }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        static NOTHING: Value = Value::Null;
        index.of(self).unwrap_or(&NOTHING)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Value {
        index.made(self)
    }
}

impl Value {
    /// What stands at a key or place.
    pub fn get(&self, index: impl Index) -> Option<&Value> {
        index.of(self)
    }

    /// What stands at a key or place, to be changed.
    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Value> {
        index.of_mut(self)
    }

    /// What stands at a JSON Pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(map) => map.get(&step),
            Value::Array(items) => items.get(place(&step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// What stands at a JSON Pointer, to be changed.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(items) => items.get_mut(place(&step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Leaves `null` in its place.
    #[must_use]
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// The map that it is.
    pub fn as_object(&self) -> Option<&Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The map that it is, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The list that it is.
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    /// The list that it is, to be changed.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    /// The string that it is.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The number that it is.
    pub fn as_number(&self) -> Option<&Number> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    /// The whole number that it is.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The whole number from 0 on that it is.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number that it is, perhaps rounded.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// Whether it is true, where it is one of the two.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(is) = self { Some(*is) } else { None }
    }

    /// Whether it is a map.
    pub fn is_object(&self) -> bool {
        self.as_object().is_some()
    }

    /// Whether it is a list.
    pub fn is_array(&self) -> bool {
        self.as_array().is_some()
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        self.as_str().is_some()
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        self.as_number().is_some()
    }

    /// Whether it is a whole number that an `i64` holds.
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// Whether it is a whole number that a `u64` holds.
    pub fn is_u64(&self) -> bool {
        self.as_u64().is_some()
    }

    /// Whether it is `true` or `false`.
    pub fn is_boolean(&self) -> bool {
        self.as_bool().is_some()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

/// The steps of a JSON Pointer; the empty one has none.
fn steps(pointer: &str) -> Option<impl Iterator<Item = String>> {
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
    is_pointer.then(|| pointer.split('/').skip(1).map(step))
}

/// A place in a list, as JSON Pointers write it.
fn place(step: &str) -> Option<usize> {
    let is_plain = !step.starts_with('+') && (step == "0" || !step.starts_with('0'));
    step.parse().ok().filter(|_| is_plain)
}

/// As JSON in one line, or with `{:#}` in many.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if formatter.alternate() {
            serde_json::to_string_pretty(self)
        } else {
            serde_json::to_string(self)
        };
        formatter.write_str(&text.map_err(|_| fmt::Error)?)
    }
}
