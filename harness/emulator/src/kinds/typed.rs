//! The types of the built-in kinds, as a real server decodes them: unknown fields and nulls are
//! dropped, what is always written is there, a value of another type is refused, quantities take their canonical form.
//!
//! The types are those of `k8s-openapi`; each kind's is built when it is first asked for.

mod always;
mod canonical;
mod catalogue;
mod decode;
mod form;
mod place;

use super::Kind;
use crate::error::ApiError;
use schedlab_json::Value;

pub(crate) use canonical::canonical;
pub(crate) use place::{Typed, metadata, root};

/// What decoding found besides the object.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Paths of the fields that the type does not have.
    pub(crate) unknown: Vec<String>,
}

/// Brings an object of a built-in kind into the form in which it is stored.
pub(crate) fn decode(kind: &Kind, object: &mut Value) -> Result<Decoded, ApiError> {
    let Some(form) = catalogue::types(&kind.resource.group, &kind.kind) else {
        return Ok(Decoded::default());
    };
    let mut decoded = Decoded::default();
    decode::decode(form, object, &mut decoded.unknown).map_err(|why| {
        ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {why}",
            kind.kind, kind.storage, kind.kind
        ))
    })?;
    Ok(decoded)
}

/// Brings a scale into its form.
pub(crate) fn decode_scale(scale: &mut Value) -> Result<(), ApiError> {
    let Some(form) = catalogue::types("autoscaling", "Scale") else { return Ok(()) };
    decode::decode(form, scale, &mut Vec::new()).map_err(|why| {
        ApiError::bad_request(format!(
            "Scale in version \"v1\" cannot be handled as a Scale: {why}"
        ))
    })
}

/// Whether a group has a built-in kind of this name.
pub(crate) fn is_known(group: &str, kind: &str) -> bool {
    catalogue::types(group, kind).is_some()
}

/// Has the type of a built-in kind described as a JSON schema, and names it.
pub(crate) fn describe(kind: &Kind, generator: &mut schemars::SchemaGenerator) -> Option<String> {
    catalogue::describe(&kind.resource.group, &kind.kind, generator)
}

/// Brings the metadata of a custom resource into the form in which it is stored.
pub(crate) fn decode_metadata(kind: &Kind, object: &mut Value) -> Result<Decoded, ApiError> {
    let mut decoded = Decoded::default();
    let (Some(form), Some(metadata)) = (catalogue::metadata(), object.get_mut("metadata")) else {
        return Ok(decoded);
    };
    if metadata.is_null() {
        *metadata = Value::Object(schedlab_json::Map::new());
    }
    decode::decode(form, metadata, &mut decoded.unknown).map_err(|why| {
        ApiError::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: metadata: {why}",
            kind.kind, kind.storage, kind.kind
        ))
    })?;
    for field in &mut decoded.unknown {
        field.insert_str(0, "metadata.");
    }
    Ok(decoded)
}

/// Brings the metadata of an object inside of another into the form in which it is stored.
pub(crate) fn decode_embedded(metadata: &mut Value) -> Result<Decoded, String> {
    let mut decoded = Decoded::default();
    if metadata.is_null() {
        *metadata = Value::Object(schedlab_json::Map::new());
    }
    if !metadata.is_object() {
        let found = crate::object::go_type(metadata);
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    }
    if let Some(form) = catalogue::metadata() {
        decode::decode(form, metadata, &mut decoded.unknown)?;
    }
    Ok(decoded)
}

/// A type and everything it is made of.
#[derive(Debug)]
struct Types {
    types: Vec<form::Struct>,
    root: usize,
}
