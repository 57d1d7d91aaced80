//! How the values of a schema are represented in CEL.

use std::sync::Arc;

use super::cel_types::escape_field_name;
use crate::api_types::expression::{CelShape, map_key};
use schedlab_api::{
    Value,
    object::{map, text},
};

/// How the values of a schema are represented in CEL.
pub(super) fn cel_shape(raw: &Value, is_whole_object: bool) -> CelShape {
    if raw["x-kubernetes-int-or-string"] == true {
        return CelShape::Any;
    }
    let is_embedded = |part: &Value| part["x-kubernetes-embedded-resource"] == true;
    let inner = |part: &Value| Arc::new(cel_shape(part, is_embedded(part)));
    match (text(raw, &["type"]), text(raw, &["format"])) {
        ("number", _) => CelShape::Number,
        ("string", "byte") => CelShape::Bytes,
        ("string", "duration") => CelShape::Duration,
        ("string", "date") => CelShape::Date,
        ("string", "date-time") => CelShape::Timestamp,
        ("array", _) => CelShape::List(inner(&raw["items"])),
        ("object", _) if raw["additionalProperties"].is_object() => {
            CelShape::Map(inner(&raw["additionalProperties"]))
        }
        ("object", _) if raw["additionalProperties"] == true => CelShape::Any,
        ("object", _) => cel_object_shape(raw, is_whole_object),
        _ => CelShape::Any,
    }
}

fn cel_object_shape(raw: &Value, is_whole_object: bool) -> CelShape {
    let properties = map(raw, &["properties"]).into_iter().flatten();
    let mut fields: Vec<_> = properties
        .map(|(name, property)| {
            let is_embedded = property["x-kubernetes-embedded-resource"] == true;
            let shown = map_key(&escape_field_name(name));
            (name.to_string(), shown, cel_shape(property, is_embedded))
        })
        .collect();
    if is_whole_object {
        for name in ["apiVersion", "kind", "metadata"] {
            fields.retain(|(known, _, _)| known != name);
            fields.push((name.to_owned(), map_key(name), CelShape::Any));
        }
    }
    CelShape::Object(Arc::new(fields))
}
