//! Data of the Kubernetes API, without any decision.
//!
//! JSON values in memory: [`Value`] has the API and semantics of `serde_json::Value` at lower cost:
//! Kubernetes objects consist of many small maps with short strings, and are copied, compared and
//! dropped at every write. Maps are sorted vectors, and short strings are stored inline.
//!
//! ```
//! use schedlab_api::{Value, json};
//!
//! let pod = json!({"metadata": {"name": "train"}, "spec": {"priority": 100}});
//! assert_eq!(pod.pointer("/metadata/name").and_then(Value::as_str), Some("train"));
//! assert_eq!(pod["spec"]["priority"], 100);
//! assert!(pod["spec"]["nodeName"].is_null());
//! ```

pub mod annotations;
pub mod api_versions;
pub mod conditions;
mod convert;
#[cfg(feature = "crds")]
pub mod crds;
pub mod duration;
pub mod finalizers;
pub mod labels;
mod literal;
mod map;
pub mod object;
pub mod object_names;
pub mod pointer;
pub mod quantity;
pub mod random;
pub mod resources;
mod serial;
pub mod taints;
pub mod toleration;
mod tree;
mod type_names;

use std::fmt;
use std::ops;

pub use serde_json::Number;

pub use map::{Entry, IntoIter, Iter, Map};
pub use tree::to_value;
pub use type_names::plain_type_names;

#[cfg(test)]
mod tests;

/// A string, or the key of a map.
pub type Text = smol_str::SmolStr;

/// Any JSON value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer or floating-point number.
    Number(Number),
    /// A string.
    String(Text),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Map),
}

/// Converts a value to a type.
///
/// # Errors
/// The value does not match the type, as in `serde_json::from_value`.
pub fn from_value<T: serde::de::DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value.into())
}

/// An index into a value: the key of an object, or a position in an array.
pub trait Index {
    /// The value at the index.
    fn index_into<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// The mutable value at the index.
    fn index_into_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// The value at the index; a missing key of an object is inserted with `null`.
    ///
    /// # Panics
    /// The value cannot be created, as in `serde_json`.
    fn index_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for str {
    fn index_into<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn index_into_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn index_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let map = value.as_object_mut().expect("only an object has keys");
        map.entry(self).or_insert(Value::Null)
    }
}

impl Index for String {
    fn index_into<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.as_str().index_into(value)
    }

    fn index_into_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        self.as_str().index_into_mut(value)
    }

    fn index_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.as_str().index_or_insert(value)
    }
}

impl Index for usize {
    fn index_into<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn index_into_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn index_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        self.index_into_mut(value).expect("the array has this position")
    }
}

impl<I: Index + ?Sized> Index for &I {
    fn index_into<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        (**self).index_into(value)
    }

    fn index_into_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        (**self).index_into_mut(value)
    }

    fn index_or_insert<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        (**self).index_or_insert(value)
    }
}

impl<I: Index> ops::Index<I> for Value {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        static NOTHING: Value = Value::Null;
        index.index_into(self).unwrap_or(&NOTHING)
    }
}

impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Value {
        index.index_or_insert(self)
    }
}

impl Value {
    /// The value at a key or position.
    pub fn get(&self, index: impl Index) -> Option<&Value> {
        index.index_into(self)
    }

    /// The mutable value at a key or position.
    pub fn get_mut(&mut self, index: impl Index) -> Option<&mut Value> {
        index.index_into_mut(self)
    }

    /// The value at a JSON Pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        pointer_steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(map) => map.get(&step),
            Value::Array(items) => items.get(array_index(&step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// The mutable value at a JSON Pointer.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        pointer_steps(pointer)?.try_fold(self, |value, step| match value {
            Value::Object(map) => map.get_mut(&step),
            Value::Array(items) => items.get_mut(array_index(&step)?),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Takes the value and leaves `null`.
    #[must_use]
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// The object; `None` for other types.
    pub fn as_object(&self) -> Option<&Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The mutable object; `None` for other types.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        if let Value::Object(map) = self { Some(map) } else { None }
    }

    /// The array; `None` for other types.
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    /// The mutable array; `None` for other types.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        if let Value::Array(items) = self { Some(items) } else { None }
    }

    /// The string; `None` for other types.
    pub fn as_str(&self) -> Option<&str> {
        if let Value::String(text) = self { Some(text) } else { None }
    }

    /// The number; `None` for other types.
    pub fn as_number(&self) -> Option<&Number> {
        if let Value::Number(number) = self { Some(number) } else { None }
    }

    /// The number, if it is an `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The number, if it is a `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number as `f64`, rounded if necessary.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// The boolean; `None` for other types.
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(is) = self { Some(*is) } else { None }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.as_object().is_some()
    }

    /// Whether it is an array.
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

    /// Whether it is a number that fits `i64`.
    pub fn is_i64(&self) -> bool {
        self.as_i64().is_some()
    }

    /// Whether it is a number that fits `u64`.
    pub fn is_u64(&self) -> bool {
        self.as_u64().is_some()
    }

    /// Whether it is a boolean.
    pub fn is_boolean(&self) -> bool {
        self.as_bool().is_some()
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

/// The unescaped segments of a JSON Pointer; the empty pointer has none. `None`: the text is no
/// pointer.
fn pointer_steps(pointer: &str) -> Option<impl Iterator<Item = String>> {
    let is_pointer = pointer.is_empty() || pointer.starts_with('/');
    let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
    is_pointer.then(|| pointer.split('/').skip(1).map(step))
}

/// Parses a position in an array, in the syntax of JSON Pointers.
fn array_index(step: &str) -> Option<usize> {
    let is_plain = !step.starts_with('+') && (step == "0" || !step.starts_with('0'));
    step.parse().ok().filter(|_| is_plain)
}

/// Formats the value as compact JSON, or pretty-printed with `{:#}`.
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
