//! Lenient parsing of Kubernetes objects. A field with an invalid value becomes a [`Malformed`]
//! with its path, the value and the allowed values; the rest of the object is parsed nevertheless.

use std::{collections::BTreeMap, fmt};

use schedlab_api::{Text, Value};
use schedlab_scheduler_core::model::{Name, Time};

pub(crate) use schedlab_api::{
    duration::{GoDuration, parse_duration_with_days, parse_go_duration},
    pointer::{at, list, text},
    quantity::{Unit, format_milli, parse_non_negative},
};

/// A field with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// Path of the field, such as `spec.resources.gpu.quota`.
    pub(crate) field: String,
    /// The invalid value, for messages.
    pub(crate) found: String,
    /// The allowed values, for messages.
    pub(crate) allowed: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: got {}, expected {}", self.field, self.found, self.allowed)
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

/// The string at a JSON pointer as a name; `None` if missing or empty.
pub(crate) fn name(object: &Value, pointer: &str) -> Option<Name> {
    text(object, pointer).filter(|text| !text.is_empty()).map(Name::from)
}

/// The map of strings at a JSON Pointer, without entries of other types; empty if missing.
pub(crate) fn strings(object: &Value, pointer: &str) -> BTreeMap<Name, Name> {
    let entries = at(object, pointer).and_then(Value::as_object);
    let entry = |(key, value): (&Text, &Value)| {
        value.as_str().map(|value| (Name::from(key.as_str()), Name::from(value)))
    };
    entries.into_iter().flatten().filter_map(entry).collect()
}

/// The number at a JSON pointer; `None` if missing or no `i32`.
pub(crate) fn int32(object: &Value, pointer: &str) -> Option<i32> {
    at(object, pointer).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok())
}

/// The time at a JSON pointer; `None` if missing or malformed.
pub(crate) fn time(object: &Value, pointer: &str) -> Option<Time> {
    text(object, pointer).and_then(parse_time)
}

/// Parses a time in RFC 3339 format.
pub(crate) fn parse_time(text: &str) -> Option<Time> {
    text.parse::<jiff::Timestamp>().ok().map(|moment| Time(moment.as_millisecond()))
}

/// `metadata.resourceVersion` as a number; 0 if it is missing or no number.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// `metadata.uid`; empty if missing.
pub(crate) fn uid(object: &Value) -> Name {
    name(object, "/metadata/uid").unwrap_or_default()
}

/// Formats a JSON value for a message, with strings in quotes.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string()
}

/// The value of an annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "/metadata/annotations")?.get(key)?.as_str()
}
