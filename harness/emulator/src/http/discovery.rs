//! API discovery of groups, versions and resources: per group, and aggregated.

use ::http::StatusCode;

use super::accept::{Accept, ResponseFormat};
use super::access_review::REVIEW_RESOURCES;
use super::response::{self, ApiResponse};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::{Kind, Kinds, version_rank};
use schedlab_api::{Value, json};

const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The discovery order of built-in groups, in which clients resolve names. Other groups follow by
/// name.
const GROUP_ORDER: [&str; 17] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
];

/// A resource in discovery.
struct ResourceEntry<'k> {
    plural: &'k str,
    singular: &'k str,
    kind: &'k str,
    namespaced: bool,
    verbs: Vec<&'static str>,
    short_names: Vec<&'k str>,
    categories: Vec<&'k str>,
    subresources: Vec<SubresourceEntry>,
}

/// A subresource in discovery. `kind` is the group, version and kind of its body; `None` for that
/// of the object itself.
struct SubresourceEntry {
    name: &'static str,
    kind: Option<(&'static str, &'static str, &'static str)>,
    verbs: Vec<&'static str>,
}

/// The groups except the core group, in discovery order.
fn group_names(kinds: &Kinds) -> Vec<&str> {
    let mut names: Vec<&str> = kinds.iter().map(|kind| &*kind.resource.group).collect();
    names.extend(REVIEW_RESOURCES.iter().map(|(group, _, _)| *group));
    names.retain(|group| !group.is_empty());
    let position = |group: &str| GROUP_ORDER.iter().position(|known| *known == group);
    names.sort_by_key(|group| (position(group).unwrap_or(usize::MAX), *group));
    names.dedup();
    names
}

/// The served versions of a group, the preferred one first.
pub(super) fn group_versions<'k>(kinds: &'k Kinds, group: &str) -> Vec<&'k str> {
    let mut versions: Vec<&str> = kinds
        .iter()
        .filter(|kind| *kind.resource.group == *group)
        .flat_map(|kind| kind.versions.iter().filter(|version| version.served))
        .map(|version| &*version.name)
        .collect();
    if REVIEW_RESOURCES.iter().any(|review| review.0 == group) {
        versions.push("v1");
    }
    versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
    versions.dedup();
    versions
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The response to `/`: the list of all paths.
pub(super) fn root(kinds: &Kinds) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in group_names(kinds) {
        paths.push(format!("/apis/{group}"));
        let versions = group_versions(kinds, group);
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    let others = ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"];
    paths.extend(others.map(str::to_owned));
    json!({ "paths": paths })
}

/// The response to `/api`: discovery of the core group.
pub(super) fn core(kinds: &Kinds, accept: &Accept) -> ApiResponse {
    if let ResponseFormat::Discovery(form) = accept.format {
        return aggregated(kinds, &[""], form);
    }
    let versions = json!({
        "kind": "APIVersions",
        "versions": group_versions(kinds, ""),
        "serverAddressByClientCIDRs":
            [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    });
    response::object_response(StatusCode::OK, accept.encoding, &versions)
}

/// The response to `/apis`: discovery of the API groups.
pub(super) fn groups(kinds: &Kinds, accept: &Accept) -> ApiResponse {
    let names = group_names(kinds);
    if let ResponseFormat::Discovery(form) = accept.format {
        return aggregated(kinds, &names, form);
    }
    let groups: Vec<Value> = names.iter().map(|group| group_entry(kinds, group)).collect();
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    response::object_response(StatusCode::OK, accept.encoding, &list)
}

/// The response to `/apis/{group}`: discovery of one API group.
pub(super) fn group(kinds: &Kinds, group: &str) -> Result<Value, ApiError> {
    if group_versions(kinds, group).is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let mut entry = group_entry(kinds, group);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Ok(entry)
}

fn group_entry(kinds: &Kinds, group: &str) -> Value {
    let versions: Vec<Value> = group_versions(kinds, group)
        .iter()
        .map(|version| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// The response to `/api/v1` or `/apis/{group}/{version}`: the resources of a version.
pub(super) fn resources(kinds: &Kinds, group: &str, version: &str) -> Result<Value, ApiError> {
    let entries = entries(kinds, group, version);
    if entries.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let mut resources = Vec::new();
    for entry in &entries {
        let mut resource = json!({
            "name": entry.plural,
            "singularName": entry.singular,
            "namespaced": entry.namespaced,
            "kind": entry.kind,
            "verbs": entry.verbs,
        });
        if !entry.short_names.is_empty() {
            resource["shortNames"] = json!(entry.short_names);
        }
        if !entry.categories.is_empty() {
            resource["categories"] = json!(entry.categories);
        }
        resources.push(resource);
        resources.extend(entry.subresources.iter().map(|part| subresource_json(entry, part)));
    }
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": resources,
    }))
}

