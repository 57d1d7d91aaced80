//! OpenAPI v3: what kubectl needs to apply (operations that know `fieldValidation`, merge keys)
//! and to explain (schemas). Built-in schemas come from the API types, custom ones from CRDs.
//! Version 2 describes nothing: clients that read it then leave judging to the server.

mod builtin;
mod paths;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use ::http::StatusCode;
use hyper::body::Bytes;

use super::KUBERNETES_VERSION;
use super::accept::Encoding;
use super::discovery::group_versions;
use super::reply::{self, Reply};
use crate::error::ApiError;
use crate::kinds::{Kind, Kinds, Origin};
use crate::shared::SharedStore;
use schedlab_json::{Map, Value, json};

/// Version 2 in protobuf. Older clients ask for it with `@` before `v1.0`.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// Its field 1, the version, which says "2.0".
const V2_EMPTY: &[u8] = b"\x0a\x032.0";

/// `/openapi/v2`: a document without definitions.
pub(super) fn v2(accept: &str) -> Reply {
    if accept.split(',').any(|range| [V2_PROTOBUF, V2_PROTOBUF_OLD].contains(&range.trim())) {
        return reply::raw(StatusCode::OK, V2_PROTOBUF, V2_EMPTY);
    }
    let info = json!({ "title": "Kubernetes", "version": KUBERNETES_VERSION });
    let document = json!({ "swagger": "2.0", "info": info, "paths": {}, "definitions": {} });
    reply::object(StatusCode::OK, Encoding::Json, &document)
}

/// The documents, kept until the kinds change.
#[derive(Debug, Default)]
pub(super) struct Documents {
    built: Mutex<Built>,
}

#[derive(Debug, Default)]
struct Built {
    edition: Option<u64>,
    documents: BTreeMap<String, Bytes>,
}

impl Documents {
    /// `/openapi/v3`: where the documents are.
    pub(super) fn index(store: &SharedStore) -> Value {
        let mut paths = Map::new();
        let entries = store.read(|store| {
            let kinds = store.kinds();
            let fingerprint = |(group, version): (String, String)| {
                let print = fingerprint(&served(kinds, &group, &version), &version);
                (path_of(&group, &version), print)
            };
            group_version_pairs(kinds).into_iter().map(fingerprint).collect::<Vec<_>>()
        });
        for (path, hash) in entries {
            let url = format!("/openapi/v3/{path}?hash={hash:016X}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
        json!({ "paths": paths })
    }

    /// `/openapi/v3/…`: everything about one version of a group.
    pub(super) fn of(
        &self,
        store: &SharedStore,
        group: &str,
        version: &str,
    ) -> Result<Bytes, ApiError> {
        let (edition, kinds) = store.read(|store| {
            let kinds = store.kinds();
            (kinds.edition(), served(kinds, group, version))
        });
        if kinds.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if built.edition != Some(edition) {
            *built = Built { edition: Some(edition), documents: BTreeMap::new() };
        }
        let path = path_of(group, version);
        let document = built
            .documents
            .entry(path)
            .or_insert_with(|| document(&kinds, version).to_string().into());
        Ok(document.clone())
    }
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Tells documents apart without building them: clients keep a document for as long as this
/// stays the same.
fn fingerprint(kinds: &[Arc<Kind>], version: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    KUBERNETES_VERSION.hash(&mut hasher);
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

fn served(kinds: &Kinds, group: &str, version: &str) -> Vec<Arc<Kind>> {
    let is_served = |kind: &&Arc<Kind>| {
        *kind.resource.group == *group && kind.version(version).is_some_and(|found| found.served)
    };
    kinds.iter().filter(is_served).cloned().collect()
}

fn document(kinds: &[Arc<Kind>], version: &str) -> Value {
    let mut schemas = builtin::Schemas::default();
    let mut paths = Map::new();
    for kind in kinds {
        let schema = schema_name(kind, version);
        if kind.origin == Origin::Custom {
            schemas.add_custom(&schema, kind, version);
        } else {
            schemas.add_builtin(&schema, kind, version);
        }
        paths::add(&mut paths, kind, version, &schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": KUBERNETES_VERSION},
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    })
}

/// The name of a kind's schema. Custom ones carry their group backwards.
fn schema_name(kind: &Kind, version: &str) -> String {
    if let Some(name) = builtin::type_name(kind, version) {
        return name;
    }
    let mut parts: Vec<&str> = kind.resource.group.split('.').rev().collect();
    parts.push(version);
    parts.push(&kind.kind);
    parts.join(".")
}

/// `x-kubernetes-group-version-kind` of a kind.
fn group_version_kind(kind: &Kind, version: &str) -> Value {
    json!({"group": &*kind.resource.group, "version": version, "kind": &*kind.kind})
}
