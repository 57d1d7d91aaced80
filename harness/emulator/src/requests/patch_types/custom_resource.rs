//! The shape of a custom resource, from the list and map types in its structural schema.

use std::sync::{Arc, LazyLock};

use super::builtin::with_metadata;
use super::shape::{ListShape, MergeShape};
use schedlab_api::Value;

/// The merge rules of a custom resource with this `openAPIV3Schema`.
pub(crate) fn custom_resource_shape(schema: &Value) -> Arc<MergeShape> {
    Arc::new(with_metadata(shape_of_schema(schema)))
}

/// The merge rules of an object without a schema.
pub(crate) fn untyped_shape() -> Arc<MergeShape> {
    static UNTYPED: LazyLock<Arc<MergeShape>> =
        LazyLock::new(|| Arc::new(with_metadata(MergeShape::default())));
    UNTYPED.clone()
}

fn shape_of_schema(schema: &Value) -> MergeShape {
    let mut shape = MergeShape::default();
    if schema["x-kubernetes-embedded-resource"] == true {
        shape = with_metadata(shape);
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            shape
                .fields
                .entry(name.as_str().into())
                .or_insert_with(|| Arc::new(shape_of_schema(property)));
        }
    }
    if let Some(values) = schema.get("additionalProperties") {
        shape.entries = Some(Arc::new(shape_of_schema(values)));
    } else if schema["x-kubernetes-preserve-unknown-fields"] == true {
        shape.entries = Some(Arc::default());
    }
    if let Some(items) = schema.get("items") {
        shape.item = Some(Arc::new(shape_of_schema(items)));
    }
    shape.atomic = schema["x-kubernetes-map-type"] == "atomic";
    shape.list = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListShape::Set,
        Some("map") => ListShape::Keyed(list_keys(schema)),
        _ => ListShape::Atomic,
    };
    shape
}

fn list_keys(schema: &Value) -> Vec<(Box<str>, Option<Value>)> {
    let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
    keys.iter()
        .filter_map(Value::as_str)
        .map(|key| {
            let default = schema["items"]["properties"][key].get("default");
            (key.into(), default.cloned())
        })
        .collect()
}
