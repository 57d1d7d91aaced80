//! The fields of a kind, from the cluster's own `OpenAPI` documents.

use schedlab_api::{Map, Value};

use super::{Api, api_root_path};

impl Api {
    /// The names of the fields beside the field `path` in objects of a kind; empty if the cluster
    /// publishes no schema.
    pub async fn sibling_fields(&self, version: &str, kind: &str, path: &str) -> Vec<String> {
        match self.get(&format!("/openapi/v3{}", api_root_path(version))).await {
            Ok(document) => field_names_at_path(&document["components"]["schemas"], kind, path),
            Err(_) => Vec::new(),
        }
    }
}

fn field_names_at_path(schemas: &Value, kind: &str, path: &str) -> Vec<String> {
    let of_kind = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|known| known["kind"] == kind)
    };
    let all = schemas.as_object().into_iter().flat_map(Map::values);
    let whole = all.into_iter().find(of_kind).unwrap_or(&Value::Null);
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    let steps = parent.split(['.', '[']).filter(|step| !step.is_empty());
    let schema_at = steps.fold(whole, |schema, step| {
        resolve_schema_ref(schemas, child_schema_of_step(schema, step))
    });
    let names = schema_at["properties"].as_object().into_iter().flat_map(Map::keys);
    names.map(ToString::to_string).collect()
}

/// The schema one step down a field path: of a field, of list items, or of map values.
fn child_schema_of_step<'s>(schema: &'s Value, step: &str) -> &'s Value {
    if step.ends_with(']') {
        return &schema["items"];
    }
    schema["properties"].get(step).unwrap_or(&schema["additionalProperties"])
}

/// The schema to which a `$ref` points, or the schema itself if it is no reference.
fn resolve_schema_ref<'s>(schemas: &'s Value, schema: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
    let name = reference.and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
    name.map_or(schema, |name| &schemas[name])
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn fields_are_found_through_references_and_lists() {
        let schemas = json!({
            "v1.Pod": {
                "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Pod"}],
                "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]}},
            },
            "Spec": {"properties": {
                "containers": {"items": {"$ref": "#/components/schemas/Container"}},
                "nodeSelector": {"additionalProperties": {"type": "string"}},
            }},
            "Container": {"properties": {"image": {}, "name": {}}},
        });
        let siblings = |path| field_names_at_path(&schemas, "Pod", path).join(" ");
        assert_eq!(siblings("spek"), "spec");
        assert_eq!(siblings("spec.nodeSelektor"), "containers nodeSelector");
        assert_eq!(siblings("spec.containers[0].imagge"), "image name");
        assert_eq!(siblings("spec.nothing.here"), "");
        assert_eq!(field_names_at_path(&schemas, "Job", "x"), Vec::<String>::new());
    }
}
