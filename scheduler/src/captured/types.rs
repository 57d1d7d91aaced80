//! Which type each field of an object has, as its kind declares it: what is read leniently would
//! take a value of another type for one that is not there. Fields that a kind does not have, as a
//! later API server may write them, are passed over, and so is null, which Go writes for nothing.

mod kinds;

use std::{collections::BTreeMap, fmt};

use schedlab_json::Value;
use serde_json::{Map, Value as Schema};

use crate::{
    parse::{Malformed, parse_time, shown},
    watch::Kind,
};

/// Fields of which is told besides what they count as instead.
const TOLD_OTHERWISE: [&str; 2] = ["metadata.creationTimestamp", "value"];

/// The first field of an object that has a value of another type than its kind gives it.
pub(super) fn fault(kind: Kind, object: &Value) -> Option<Malformed> {
    let (form, named) = kinds::form(kind)?;
    let mut look = Look { named, wrong: Vec::new() };
    look.at(form, object, &Place::Object);
    look.wrong.into_iter().find(|wrong| !TOLD_OTHERWISE.contains(&&*wrong.field))
}

/// What may stand in a place.
#[derive(Debug)]
enum Form {
    Anything,
    /// One of the forms that several others use, by its number.
    Named(usize),
    /// Named fields; `others`: what stands in those that have no name here.
    Object {
        fields: BTreeMap<String, Form>,
        others: Option<Box<Form>>,
    },
    List(Box<Form>),
    Text,
    Moment,
    TextOrNumber,
    Truth,
    Whole,
    Whole32,
    Number,
}

impl Form {
    /// From a JSON schema; `names` are those of its definitions, in order.
    fn of(schema: &Schema, names: &[&str]) -> Self {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/$defs/");
            let number = names.iter().position(|known| *known == name);
            return number.map_or(Self::Anything, Self::Named);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return Self::TextOrNumber;
        }
        // Of several choices one is null, or all are texts.
        let mut choices = ["anyOf", "oneOf", "allOf"].into_iter();
        if let Some(choices) = choices.find_map(|key| schema[key].as_array()) {
            return choices.first().map_or(Self::Anything, |first| Self::of(first, names));
        }
        let format = schema["format"].as_str().unwrap_or_default();
        match (schema["type"].as_str().or_else(|| schema["type"][0].as_str()), format) {
            (Some("object"), _) => Self::object(schema, names),
            (Some("array"), _) => Self::List(Box::new(Self::of(&schema["items"], names))),
            (Some("string"), "date-time") => Self::Moment,
            (Some("string"), _) => Self::Text,
            (Some("boolean"), _) => Self::Truth,
            (Some("integer"), "int32") => Self::Whole32,
            (Some("integer"), _) => Self::Whole,
            (Some("number"), _) => Self::Number,
            (Some(_) | None, _) => Self::Anything,
        }
    }

    fn object(schema: &Schema, names: &[&str]) -> Self {
        let properties = schema["properties"].as_object().into_iter().flat_map(Map::iter);
        let fields = properties.map(|(name, schema)| (name.clone(), Self::of(schema, names)));
        let others = schema.get("additionalProperties").filter(|others| others.is_object());
        let others = others.map(|others| Box::new(Self::of(others, names)));
        Self::Object { fields: fields.collect(), others }
    }

    /// What it allows in words; `None`: this value.
    fn refuses(&self, value: &Value) -> Option<&'static str> {
        let is_32 = |number| i32::try_from(number).is_ok();
        let (fits, allowed) = match self {
            Self::Anything | Self::Named(_) => (true, "anything"),
            Self::Object { .. } => (value.is_object(), "an object"),
            Self::List(_) => (value.is_array(), "an array"),
            Self::Text => (value.is_string(), "a string"),
            Self::Moment => (
                value.as_str().is_some_and(|text| parse_time(text).is_some()),
                "a time such as 2026-01-31T12:00:00Z",
            ),
            Self::TextOrNumber => (value.is_string() || value.is_number(), "a string or a number"),
            Self::Truth => (value.is_boolean(), "true or false"),
            Self::Whole => (value.is_i64() || value.is_u64(), "an integer"),
            Self::Whole32 => {
                (value.as_i64().is_some_and(is_32), "an integer from -2147483648 to 2147483647")
            }
            Self::Number => (value.is_number(), "a number"),
        };
        (!fits).then_some(allowed)
    }
}

/// One walk over an object.
struct Look {
    named: &'static [Form],
    wrong: Vec<Malformed>,
}

impl Look {
    fn at(&mut self, form: &Form, value: &Value, place: &Place<'_>) {
        if let Form::Named(number) = form {
            return self.at(&self.named[*number], value, place);
        }
        if let Some(allowed) = form.refuses(value) {
            return self.wrong.push(Malformed::new(place.to_string(), shown(value), allowed));
        }
        match (form, value) {
            (Form::Object { fields, others }, Value::Object(found)) => {
                let form_of = |name: &str| fields.get(name).or(others.as_deref());
                let known = found.iter().filter_map(|(name, value)| {
                    Some((name, form_of(name)?, value)).filter(|_| !value.is_null())
                });
                for (name, form, value) in known {
                    self.at(form, value, &Place::Field(place, name));
                }
            }
            (Form::List(form), Value::Array(items)) => {
                for (at, item) in items.iter().enumerate() {
                    self.at(form, item, &Place::Item(place, at));
                }
            }
            _ => {}
        }
    }
}

/// The way to a value; spelt out only where there is something to say of it.
enum Place<'p> {
    Object,
    Field(&'p Place<'p>, &'p str),
    Item(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
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
