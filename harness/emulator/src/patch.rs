//! Patches: the four patch types as pure functions over JSON, and the ownership of fields
//! (`managedFields`). This module does not use the store, defaults or admission.

mod apply;
mod builtin;
mod conflict;
mod crd;
mod diff;
mod fields;
mod json;
mod managed;
mod shape;
mod strategic;

pub use apply::apply;
pub(crate) use apply::typed_patch_error;
pub use builtin::builtin_shape;
pub use crd::{crd_shape, untyped_shape};
pub(crate) use fields::item_path;
pub use json::{apply_json_patch, apply_merge_patch};
pub use managed::{Author, record_update};
pub use shape::{ListShape, Shape, Strategy};
pub use strategic::apply_strategic_patch;

#[cfg(test)]
mod tests;

use crate::error::ApiError;
use schedlab_api::Value;

/// Formats a value like Go's `%v`.
pub(crate) fn go_value(value: &Value) -> String {
    let several = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(switch) => switch.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => format!("[{}]", several(items.iter().map(go_value).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}:{}", go_value(field)));
            format!("map[{}]", several(fields.collect()))
        }
    }
}

/// 422: a valid patch that cannot be applied to this object.
fn unprocessable_patch() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError { details: Some(Box::default()), ..ApiError::new(422, "Invalid", message) }
}