fn subresource_json(entry: &ResourceEntry<'_>, part: &SubresourceEntry) -> Value {
    let mut resource = json!({
        "name": format!("{}/{}", entry.plural, part.name),
        "singularName": "",
        "namespaced": entry.namespaced,
        "kind": part.kind.map_or(entry.kind, |(_, _, kind)| kind),
        "verbs": part.verbs,
    });
    if let Some((group, version, _)) = part.kind {
        resource["group"] = json!(group);
        resource["version"] = json!(version);
    }
    resource
}

fn entries<'k>(kinds: &'k Kinds, group: &str, version: &str) -> Vec<ResourceEntry<'k>> {
    let served = |kind: &&Kind| {
        *kind.resource.group == *group && kind.version(version).is_some_and(|found| found.served)
    };
    let mut entries: Vec<ResourceEntry<'_>> =
        kinds.iter().map(AsRef::as_ref).filter(served).map(|kind| entry(kind, version)).collect();
    let reviews = REVIEW_RESOURCES.iter().filter(|review| review.0 == group && version == "v1");
    entries.extend(reviews.map(|(_, plural, kind)| ResourceEntry {
        plural,
        singular: "",
        kind,
        namespaced: false,
        verbs: vec!["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
    }));
    entries
}

fn entry<'k>(kind: &'k Kind, version: &str) -> ResourceEntry<'k> {
    let is_namespace = kind.is("", "Namespace");
    let can = |verb: &&str| !(is_namespace && *verb == "deletecollection");
    ResourceEntry {
        plural: &kind.resource.plural,
        singular: &kind.singular,
        kind: &kind.kind,
        namespaced: kind.namespaced,
        verbs: ALL_VERBS.into_iter().filter(can).collect(),
        short_names: kind.short_names.iter().map(AsRef::as_ref).collect(),
        categories: kind.categories.iter().map(AsRef::as_ref).collect(),
        subresources: subresources(kind, version),
    }
}

fn subresources(kind: &Kind, version: &str) -> Vec<SubresourceEntry> {
    let part = |name, speaks, verbs: &[&'static str]| SubresourceEntry {
        name,
        kind: speaks,
        verbs: verbs.to_vec(),
    };
    let write = ["get", "patch", "update"];
    let mut parts = Vec::new();
    if kind.is("", "Pod") {
        parts.push(part("binding", Some(("", "v1", "Binding")), &["create"]));
        parts.push(part("ephemeralcontainers", None, &write));
        parts.push(part("eviction", Some(("policy", "v1", "Eviction")), &["create"]));
        parts.push(part("log", None, &["get"]));
        parts.push(part("resize", None, &write));
    }
    if kind.is("", "Namespace") {
        parts.push(part("finalize", None, &["update"]));
    }
    let version = kind.version(version);
    if version.is_some_and(|version| version.scale.is_some()) {
        parts.push(part("scale", Some(("autoscaling", "v1", "Scale")), &write));
    }
    if version.is_some_and(|version| version.status) {
        parts.push(part("status", None, &write));
    }
    parts
}

fn aggregated(kinds: &Kinds, groups: &[&str], form: &str) -> ApiResponse {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let versions: Vec<Value> = group_versions(kinds, group)
                .iter()
                .map(|version| aggregated_version(kinds, group, version))
                .collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{form}"),
        "metadata": {},
        "items": items,
    });
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList");
    response::raw_response(StatusCode::OK, &content_type, list.to_string())
}

fn aggregated_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let resources: Vec<Value> = entries(kinds, group, version)
        .iter()
        .map(|entry| {
            let mut resource = json!({
                "resource": entry.plural,
                "responseKind": {"group": group, "version": version, "kind": entry.kind},
                "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": entry.singular,
                "verbs": entry.verbs,
            });
            if !entry.short_names.is_empty() {
                resource["shortNames"] = json!(entry.short_names);
            }
            if !entry.categories.is_empty() {
                resource["categories"] = json!(entry.categories);
            }
            let parts: Vec<Value> = entry
                .subresources
                .iter()
                .map(|part| {
                    let (group, version, kind) = part.kind.unwrap_or((group, version, entry.kind));
                    json!({
                        "subresource": part.name,
                        "responseKind": {"group": group, "version": version, "kind": kind},
                        "verbs": part.verbs,
                    })
                })
                .collect();
            if !parts.is_empty() {
                resource["subresources"] = json!(parts);
            }
            resource
        })
        .collect();
    json!({"version": version, "freshness": "Current", "resources": resources})
}
