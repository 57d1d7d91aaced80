//! Types of all fields by kind. Lenient parsing would treat a value of the wrong type as missing;
//! this check finds such values. It ignores unknown fields, as of newer API servers, and nulls,
//! which Go writes for empty values.

mod kinds;

use std::{collections::BTreeMap, fmt};

use schedlab_api::Value;
use serde_json::{Map, Value as Schema};

use crate::{
    parse::{Malformed, parse_time, shown},
    watch::Kind,
};

/// Fields that are not checked here, as they have a note of their own if they are invalid.
const REPORTED_ELSEWHERE: [&str; 2] = ["metadata.creationTimestamp", "value"];

/// The error of the first field of an object with a value of the wrong type; `None` if all types
/// are right.
pub(super) fn type_error(kind: Kind, object: &Value) -> Option<Malformed> {
    let (form, named) = kinds::field_type(kind)?;
    let mut look = TypeChecker { named, wrong: Vec::new() };
    look.check_value(form, object, &FieldPath::Object);
    look.wrong.into_iter().find(|wrong| !REPORTED_ELSEWHERE.contains(&&*wrong.field))
}

/// The expected type of a field.
#[derive(Debug)]
enum FieldType {
    Anything,
    /// A shared definition, by its index in the list of definitions.
    Named(usize),
    /// An object with named fields; `others`: the type of all other fields.
    Object {
        fields: BTreeMap<String, FieldType>,
        others: Option<Box<FieldType>>,
    },
    List(Box<FieldType>),
    Text,
    Time,
    TextOrNumber,
    Bool,
    Integer,
    Int32,
    Number,
}

impl FieldType {
    /// Converts a JSON schema; `names` are those of its definitions, in order.
    fn from_schema(schema: &Schema, names: &[&str]) -> Self {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            let number = names.iter().position(|known| *known == name);
            return number.map_or(Self::Anything, Self::Named);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::TextOrNumber;
        }
        // Of several alternatives one is null, or all are strings.
        let mut choices = ["anyOf", "oneOf", "allOf"].into_iter();
        if let Some(choices) = choices.find_map(|key| schema[key].as_array()) {
            return choices.first().map_or(Self::Anything, |first| Self::from_schema(first, names));
        }
        let format = schema["format"].as_str().unwrap_or_default();
        match (schema["type"].as_str().or_else(|| schema["type"][0].as_str()), format) {
            (Some("object"), _) => Self::object_type(schema, names),
            (Some("array"), _) => Self::List(Box::new(Self::from_schema(&schema["items"], names))),
            (Some("string"), "date-time") => Self::Time,
            (Some("string"), _) => Self::Text,
            (Some("boolean"), _) => Self::Bool,
            (Some("integer"), "int32") => Self::Int32,
            (Some("integer"), _) => Self::Integer,
            (Some("number"), _) => Self::Number,
            (Some(_) | None, _) => Self::Anything,
        }
    }

    fn object_type(schema: &Schema, names: &[&str]) -> Self {
        let properties = schema["properties"].as_object().into_iter().flat_map(Map::iter);
        let fields =
            properties.map(|(name, schema)| (name.clone(), Self::from_schema(schema, names)));
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        let others = others.map(|others| Box::new(Self::from_schema(others, names)));
        Self::Object { fields: fields.collect(), others }
    }

    /// The expected type in words if the value does not match; `None` if it does.
    fn expected_if_mismatched(&self, value: &Value) -> Option<&'static str> {
        let is_32 = |number| i32::try_from(number).is_ok();
        let (fits, allowed) = match self {
            Self::Anything | Self::Named(_) => (true, "anything"),
            Self::Object { .. } => (value.is_object(), "an object"),
            Self::List(_) => (value.is_array(), "an array"),
            Self::Text => (value.is_string(), "a string"),
            Self::Time => (
                value.as_str().is_some_and(|text| parse_time(text).is_some()),
                "a time such as 2026-01-31T12:00:00Z",
            ),
            Self::TextOrNumber => (value.is_string() || value.is_number(), "a string or a number"),
            Self::Bool => (value.is_boolean(), "true or false"),
            Self::Integer => (value.is_i64() || value.is_u64(), "an integer"),
            Self::Int32 => {
                (value.as_i64().is_some_and(is_32), "an integer from -2147483648 to 2147483647")
            }
            Self::Number => (value.is_number(), "a number"),
        };
        (!fits).then_some(allowed)
    }
}

/// Checks the values of an object, and collects its errors.
struct TypeChecker {
    named: &'static [FieldType],
    wrong: Vec<Malformed>,
}

impl TypeChecker {
    fn check_value(&mut self, form: &FieldType, value: &Value, path: &FieldPath<'_>) {
        if let FieldType::Named(number) = form {
            return self.check_value(&self.named[*number], value, path);
        }
        if let Some(allowed) = form.expected_if_mismatched(value) {
            return self.wrong.push(Malformed::new(path.to_string(), shown(value), allowed));
        }
        match (form, value) {
            (FieldType::Object { fields, others }, Value::Object(found)) => {
                let form_of = |name: &str| fields.get(name).or(others.as_deref());
                let known = found.iter().filter_map(|(name, value)| {
                    Some((name, form_of(name)?, value)).filter(|_| !value.is_null())
                });
                for (name, form, value) in known {
                    self.check_value(form, value, &FieldPath::Field(path, name));
                }
            }
            (FieldType::List(form), Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    self.check_value(form, item, &FieldPath::Item(path, at));
                }
            }
            _ => {}
        }
    }
}

/// Path of a field; formatted only for an error.
enum FieldPath<'p> {
    Object,
    Field(&'p FieldPath<'p>, &'p str),
    Item(&'p FieldPath<'p>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object => Ok(()),
            Self::Field(Self::Object, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(list, at) => write!(f, "{list}[{at}]"),
        }
    }
}

#[cfg(test)]
mod tests;
