//! OpenAPI v3 documents for kubectl: operations with `fieldValidation` and merge keys for `apply`,
//! schemas for `explain`. Built-in schemas come from the API types, custom ones from CRDs.
//!
//! The version 2 document is empty, so that clients leave validation to the server.

mod builtin;
mod paths;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use ::http::StatusCode;
use hyper::body::Bytes;

use super::accept::Encoding;
use super::discovery::group_versions;
use super::response::{self, ApiResponse};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Kind, Kinds, Origin};
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::store::shared::SharedStore;
use schedlab_api::{Map, Value, json};

/// The media type of OpenAPI version 2 in protobuf. Older clients end it with `@v1.0` instead.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// An OpenAPI document in protobuf with only field 1, the version "2.0".
const V2_EMPTY: &[u8] = b"\x0a\x032.0";

/// The response to `/openapi/v2`: a document without definitions.
pub(super) fn v2(accept: &str, kubernetes: KubernetesVersion) -> ApiResponse {
    if accept.split(',').any(|range| [V2_PROTOBUF, V2_PROTOBUF_OLD].contains(&range.trim())) {
        return response::raw_response(StatusCode::OK, V2_PROTOBUF, V2_EMPTY);
    }
    let info = info(kubernetes);
    let document = json!({ "swagger": "2.0", "info": info, "paths": {}, "definitions": {} });
    response::object_response(StatusCode::OK, Encoding::Json, &document)
}

fn info(kubernetes: KubernetesVersion) -> Value {
    json!({ "title": "Kubernetes", "version": kubernetes.git_version() })
}

/// The OpenAPI version 3 documents, cached until the kinds change.
#[derive(Debug, Default)]
pub(super) struct Documents {
    cache: Mutex<CachedDocuments>,
}

#[derive(Debug, Default)]
struct CachedDocuments {
    edition: Option<u64>,
    documents: BTreeMap<String, Bytes>,
}

impl Documents {
    /// The index at `/openapi/v3`: the paths of the documents.
    pub(super) fn document_index(store: &SharedStore) -> Value {
        let mut paths = Map::new();
        let entries = store.read(|store| {
            let kinds = store.kinds();
            let fingerprint = |(group, version): (String, String)| {
                let of_version = served_kinds(kinds, &group, &version);
                let print = document_hash(&of_version, &version, store.feature_gates.version());
                (document_path(&group, &version), print)
            };
            group_version_pairs(kinds).into_iter().map(fingerprint).collect::<Vec<_>>()
        });
        for (path, hash) in entries {
            let url = format!("/openapi/v3/{path}?hash={hash:016X}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
        json!({ "paths": paths })
    }

    /// The document of a group version, at `/openapi/v3/…`.
    pub(super) fn document(
        &self,
        store: &SharedStore,
        group: &str,
        version: &str,
    ) -> Result<Bytes, ApiError> {
        let (edition, kinds, kubernetes) = store.read(|store| {
            let kinds = store.kinds();
            let of_version = served_kinds(kinds, group, version);
            (kinds.edition(), of_version, store.feature_gates.version())
        });
        if kinds.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        let mut built = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if built.edition != Some(edition) {
            *built = CachedDocuments { edition: Some(edition), documents: BTreeMap::new() };
        }
        let path = document_path(group, version);
        let document = built
            .documents
            .entry(path)
            .or_insert_with(|| build_document(&kinds, version, kubernetes).to_string().into());
        Ok(document.clone())
    }
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// A hash that identifies a document without building it. Clients cache a document by its hash.
fn document_hash(kinds: &[Arc<Kind>], version: &str, kubernetes: KubernetesVersion) -> u64 {
    let mut hasher = DefaultHasher::new();
    kubernetes.git_version().hash(&mut hasher);
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for kind in kinds {
        kind.resource.hash(&mut hasher);
        kind.kind.hash(&mut hasher);
        let schema = kind.version(version).and_then(|version| version.schema.as_ref());
        schema.map(|schema| schema.raw.to_string()).hash(&mut hasher);
    }
    hasher.finish()
}

fn group_version_pairs(kinds: &Kinds) -> Vec<(String, String)> {
    let mut groups: Vec<&str> = kinds.iter().map(|kind| &*kind.resource.group).collect();
    groups.dedup();
    let of_group = |group: &&str| -> Vec<(String, String)> {
        let versions = group_versions(kinds, group);
        versions.iter().map(|version| ((*group).to_owned(), (*version).to_owned())).collect()
    };
    groups.iter().flat_map(of_group).collect()
}

fn served_kinds(kinds: &Kinds, group: &str, version: &str) -> Vec<Arc<Kind>> {
    let is_served = |kind: &&Arc<Kind>| {
        *kind.resource.group == *group && kind.version(version).is_some_and(|found| found.served)
    };
    kinds.iter().filter(is_served).cloned().collect()
}

fn build_document(kinds: &[Arc<Kind>], version: &str, kubernetes: KubernetesVersion) -> Value {
    let mut schemas = builtin::Schemas::of_version(kubernetes);
    let mut paths = Map::new();
    for kind in kinds {
        let schema = schema_name(kind, version);
        if kind.origin == Origin::Custom {
            schemas.add_custom(&schema, kind, version);
        } else {
            schemas.add_builtin(&schema, kind, version);
        }
        paths::add_kind_paths(&mut paths, kind, version, &schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": info(kubernetes),
        "paths": paths,
        "components": {"schemas": schemas.into_definitions()},
    })
}

/// The name of a kind's schema in the document. For a custom kind the name starts with the reversed
/// group.
fn schema_name(kind: &Kind, version: &str) -> String {
    if let Some(name) = builtin::built_in_schema_name(kind, version) {
        return name;
    }
    let mut parts: Vec<&str> = kind.resource.group.split('.').rev().collect();
    parts.push(version);
    parts.push(&kind.kind);
    parts.join(".")
}

/// The value of `x-kubernetes-group-version-kind` for a kind.
fn group_version_kind(kind: &Kind, version: &str) -> Value {
    json!({"group": &*kind.resource.group, "version": version, "kind": &*kind.kind})
}
