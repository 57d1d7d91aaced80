//! The two patch types that know nothing of kinds: JSON Patch (RFC 6902) and merge patch
//! (RFC 7386).

use json_patch::{AddOperation, PatchOperation};

use super::unfit_patch;
use crate::error::ApiError;
use crate::object;
use schedlab_json::{Map, Value};

/// More operations than this are refused, as by the API server.
const OPERATIONS_MAX: usize = 10_000;

/// Applies a JSON Patch. Errors: 400 when it is none, 413 when it is too long, 422 when it does
/// not fit `current` (a failed `test`, a path that is not there).
pub fn json(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_array() {
        return Err(undecodable(patch, "[]handlers.jsonPatchOp"));
    }
    let operations: json_patch::Patch =
        schedlab_json::from_value(patch.clone()).map_err(|_| unfit_patch())?;
    if operations.0.len() > OPERATIONS_MAX {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.0.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = current.clone().into();
    for operation in operations.0 {
        let operation = json_patch::Patch(vec![as_done(operation, &patched)]);
        json_patch::patch_unsafe(&mut patched, &operation).map_err(|_| unfit_patch())?;
    }
    if patched.is_object() { Ok(patched.into()) } else { Err(unfit_patch()) }
}

/// The real server's library differs from the RFC: what is to be replaced in a map need not be
/// there.
fn as_done(operation: PatchOperation, current: &serde_json::Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation };
    let parent = replace.path.parent().and_then(|parent| current.pointer(parent.as_str()));
    if parent.is_some_and(serde_json::Value::is_object) {
        return PatchOperation::Add(AddOperation { path: replace.path, value: replace.value });
    }
    PatchOperation::Replace(replace)
}

/// 400: JSON, but of another type than a patch is.
fn undecodable(patch: &Value, wanted: &str) -> ApiError {
    let found = object::go_type(patch);
    ApiError::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type {wanted}"
    ))
}

/// Applies a merge patch: maps merge, null removes, everything else replaces.
pub fn merge(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let Value::Object(fields) = patch else {
        return Err(undecodable(patch, "map[string]interface {}"));
    };
    let mut patched = current.clone();
    merge_fields(&mut patched, fields);
    Ok(patched)
}

fn merge_fields(place: &mut Value, fields: &Map) {
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
