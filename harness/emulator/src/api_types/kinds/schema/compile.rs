//! Compiles an `openAPIV3Schema` to a [`Schema`].

use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;

use super::{
    AdditionalProperties, Constraints, Embedded, ListType, Schema, Type, declaration,
    rule_evaluation, structural,
};
use crate::api_types::error::FieldErrors;
use schedlab_api::{Value, object};

/// A cache of the latest valid schemas: the clusters of one process use the same few CRDs.
static COMPILED: Mutex<Vec<Arc<Schema>>> = Mutex::new(Vec::new());
const COMPILED_SCHEMAS_MAX: usize = 32;

/// Compiles the schema at `field` of a CRD. Errors are added to `errors`.
pub fn compile_schema(raw: &Value, field: &str, errors: &mut FieldErrors) -> Arc<Schema> {
    let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known().iter().find(|schema| schema.raw == *raw) {
        return Arc::clone(compiled);
    }
    let mut schema = compile_schema_part(raw);
    schema.raw = raw.clone();
    schema.cel = rule_evaluation::compile_rules(raw, true);
    let schema = Arc::new(schema);
    let mut schema_errors = FieldErrors::new();
    structural::check_structural_schema(raw, field, &mut schema_errors);
    if schema_errors.is_empty() {
        schema.check_defaults(raw, field, &mut schema_errors);
    }
    declaration::check_declared_schema(raw, field, &mut schema_errors);
    if schema_errors.is_empty() {
        let mut known = known();
        if known.len() == COMPILED_SCHEMAS_MAX {
            known.remove(0);
        }
        known.push(Arc::clone(&schema));
    }
    errors.extend(schema_errors);
    schema
}

fn compile_schema_part(raw: &Value) -> Schema {
    let flag = |name: &str| raw[name] == true;
    let branches =
        |name: &str| object::list(raw, &[name]).iter().map(compile_schema_part).collect();
    let one =
        |name: &str| raw.get(name).filter(|schema| schema.is_object()).map(compile_schema_part);
    let properties = object::map(raw, &["properties"]).into_iter().flatten();
    let mut schema = Schema {
        kind: parse_type(raw),
        nullable: flag("nullable"),
        default: raw.get("default").filter(|default| !default.is_null()).cloned(),
        properties: properties
            .map(|(name, property)| (name.to_string(), compile_schema_part(property)))
            .collect(),
        required: string_items(&raw["required"]),
        additional: match one("additionalProperties") {
            Some(values) => AdditionalProperties::Values(Box::new(values)),
            None if flag("additionalProperties") => AdditionalProperties::Any,
            None => AdditionalProperties::None,
        },
        items: one("items").map(Box::new),
        constraints: parse_constraints(raw),
        list_type: parse_list_type(raw),
        all_of: branches("allOf"),
        any_of: branches("anyOf"),
        one_of: branches("oneOf"),
        not: one("not").map(Box::new),
        preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        ..Schema::default()
    };
    if flag("x-kubernetes-embedded-resource") {
        schema.embedded = Embedded::Here;
    } else if schema.child_schemas().any(Schema::holds_embedded) {
        schema.embedded = Embedded::Below;
    }
    schema
}

fn parse_type(raw: &Value) -> Option<Type> {
    if raw["x-kubernetes-int-or-string"] == true {
        return Some(Type::IntOrString);
    }
    Some(match raw["type"].as_str()? {
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => return None,
    })
}

fn parse_constraints(raw: &Value) -> Constraints {
    let count =
        |name: &str| raw[name].as_u64().map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let bound = |name: &str, exclusive: &str| Some((raw[name].as_f64()?, raw[exclusive] == true));
    Constraints {
        enum_values: raw["enum"].as_array().cloned(),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: raw["multipleOf"].as_f64(),
        lengths: (count("minLength"), count("maxLength")),
        items: (count("minItems"), count("maxItems")),
        properties: (count("minProperties"), count("maxProperties")),
        pattern: raw["pattern"].as_str().and_then(|pattern| Regex::new(pattern).ok()),
        format: raw["format"].as_str().map(str::to_owned),
    }
}

pub(super) fn parse_list_type(raw: &Value) -> ListType {
    match raw["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(string_items(&raw["x-kubernetes-list-map-keys"])),
        Some(_) | None => ListType::Atomic,
    }
}

fn string_items(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_valid_schema_is_compiled_once_and_an_invalid_one_is_reported_each_time() {
        let sound = json!({"type": "object", "description": "of this test"});
        let mut errors = FieldErrors::new();
        let [first, again] = [(); 2].map(|()| compile_schema(&sound, "schema", &mut errors));
        assert!(Arc::ptr_eq(&first, &again));
        assert!(errors.is_empty());
        let wrong = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
        for field in ["one", "other"] {
            let mut errors = FieldErrors::new();
            compile_schema(&wrong, field, &mut errors);
            let reported = &errors.causes()[0].field;
            assert!(reported.starts_with(field), "{reported}");
        }
    }
}
