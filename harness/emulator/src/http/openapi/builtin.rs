//! Schemas of kinds. Those of built-in kinds come from the Rust types, with merge keys and
//! group-version-kinds added here. Those of custom kinds come from their CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};

use super::group_version_kind;
use crate::api_types::kinds::{Kind, typed};
use crate::api_types::kubernetes_version::KubernetesVersion;
use crate::requests::patch_types::{ListShape, MergeShape, builtin_shape};
use schedlab_api::{Map, Value, json, object};

/// Collects the schemas of a document.
pub(super) struct Schemas {
    generator: SchemaGenerator,
    kinds: Vec<(String, Value, Arc<MergeShape>)>,
    custom: BTreeMap<String, Value>,
    version: KubernetesVersion,
}

impl Schemas {
    /// No schemas of a version of Kubernetes.
    pub(super) fn of_version(version: KubernetesVersion) -> Self {
        Self {
            generator: SchemaGenerator::new(SchemaSettings::openapi3()),
            kinds: Vec::new(),
            custom: BTreeMap::new(),
            version,
        }
    }
}

/// The schema name of a built-in kind's type.
pub(super) fn built_in_schema_name(kind: &Kind, version: &str) -> Option<String> {
    add_kind_schema(kind, version, &mut SchemaGenerator::default())
}

fn add_kind_schema(kind: &Kind, version: &str, generator: &mut SchemaGenerator) -> Option<String> {
    if kind.is("autoscaling", "HorizontalPodAutoscaler") && version == "v1" {
        return Some(schema_name_of::<HorizontalPodAutoscaler>(generator));
    }
    if kind.is("events.k8s.io", "Event") {
        return Some(schema_name_of::<Event>(generator));
    }
    if kind.is("apiextensions.k8s.io", "CustomResourceDefinition") {
        return Some(schema_name_of::<CustomResourceDefinition>(generator));
    }
    typed::add_kind_schema(kind, generator)
}

fn schema_name_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

fn schema_reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

impl Schemas {
    pub(super) fn add_builtin(&mut self, name: &str, kind: &Kind, version: &str) {
        add_kind_schema(kind, version, &mut self.generator);
        let shape = builtin_shape(&kind.resource.group, &kind.kind);
        self.kinds.push((name.to_owned(), group_version_kind(kind, version), shape));
    }

    pub(super) fn add_custom(&mut self, name: &str, kind: &Kind, version: &str) {
        let schema = kind.version(version).and_then(|version| version.schema.as_ref());
        let mut schema = schema.map_or_else(|| json!({"type": "object"}), |s| s.raw.clone());
        let metadata = schema_name_of::<ObjectMeta>(&mut self.generator);
        let standard: Value = ConfigMap::json_schema(&mut self.generator).to_value().into();
        let mut whole = Map::new();
        for field in ["apiVersion", "kind"] {
            whole.insert(field, standard["properties"][field].clone());
        }
        let described = json!({
            "allOf": [schema_reference(&metadata)],
            "description": standard["properties"]["metadata"]["description"],
        });
        whole.insert("metadata", described);
        add_to_embedded_objects(&mut schema, &whole);
        add_type_and_metadata(&mut schema, &whole);
        self.custom.insert(name.to_owned(), schema);
        let shape = Arc::default();
        self.kinds.push((name.to_owned(), group_version_kind(kind, version), shape));
    }

    /// The added schemas, and the schemas that they reference.
    pub(super) fn into_definitions(mut self) -> Map {
        let mut schemas = Map::from(self.generator.take_definitions(false));
        typed::schemas_of_version(self.version, &mut schemas);
        for schema in schemas.values_mut() {
            wrap_references(schema);
            make_metadata_optional(schema);
        }
        schemas.extend(self.custom);
        let mut seen = BTreeSet::new();
        for (name, group_version_kind, shape) in self.kinds {
            add_merge_keys(&mut schemas, &name, &shape, &mut seen);
            if let Some(schema) = schemas.get_mut(&name) {
                schema["x-kubernetes-group-version-kind"] = json!([group_version_kind]);
            }
        }
        schemas
    }
}

/// Removes `metadata` from the required fields: the Rust types require it, the API does not.
fn make_metadata_optional(schema: &mut Value) {
    let mut required = object::list(schema, &["required"]).to_vec();
    required.retain(|name| *name != "metadata");
    if required.is_empty() {
        object::remove(schema, &["required"]);
    } else {
        schema["required"] = required.into();
    }
}

/// Adds apiVersion, kind and metadata.
fn add_type_and_metadata(schema: &mut Value, whole: &Map) {
    for (field, property) in whole {
        schema["properties"][field.as_str()] = property.clone();
    }
}

