//! How a patch changes an object: the four patch types as pure functions over JSON, and who
//! owns which field afterwards. Nothing here knows the store, defaults or admission.

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
pub(crate) use apply::untyped_patch;
pub use builtin::builtin;
pub use crd::{crd, untyped};
pub(crate) use fields::item_path;
pub use json::{json, merge};
pub use managed::{Author, note_update};
pub use shape::{ListShape, Shape, Strategy};
pub use strategic::strategic;

#[cfg(test)]
mod tests;

use crate::error::ApiError;
use schedlab_json::Value;

/// A value as Go prints it.
pub(crate) fn in_go(value: &Value) -> String {
    let several = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(switch) => switch.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Array(items) => format!("[{}]", several(items.iter().map(in_go).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}:{}", in_go(field)));
            format!("map[{}]", several(fields.collect()))
        }
    }
}

/// 422: a patch, but not one for this object.
fn unfit_patch() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError { details: Some(Box::default()), ..ApiError::new(422, "Invalid", message) }
}
