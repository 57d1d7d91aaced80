//! The two patch types that know nothing of kinds: JSON Patch (RFC 6902) and merge patch
//! (RFC 7386).

use serde_json::{Map, Value};

use super::unfit_patch;
use crate::error::ApiError;

/// More operations than this are refused, as by the API server.
const OPERATIONS_MAX: usize = 10_000;

/// Applies a JSON Patch. Errors: 400 when it is none, 413 when it is too long, 422 when it does
/// not fit `current` (a failed `test`, a path that is not there).
pub fn json(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let operations: json_patch::Patch = serde_json::from_value(patch.clone())
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.0.len() > OPERATIONS_MAX {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.0.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = current.clone();
    match json_patch::patch_unsafe(&mut patched, &operations) {
        Ok(()) if patched.is_object() => Ok(patched),
        Ok(()) | Err(_) => Err(unfit_patch()),
    }
}

/// Applies a merge patch: maps merge, null removes, everything else replaces.
pub fn merge(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let Value::Object(fields) = patch else {
        return Err(ApiError::bad_request("error decoding patch: a merge patch is a JSON object"));
    };
    let mut patched = current.clone();
    merge_fields(&mut patched, fields);
    Ok(patched)
}

fn merge_fields(place: &mut Value, fields: &Map<String, Value>) {
    if !place.is_object() {
        *place = Value::Object(Map::new());
    }
    let Some(map) = place.as_object_mut() else { return };
    for (name, new) in fields {
        match new {
            Value::Null => {
                map.remove(name);
            }
            Value::Object(inner) => {
                merge_fields(map.entry(name.as_str()).or_insert(Value::Null), inner);
            }
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                map.insert(name.clone(), other.clone());
            }
        }
    }
}
