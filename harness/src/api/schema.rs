//! Which fields a kind has, as the cluster's own `OpenAPI` documents say.

use schedlab_json::{Map, Value};

use super::{Api, root};

impl Api {
    /// The fields that may stand where `path` stands in objects of a kind, by name; nothing when
    /// the cluster does not say.
    pub async fn fields_beside(&self, version: &str, kind: &str, path: &str) -> Vec<String> {
        match self.get(&format!("/openapi/v3{}", root(version))).await {
            Ok(document) => fields(&document["components"]["schemas"], kind, path),
            Err(_) => Vec::new(),
        }
    }
}

fn fields(schemas: &Value, kind: &str, path: &str) -> Vec<String> {
    let of_kind = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.into_iter().flatten().any(|known| known["kind"] == kind)
    };
    let all = schemas.as_object().into_iter().flat_map(Map::values);
    let whole = all.into_iter().find(of_kind).unwrap_or(&Value::Null);
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    let steps = parent.split(['.', '[']).filter(|step| !step.is_empty());
    let place = steps.fold(whole, |schema, step| resolved(schemas, inner(schema, step)));
    let names = place["properties"].as_object().into_iter().flat_map(Map::keys);
    names.map(ToString::to_string).collect()
}

/// The schema one step down: of a field, or of the items or values.
fn inner<'s>(schema: &'s Value, step: &str) -> &'s Value {
    if step.ends_with(']') {
        return &schema["items"];
    }
    schema["properties"].get(step).unwrap_or(&schema["additionalProperties"])
}

/// What a schema refers to, or itself.
fn resolved<'s>(schemas: &'s Value, schema: &'s Value) -> &'s Value {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
    let name = reference.and_then(Value::as_str).and_then(|text| text.rsplit('/').next());
    name.map_or(schema, |name| &schemas[name])
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

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
        let beside = |path| fields(&schemas, "Pod", path).join(" ");
        assert_eq!(beside("spek"), "spec");
        assert_eq!(beside("spec.nodeSelektor"), "containers nodeSelector");
        assert_eq!(beside("spec.containers[0].imagge"), "image name");
        assert_eq!(beside("spec.nothing.here"), "");
        assert_eq!(fields(&schemas, "Job", "x"), Vec::<String>::new());
    }
}
