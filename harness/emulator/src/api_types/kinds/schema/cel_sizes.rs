//! How large the parts of an object may be by its schema, as kube-apiserver computes it for the
//! cost estimate of rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cel_types::escape_field_name;
use crate::api_types::expression::{DeclaredSize, REQUEST_BYTES_MAX};
use schedlab_api::{
    Value, json,
    object::{list, map, text},
};

/// The lengths of the JSON texts of strings with a format, in bytes.
const DURATION_LENGTH_MAX: u64 = 32;
const DURATION_LENGTH_MIN: u64 = 3;
const DATE_LENGTH: u64 = 12;
const DATE_TIME_LENGTH_MAX: u64 = 32;
const DATE_TIME_LENGTH_MIN: u64 = 21;
const STRING_LENGTH_MIN: u64 = 2;

/// The maximum size of the values of a schema; `None` if rules cannot access them.
pub(super) fn declared_size(raw: &Value, is_whole_object: bool) -> Option<Arc<DeclaredSize>> {
    let limit = |field: &str| raw[field].as_i64().map(|limit| u64::try_from(limit).unwrap_or(0));
    if raw["x-kubernetes-int-or-string"] == true {
        let max = limit("maxLength").map_or(REQUEST_BYTES_MAX - 2, |length| length * 4);
        return Some(Arc::new(DeclaredSize::scalar(max, 1)));
    }
    let size = match text(raw, &["type"]) {
        "array" => {
            let items = &raw["items"];
            let item = declared_size(items, is_embedded(items))?;
            let max = (REQUEST_BYTES_MAX - 2) / (item.encoded_min + 1);
            DeclaredSize {
                elements_max: limit("maxItems").unwrap_or(max),
                encoded_min: 2,
                element: Some(item),
                ..DeclaredSize::default()
            }
        }
        "object" if raw["additionalProperties"].is_object() => {
            let values = &raw["additionalProperties"];
            let value = declared_size(values, is_embedded(values))?;
            let max = (REQUEST_BYTES_MAX - 2) / (value.encoded_min + 6);
            DeclaredSize {
                elements_max: limit("maxProperties").unwrap_or(max),
                encoded_min: 2,
                element: Some(value),
                key: Some(Arc::new(DeclaredSize::scalar(0, STRING_LENGTH_MIN))),
                ..DeclaredSize::default()
            }
        }
        "object" => object_size(raw, is_whole_object),
        "string" => string_size(raw, limit("maxLength")),
        "boolean" => DeclaredSize::scalar(0, 4),
        "number" | "integer" => DeclaredSize::scalar(0, 1),
        _ => return None,
    };
    Some(Arc::new(size))
}

fn is_embedded(raw: &Value) -> bool {
    raw["x-kubernetes-embedded-resource"] == true
}

fn object_size(raw: &Value, is_whole_object: bool) -> DeclaredSize {
    let mut size = DeclaredSize { encoded_min: 2, ..DeclaredSize::default() };
    let own = map(raw, &["properties"]).into_iter().flatten();
    let mut properties: BTreeMap<&str, &Value> =
        own.map(|(name, property)| (name.as_str(), property)).collect();
    let (word, metadata) = (json!({"type": "string"}), metadata_schema());
    if is_whole_object {
        properties.extend([("kind", &word), ("apiVersion", &word), ("metadata", &metadata)]);
    }
    let required = list(raw, &["required"]);
    for (name, property) in properties {
        let Some(of_field) = declared_size(property, is_embedded(property)) else { continue };
        if required.iter().any(|it| it == name) && property["default"].is_null() {
            size.encoded_min += name.len() as u64 + of_field.encoded_min + 4;
        }
        size.fields.insert(escape_field_name(name), of_field);
    }
    size
}

/// The schema of the part of `metadata` that rules can access.
fn metadata_schema() -> Value {
    let name = json!({"type": "string"});
    json!({"type": "object", "properties": {"name": name.clone(), "generateName": name}})
}

fn string_size(raw: &Value, limit: Option<u64>) -> DeclaredSize {
    let whole = REQUEST_BYTES_MAX - STRING_LENGTH_MIN;
    match text(raw, &["format"]) {
        "byte" => DeclaredSize::scalar(limit.unwrap_or(whole), STRING_LENGTH_MIN),
        "duration" => DeclaredSize::scalar(DURATION_LENGTH_MAX, DURATION_LENGTH_MIN),
        "date" => DeclaredSize::scalar(DATE_LENGTH, DATE_LENGTH),
        "date-time" => DeclaredSize::scalar(DATE_TIME_LENGTH_MAX, DATE_TIME_LENGTH_MIN),
        _ => {
            let values = list(raw, &["enum"]).iter().filter_map(Value::as_str);
            let longest = values.map(|value| value.len() as u64).max();
            let max = limit.map(|length| length * 4).or(longest).unwrap_or(whole);
            DeclaredSize::scalar(max, STRING_LENGTH_MIN)
        }
    }
}