/// Adds apiVersion, kind and metadata to the schemas of embedded objects.
fn add_to_embedded_objects(schema: &mut Value, whole: &Map) {
    for keyword in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(keyword).filter(|child| child.is_object()) {
            add_to_embedded_objects(child, whole);
        }
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for property in properties.into_iter().flat_map(Map::values_mut) {
        add_to_embedded_objects(property, whole);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        add_type_and_metadata(schema, whole);
        let mut required = object::list(schema, &["required"]).to_vec();
        let added = ["kind", "apiVersion"].map(Value::from);
        required.extend(
            added.into_iter().filter(|name| !object::list(schema, &["required"]).contains(name)),
        );
        schema["required"] = required.into();
    }
}

/// Wraps `$ref` in `allOf` where it has siblings, which OpenAPI 3.0 forbids.
fn wrap_references(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A property may be named `$ref`; its value is no string.
            if fields.len() > 1
                && fields.get("$ref").is_some_and(Value::is_string)
                && let Some(target) = fields.remove("$ref")
            {
                fields.insert("allOf", json!([{ "$ref": target }]));
            }
            fields.values_mut().for_each(wrap_references);
        }
        Value::Array(items) => items.iter_mut().for_each(wrap_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Adds the merge keys to a type and, recursively, to the types of its fields.
fn add_merge_keys(schemas: &mut Map, name: &str, shape: &MergeShape, seen: &mut BTreeSet<String>) {
    if !seen.insert(name.to_owned()) {
        return;
    }
    for (field, inner) in &shape.fields {
        let Some(property) = schemas
            .get_mut(name)
            .and_then(|schema| schema.get_mut("properties"))
            .and_then(|properties| properties.get_mut(&**field))
        else {
            continue;
        };
        add_extensions(property, inner);
        let is_list = property.get("items").is_some();
        let target = referenced_type(if is_list { &property["items"] } else { property });
        if let Some(target) = target {
            let shape = if is_list { inner.item_shape() } else { inner };
            add_merge_keys(schemas, &target, shape, seen);
        }
    }
}

fn add_extensions(property: &mut Value, shape: &MergeShape) {
    let strategy = &shape.strategy;
    if let Some(key) = &strategy.merge_key {
        property["x-kubernetes-patch-merge-key"] = json!(key);
    }
    if strategy.merge_key.is_some() || strategy.merge_values {
        property["x-kubernetes-patch-strategy"] = json!("merge");
    } else if strategy.replace {
        property["x-kubernetes-patch-strategy"] = json!("replace");
    }
    if shape.atomic {
        property["x-kubernetes-map-type"] = json!("atomic");
    }
    match &shape.list {
        ListShape::Atomic => {}
        ListShape::Set => property["x-kubernetes-list-type"] = json!("set"),
        ListShape::Keyed(keys) => {
            let keys: Vec<&str> = keys.iter().map(|(key, _)| &**key).collect();
            property["x-kubernetes-list-type"] = json!("map");
            property["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
}

fn referenced_type(schema: &Value) -> Option<String> {
    let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"))?;
    reference.as_str()?.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::api_types::kinds::from_crd;

    #[test]
    fn metadata_may_be_left_out() {
        let mut schemas = Schemas::of_version(KubernetesVersion::default());
        let name = schema_name_of::<Pod>(&mut schemas.generator);
        let pod = schemas.into_definitions().get(&name).unwrap().clone();
        assert!(pod["properties"]["metadata"].is_object());
        assert!(!object::list(&pod, &["required"]).contains(&"metadata".into()));
    }

    #[test]
    fn an_embedded_object_is_described_with_its_type_and_metadata() {
        let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema":
            {"openAPIV3Schema": {"type": "object", "properties": {
                "list": {"type": "array", "items": embedded}}}}});
        let (kind, _) = from_crd(&json!({"metadata": {"name": "as.b.c"}, "spec": {
            "group": "b.c", "scope": "Cluster", "names": {"plural": "as", "kind": "A"},
            "versions": [version]}}));
        let mut schemas = Schemas::of_version(KubernetesVersion::default());
        schemas.add_custom("A", &kind, "v1");
        let described = schemas.into_definitions();
        let items = &described.get("A").unwrap()["properties"]["list"]["items"];
        assert_eq!(items["required"], json!(["kind", "apiVersion"]));
        for field in ["apiVersion", "kind", "metadata"] {
            assert_eq!(
                items["properties"][field],
                described.get("A").unwrap()["properties"][field]
            );
        }
    }
}
