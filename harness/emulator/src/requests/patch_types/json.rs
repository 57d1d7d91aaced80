//! JSON Patch (RFC 6902) and merge patch (RFC 7386), which need no type information.

use std::io::{self, Write};

use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    TestOperation,
};

use super::unprocessable_patch_error;
use crate::api_types::error::ApiError;
use schedlab_api::{Map, Value, object, object::text};

/// The maximum number of operations, as in the API server.
const OPERATIONS_MAX: usize = 10_000;

/// The maximum size of all values that a patch copies, as in the API server.
const COPIED_BYTES_MAX: usize = 3 << 20;
/// The maximum nesting of the document between two operations.
const NESTING_MAX: usize = 500;

/// Applies a JSON Patch.
///
/// # Errors
///
/// 400 if it is not a JSON Patch, 413 if it has too many operations, 422 if it cannot be applied to
/// `current` (a failed `test`, a missing path).
pub(crate) fn apply_json_patch(current: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_array() {
        return Err(undecodable_patch_error(patch, "[]handlers.jsonPatchOp"));
    }
    check_operation_types(patch)?;
    let operations: json_patch::Patch = schedlab_api::from_value(with_null_values(patch))
        .map_err(|_| unprocessable_patch_error())?;
    if operations.0.len() > OPERATIONS_MAX {
        let message = format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.0.len()
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let mut patched = current.clone().into();
    let mut limits = PatchUsage::default();
    for operation in operations.0 {
        let operation = with_positive_indexes(operation, &patched);
        limits.check_operation(&operation, &patched)?;
        let Some(operation) = with_absent_as_null(operation, &patched) else { continue };
        let operation = json_patch::Patch(vec![operation]);
        json_patch::patch_unsafe(&mut patched, &operation)
            .map_err(|_| unprocessable_patch_error())?;
    }
    if patched.is_object() { Ok(patched.into()) } else { Err(unprocessable_patch_error()) }
}

/// How much of its limits a JSON Patch has used so far.
#[derive(Default)]
struct PatchUsage {
    copied_bytes: usize,
    /// The maximum possible nesting of the document; 0 before it is known.
    depth: usize,
}

impl PatchUsage {
    /// Refuses an operation after which the patch would have copied too much, or the document would
    /// be nested too deeply.
    fn check_operation(
        &mut self,
        operation: &PatchOperation,
        current: &serde_json::Value,
    ) -> Result<(), ApiError> {
        if let PatchOperation::Copy(copy) = operation {
            let copied = current.pointer(copy.from.as_str()).map_or(0, encoded_length);
            self.copied_bytes = self.copied_bytes.saturating_add(copied);
            if self.copied_bytes > COPIED_BYTES_MAX {
                return Err(unprocessable_patch_error());
            }
        }
        if self.depth == 0 || self.nesting_depth_after(operation) > NESTING_MAX {
            self.depth = nesting_depth(current);
        }
        self.depth = self.nesting_depth_after(operation);
        if self.depth > NESTING_MAX { Err(unprocessable_patch_error()) } else { Ok(()) }
    }

    fn nesting_depth_after(&self, operation: &PatchOperation) -> usize {
        let placed = match operation {
            PatchOperation::Add(add) => add.path.count() + nesting_depth(&add.value),
            PatchOperation::Replace(replace) => {
                replace.path.count() + nesting_depth(&replace.value)
            }
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

/// The nesting of arrays and objects in a value.
fn nesting_depth(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(nesting_depth).max().unwrap_or(0),
        serde_json::Value::Object(fields) => {
            1 + fields.values().map(nesting_depth).max().unwrap_or(0)
        }
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

/// Refuses operations whose `op`, `path` or `from` is no string.
fn check_operation_types(patch: &Value) -> Result<(), ApiError> {
    for operation in patch.as_array().into_iter().flatten() {
        if !operation.is_object() && !operation.is_null() {
            return Err(undecodable_patch_error(operation, "handlers.jsonPatchOp"));
        }
        for field in ["op", "path", "from"] {
            let value = operation.get(field).unwrap_or(&Value::Null);
            if !value.is_string() && !value.is_null() {
                return Err(ApiError::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go struct field \
                     jsonPatchOp.{field} of type string",
                    object::go_type(value)
                )));
            }
        }
    }
    Ok(())
}

/// The patch with `value: null` in operations that lack `value`: unlike RFC 6902, the API server's
/// library takes a missing value for null.
fn with_null_values(patch: &Value) -> Value {
    let mut patch = patch.clone();
    for operation in patch.as_array_mut().into_iter().flatten() {
        if operation.is_object() && matches!(text(operation, &["op"]), "add" | "replace" | "test") {
            object::set_default(operation, &["value"], Value::Null);
        }
    }
    patch
}

/// The operation with positive indexes in its paths: unlike RFC 6902, the API server's library
/// counts a negative index from the end of a list.
fn with_positive_indexes(
    mut operation: PatchOperation,
    current: &serde_json::Value,
) -> PatchOperation {
    let positive = |path: &mut PointerBuf, end: usize| {
        if path.as_str().contains("/-") {
            *path = positive_path(path, current, end);
        }
    };
    match &mut operation {
        // An item is added before the index, or after the last one.
        PatchOperation::Add(AddOperation { path, .. }) => positive(path, 1),
        PatchOperation::Remove(RemoveOperation { path })
        | PatchOperation::Replace(ReplaceOperation { path, .. })
        | PatchOperation::Test(TestOperation { path, .. }) => positive(path, 0),
        PatchOperation::Copy(CopyOperation { from, path })
        | PatchOperation::Move(MoveOperation { from, path }) => {
            positive(from, 0);
            positive(path, 1);
        }
    }
    operation
}

/// A path whose indexes all count from the start of a list. `end` is added to the length of the
/// last list.
fn positive_path(path: &PointerBuf, current: &serde_json::Value, end: usize) -> PointerBuf {
    let count = path.count();
    let (mut found, mut place) = (PointerBuf::new(), Some(current));
    for (index, token) in path.tokens().enumerate() {
        let token = token.decoded();
        let length = place
            .and_then(serde_json::Value::as_array)
            .map(|items| if index + 1 == count { items.len() + end } else { items.len() });
        let from_end = token.strip_prefix('-').and_then(|digits| digits.parse::<usize>().ok());
        let positive = length.zip(from_end).and_then(|(length, from)| length.checked_sub(from));
        let token = positive.map_or_else(|| token.into_owned(), |index| index.to_string());
        place = place.and_then(|place| match place.as_array() {
            Some(items) => items.get(token.parse::<usize>().ok()?),
            None => place.get(&token),
        });
        found.push_back(token);
    }
    found
}

/// The operation, adapted to missing keys: unlike RFC 6902, the API server's library takes a
/// missing key of a map for a null. `replace` adds the key, `copy` copies a null, and `test` finds
/// a null. `None` if nothing is left to do.
fn with_absent_as_null(
    operation: PatchOperation,
    current: &serde_json::Value,
) -> Option<PatchOperation> {
    let is_absent_key = |path: &PointerBuf| {
        let parent = path.parent().and_then(|parent| current.pointer(parent.as_str()));
        parent.is_some_and(serde_json::Value::is_object) && current.pointer(path.as_str()).is_none()
    };
    match operation {
        PatchOperation::Replace(ReplaceOperation { path, value }) if is_absent_key(&path) => {
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Copy(CopyOperation { from, path }) if is_absent_key(&from) => {
            let value = serde_json::Value::Null;
            Some(PatchOperation::Add(AddOperation { path, value }))
        }
        PatchOperation::Test(TestOperation { path, value })
            if value.is_null() && is_absent_key(&path) =>
        {
            None
        }
        other @ (PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_)
        | PatchOperation::Test(_)) => Some(other),
    }
}

/// 400: the patch has the wrong JSON type.
fn undecodable_patch_error(patch: &Value, expected: &str) -> ApiError {
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
        return Err(undecodable_patch_error(patch, "map[string]interface {}"));
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
