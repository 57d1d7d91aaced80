//! Reading Kubernetes objects leniently. A field of the wrong form becomes a [`Malformed`] that
//! names it, what was found and what is allowed; the rest of the object is still read.

mod duration;
mod quantity;

use std::{collections::BTreeMap, fmt};

use schedlab_json::{Text, Value};
use schedlab_scheduler_core::model::{Name, Time};

pub(crate) use duration::{GoDuration, go_duration, long_duration};
pub(crate) use quantity::{Unit, milli, quantity};

/// A field that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Path of the field, as `spec.resources.gpu.quota`.
    pub(crate) field: String,
    /// What stands there.
    pub(crate) found: String,
    /// What may stand there.
    pub(crate) allowed: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, allowed: {}", self.field, self.found, self.allowed)
    }
}

impl Malformed {
    pub(crate) fn new(
        field: impl Into<String>,
        found: impl fmt::Display,
        allowed: &'static str,
    ) -> Self {
        let mut found = found.to_string();
        if found.chars().count() > 80 {
            found = found.chars().take(80).chain(['…']).collect();
        }
        Self { field: field.into(), found, allowed }
    }
}

/// What stands at a JSON pointer without escapes, as paths of fields are. Every watch event is
/// read with it, so nothing is copied, as `Value::pointer` does for the sake of escapes.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    debug_assert!(pointer.starts_with('/') && !pointer.contains('~'), "{pointer}");
    let (mut value, mut rest) = (object, pointer.strip_prefix('/')?);
    loop {
        // Names are short: looking at one byte after the other is the quickest.
        let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (field, more) = rest.split_at(end);
        value = match value {
            Value::Array(items) => items.get(field.parse::<usize>().ok()?)?,
            Value::Object(fields) => fields.get(field)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        match more.strip_prefix('/') {
            Some(more) => rest = more,
            None => return Some(value),
        }
    }
}

/// The string at a JSON pointer; `None` when absent or not a string.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    at(object, pointer).and_then(Value::as_str)
}

/// The string at a JSON pointer as a name; `None` when absent or empty.
pub(crate) fn name(object: &Value, pointer: &str) -> Option<Name> {
    text(object, pointer).filter(|text| !text.is_empty()).map(Name::from)
}

/// The list at a JSON pointer; empty when absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The map of strings at a JSON pointer; what is not a string is left out.
pub(crate) fn strings(object: &Value, pointer: &str) -> BTreeMap<Name, Name> {
    let entries = at(object, pointer).and_then(Value::as_object);
    let entry = |(key, value): (&Text, &Value)| {
        value.as_str().map(|value| (Name::from(key.as_str()), Name::from(value)))
    };
    entries.into_iter().flatten().filter_map(entry).collect()
}

/// The number at a JSON pointer, if it fits.
pub(crate) fn int32(object: &Value, pointer: &str) -> Option<i32> {
    at(object, pointer).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok())
}

/// The moment at a JSON pointer.
pub(crate) fn time(object: &Value, pointer: &str) -> Option<Time> {
    text(object, pointer).and_then(parse_time)
}

/// A moment as Kubernetes writes it.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    text.parse::<jiff::Timestamp>().ok().map(|moment| Time(moment.as_millisecond()))
}

/// `metadata.resourceVersion` as a number; 0 when it is none.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// `metadata.uid`; empty when there is none.
pub(crate) fn uid(object: &Value) -> Name {
    name(object, "/metadata/uid").unwrap_or_default()
}

/// A JSON value in a message: strings in quotes, long things cut.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string()
}

/// What an annotation says.
pub(crate) fn annotated<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "/metadata/annotations")?.get(key)?.as_str()
}
