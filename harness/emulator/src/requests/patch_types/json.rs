//! JSON Patch (RFC 6902) and merge patch (RFC 7386), which need no type information.

use std::io::{self, Write};

use json_patch::{AddOperation, PatchOperation};

use super::unprocessable_patch;
use crate::api_types::error::ApiError;
use schedlab_api::{Map, Value, object};

/// The maximum number of operations, as in the API server.
const OPERATIONS_MAX: usize = 10_000;

/// The maximum size of all values that a patch copies, as in the API server.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// The nesting of the document between two operations.
const DEPTH_MAX: usize = 500;

/// Applies a JSON Patch.
///
/// # Errors
///
/// 400 if it is not a JSON Patch, 413 if it has too many operations, 422 if it cannot be applied to
/// `current` (a failed `test`, a missing path).
pub(crate) fn apply_json_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_array() {
        return Err(undecodable_patch(patch, "[]handlers.jsonPatchOp"));
    }
    let operations: json_patch::Patch =
        schedlab_api::from_value(patch.clone()).map_err(|_| unprocessable_patch())?;
    if operations.0.len() > OPERATIONS_MAX {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.0.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = current.clone().into();
    let mut limits = PatchLimits::default();
    for operation in operations.0 {
        limits.check(&operation, &patched)?;
        let operation = json_patch::Patch(vec![with_lenient_replace(operation, &patched)]);
        json_patch::patch_unsafe(&mut patched, &operation).map_err(|_| unprocessable_patch())?;
    }
    if patched.is_object() { Ok(patched.into()) } else { Err(unprocessable_patch()) }
}

/// What a patch has used of its limits.
#[derive(Default)]
struct PatchLimits {
    copied_bytes: usize,
    /// The nesting of the document, at most; 0 before it is known.
    depth: usize,
}

impl PatchLimits {
    /// Refuses an operation after which the patch would have copied too much, or the document would
    /// be nested too deeply.
    fn check(
        &mut self,
        operation: &PatchOperation,
        current: &serde_json::Value,
    ) -> Result<(), ApiError> {
        if let PatchOperation::Copy(copy) = operation {
            let copied = current.pointer(copy.from.as_str()).map_or(0, encoded_length);
            self.copied_bytes = self.copied_bytes.saturating_add(copied);
            if self.copied_bytes > COPIED_BYTES_MAX {
                return Err(unprocessable_patch());
            }
        }
        if self.depth == 0 || self.depth_after(operation) > DEPTH_MAX {
            self.depth = depth(current);
        }
        self.depth = self.depth_after(operation);
        if self.depth > DEPTH_MAX { Err(unprocessable_patch()) } else { Ok(()) }
    }

    fn depth_after(&self, operation: &PatchOperation) -> usize {
        let placed = match operation {
            PatchOperation::Add(add) => add.path.count() + depth(&add.value),
            PatchOperation::Replace(replace) => replace.path.count() + depth(&replace.value),
            PatchOperation::Copy(copy) => {
                copy.path.count() + self.depth.saturating_sub(copy.from.count())
            }
            PatchOperation::Move(moved) => {
                moved.path.count() + self.depth.saturating_sub(moved.from.count())
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        self.depth.max(placed)
    }
}

/// The nesting of arrays and objects.
fn depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        serde_json::Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => 0,
    }
}

/// The length of a value's JSON text.
fn encoded_length(value: &serde_json::Value) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("a JSON value serializes");
    counter.0
}

/// Unlike RFC 6902, the library of the API server accepts `replace` for a missing key of a map.
fn with_lenient_replace(operation: PatchOperation, current: &serde_json::Value) -> PatchOperation {
    let PatchOperation::Replace(replace) = operation else { return operation };
    let parent = replace.path.parent().and_then(|parent| current.pointer(parent.as_str()));
    if parent.is_some_and(serde_json::Value::is_object) {
        return PatchOperation::Add(AddOperation { path: replace.path, value: replace.value });
    }
    PatchOperation::Replace(replace)
}

/// 400: the patch has the wrong JSON type.
fn undecodable_patch(patch: &Value, expected: &str) -> ApiError {
    let found = object::go_type(patch);
    ApiError::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {found} into Go value of type {expected}"
    ))
}

/// Applies a merge patch: maps merge, null removes, everything else replaces.
///
/// # Errors
///
/// 400: the patch is not a JSON object.
pub(crate) fn apply_merge_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    let Value::Object(fields) = patch else {
        return Err(undecodable_patch(patch, "map[string]interface {}"));
    };
    let mut patched = current.clone();
    merge_fields(&mut patched, fields);
    Ok(patched)
}

fn merge_fields(target: &mut Value, fields: &Map) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
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
