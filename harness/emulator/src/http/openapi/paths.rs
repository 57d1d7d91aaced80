//! The operations of a kind that kubectl reads.

use super::group_version_kind;
use crate::api_types::kinds::Kind;
use schedlab_api::{Map, Value, json};

/// Adds the request paths of a kind to the OpenAPI document. `schema` is the name of the kind's
/// schema.
pub(super) fn add_kind_paths(paths: &mut Map, kind: &Kind, version: &str, schema: &str) {
    let group = &*kind.resource.group;
    let base = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let plural = &*kind.resource.plural;
    let collection = if kind.namespaced {
        format!("{base}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{base}/{plural}")
    };
    let operations = Operations { kind, version, schema };
    paths.insert(
        collection.clone(),
        json!({
            "get": operations.operation("list", &[]),
            "post": operations.operation("post", &["dryRun", "fieldManager", "fieldValidation"]),
            "delete": operations.operation("deletecollection", &[]),
        }),
    );
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({
            "get": operations.operation("get", &[]),
            "put": operations.operation("put", &["dryRun", "fieldManager", "fieldValidation"]),
            "patch": operations.operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]),
            "delete": operations.operation("delete", &["dryRun"]),
        }),
    );
    if kind.namespaced {
        paths.insert(format!("{base}/{plural}"), json!({"get": operations.operation("list", &[])}));
    }
}

struct Operations<'k> {
    kind: &'k Kind,
    version: &'k str,
    schema: &'k str,
}

impl Operations<'_> {
    fn operation(&self, action: &str, parameters: &[&str]) -> Value {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| {
                let kind = if *name == "force" { "boolean" } else { "string" };
                let schema = json!({"type": kind, "uniqueItems": true});
                json!({"name": name, "in": "query", "schema": schema})
            })
            .collect();
        let reference = json!({"$ref": format!("#/components/schemas/{}", self.schema)});
        let content = json!({"application/json": {"schema": reference}});
        let mut operation = json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_version_kind(self.kind, self.version),
        });
        if matches!(action, "post" | "put") {
            operation["requestBody"] = json!({"content": {"*/*": {"schema": reference}}});
        }
        operation
    }
}
