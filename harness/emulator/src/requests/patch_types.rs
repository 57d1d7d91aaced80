//! Patches: the four patch types as pure functions over JSON, and the ownership of fields
//! (`managedFields`). This module does not use the store, defaults or admission.

mod apply;
mod builtin;
mod conflict;
mod custom_resource;
mod diff;
mod fields;
mod json;
mod managed;
mod shape;
mod strategic;

pub(crate) use apply::{apply_configuration, typed_conversion_error, typed_patch_error};
pub(crate) use builtin::builtin_shape;
pub(crate) use custom_resource::{custom_resource_shape, untyped_shape};
pub(crate) use fields::item_path;
pub(crate) use json::{apply_json_patch, apply_merge_patch};
pub(crate) use managed::{WriteAuthor, record_update};
pub(crate) use shape::{ListShape, MergeShape};
pub(crate) use strategic::apply_strategic_patch;

#[cfg(test)]
mod tests;

use crate::api_types::error::ApiError;

/// 422: a valid patch that cannot be applied to this object.
fn unprocessable_patch_error() -> ApiError {
    let message = "the server rejected our request due to an error in our request";
    ApiError { details: Some(Box::default()), ..ApiError::new(422, "Invalid", message) }
}
