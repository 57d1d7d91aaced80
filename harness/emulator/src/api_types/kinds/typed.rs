//! The types of the built-in kinds, and decoding as in the API server: unknown fields and nulls are
//! dropped, Go zero values are added, values of another type are rejected, and quantities get their
//! canonical form.
//!
//! The types come from `k8s-openapi`; the type of a kind is compiled on first use.

mod canonical_quantity;
mod compiled_type;
mod decode;
mod go_zero_values;
mod older_types;
mod type_cursor;
mod type_registry;

use super::Kind;
use crate::api_types::error::ApiError;
use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::Value;

pub(crate) use canonical_quantity::canonical;
pub(crate) use type_cursor::{TypeCursor, metadata, root};

/// The maximum number of unknown fields that are recorded, as in kube-apiserver.
pub(crate) const UNKNOWN_FIELDS_MAX: usize = 100;

/// The warnings of decoding.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// Paths of the fields that the type does not have.
    pub(crate) unknown: Vec<String>,
}

/// Decodes an object of a built-in kind into its stored form.
pub(crate) fn decode(kind: &Kind, object: &mut Value) -> Result<Decoded, ApiError> {
    let group = &kind.resource.group;
    let Some(form) = type_registry::compiled_type(kind.kubernetes, group, &kind.kind) else {
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

/// Decodes the body of a subresource, which is no stored object.
pub(crate) fn decode_subresource(subresource: BodyKind, body: &mut Value) -> Result<(), ApiError> {
    let (group, kind) = match subresource {
        BodyKind::Scale => ("autoscaling", "Scale"),
        BodyKind::Binding => ("", "Binding"),
        BodyKind::Eviction => ("policy", "Eviction"),
    };
    let Some(form) = newest_type(group, kind) else { return Ok(()) };
    decode::decode(form, body, &mut Vec::new()).map_err(|why| {
        ApiError::bad_request(format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: {why}"
        ))
    })
}

/// The kind of a body that is no stored object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyKind {
    Scale,
    Binding,
    Eviction,
}

/// Decodes a `DeleteOptions` body. Unknown fields are dropped.
///
/// # Errors
///
/// A field has the wrong type, in the words of Go's JSON decoder.
pub(crate) fn decode_delete_options(options: &mut Value) -> Result<(), String> {
    match newest_type("meta.k8s.io", "DeleteOptions") {
        Some(form) => decode::decode(form, options, &mut Vec::new()),
        None => Ok(()),
    }
}

/// Whether there is a built-in kind `kind` in `group`.
pub(crate) fn is_known(group: &str, kind: &str) -> bool {
    newest_type(group, kind).is_some()
}

/// A type that is the same in all versions.
fn newest_type(group: &str, kind: &str) -> Option<&'static CompiledType> {
    type_registry::compiled_type(KubernetesVersion::default(), group, kind)
}

/// Adds the JSON schema of a built-in kind to the generator and returns its name.
pub(crate) fn describe(kind: &Kind, generator: &mut schemars::SchemaGenerator) -> Option<String> {
    type_registry::describe(&kind.resource.group, &kind.kind, generator)
}

/// Turns the JSON schemas of the newest types into those of a version.
pub(crate) fn schemas_of_version(version: KubernetesVersion, schemas: &mut schedlab_api::Map) {
    older_types::to_version(version, schemas);
}

/// Decodes the metadata of a custom resource into its stored form.
pub(crate) fn decode_metadata(kind: &Kind, object: &mut Value) -> Result<Decoded, ApiError> {
    let mut decoded = Decoded::default();
    let (Some(form), Some(metadata)) = (type_registry::metadata(), object.get_mut("metadata"))
    else {
        return Ok(decoded);
    };
    if metadata.is_null() {
        *metadata = Value::Object(schedlab_api::Map::new());
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

/// Decodes the metadata of an embedded resource into its stored form.
pub(crate) fn decode_embedded(metadata: &mut Value) -> Result<Decoded, String> {
    let mut decoded = Decoded::default();
    if metadata.is_null() {
        *metadata = Value::Object(schedlab_api::Map::new());
    }
    if !metadata.is_object() {
        let found = schedlab_api::object::go_type(metadata);
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    }
    if let Some(form) = type_registry::metadata() {
        decode::decode(form, metadata, &mut decoded.unknown)?;
    }
    Ok(decoded)
}

/// A Go type and all structs that it refers to.
#[derive(Debug)]
struct CompiledType {
    structs: Vec<compiled_type::Struct>,
    root: usize,
}
