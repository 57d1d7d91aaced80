//! How the values of a schema are represented in CEL.

use std::sync::Arc;

use super::cel_types::escape_field_name;
use crate::api_types::expression::{Shape, key};
use schedlab_api::{
    Value,
    object::{map, text},
};

/// The shape of a schema's values.
pub(super) fn shape(raw: &Value, is_resource: bool) -> Shape {
    if raw["x-kubernetes-int-or-string"] == true {
        return Shape::Any;
    }
    let is_embedded = |part: &Value| part["x-kubernetes-embedded-resource"] == true;
    let inner = |part: &Value| Arc::new(shape(part, is_embedded(part)));
    match (text(raw, &["type"]), text(raw, &["format"])) {
        ("number", _) => Shape::Number,
        ("string", "byte") => Shape::Bytes,
        ("string", "duration") => Shape::Duration,
        ("string", "date") => Shape::Date,
        ("string", "date-time") => Shape::Timestamp,
        ("array", _) => Shape::List(inner(&raw["items"])),
        ("object", _) if raw["additionalProperties"].is_object() => {
            Shape::Map(inner(&raw["additionalProperties"]))
        }
        ("object", _) if raw["additionalProperties"] == true => Shape::Any,
        ("object", _) => object_shape(raw, is_resource),
        _ => Shape::Any,
    }
}

fn object_shape(raw: &Value, is_resource: bool) -> Shape {
    let properties = map(raw, &["properties"]).into_iter().flatten();
    let mut fields: Vec<_> = properties
        .map(|(name, property)| {
            let is_embedded = property["x-kubernetes-embedded-resource"] == true;
            let shown = key(&escape_field_name(name));
            (name.to_string(), shown, shape(property, is_embedded))
        })
        .collect();
    if is_resource {
        for name in ["apiVersion", "kind", "metadata"] {
            fields.retain(|(known, _, _)| known != name);
            fields.push((name.to_owned(), key(name), Shape::Any));
        }
    }
    Shape::Object(Arc::new(fields))
}
