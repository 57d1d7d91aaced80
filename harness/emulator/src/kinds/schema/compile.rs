//! From `openAPIV3Schema` to [`Schema`], with everything that makes it no structural schema.

use std::sync::{Arc, Mutex, PoisonError};

use regex::Regex;

use super::{Additional, Embedded, ListType, Rules, Schema, Type, rules};
use crate::error::FieldErrors;
use crate::object;
use schedlab_json::Value;

/// Schemas of which nothing was wrong, the last ones: the clusters of one process have the same
/// few again and again.
static COMPILED: Mutex<Vec<Arc<Schema>>> = Mutex::new(Vec::new());
const COMPILED_MAX: usize = 32;

/// Compiles the schema at `field` of a CRD. What is wrong goes to `errors`.
pub fn compile(raw: &Value, field: &str, errors: &mut FieldErrors) -> Arc<Schema> {
    let known = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(compiled) = known().iter().find(|schema| schema.raw == *raw) {
        return Arc::clone(compiled);
    }
    let before = errors.causes().len();
    let mut schema = part(raw, field, errors, true);
    schema.raw = raw.clone();
    schema.cel = rules::compile(raw);
    let schema = Arc::new(schema);
    if errors.causes().len() == before {
        let mut known = known();
        if known.len() == COMPILED_MAX {
            known.remove(0);
        }
        known.push(Arc::clone(&schema));
    }
    schema
}

fn part(raw: &Value, field: &str, errors: &mut FieldErrors, structural: bool) -> Schema {
    let flag = |name: &str| raw[name] == true;
    let mut schema = Schema {
        kind: kind(raw, field, errors),
        nullable: flag("nullable"),
        default: raw.get("default").cloned(),
        required: texts(&raw["required"]),
        rules: bounds(raw, field, errors),
        list: list_type(raw, field, errors),
        preserves_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        ..Schema::default()
    };
    let says_nothing = raw["type"].as_str().unwrap_or_default().is_empty();
    if structural && schema.kind.is_none() && says_nothing && !schema.preserves_unknown {
        errors.required(format!("{field}.type"), "must not be empty for specified object fields");
    }
    rules::check(raw, field, errors);
    children(&mut schema, raw, (field, errors, structural));
    if flag("x-kubernetes-embedded-resource") {
        schema.embedded = Embedded::Here;
    } else if schema.below().any(Schema::holds_embedded) {
        schema.embedded = Embedded::Below;
    }
    if let Some(default) = schema.default.as_ref().filter(|_| structural) {
        errors.extend_below(&format!("{field}.default"), schema.validate(default));
    }
    for (name, branches) in [
        ("allOf", &mut schema.all_of),
        ("anyOf", &mut schema.any_of),
        ("oneOf", &mut schema.one_of),
    ] {
        for (index, branch) in object::list(raw, &[name]).iter().enumerate() {
            branches.push(part(branch, &format!("{field}.{name}[{index}]"), errors, false));
        }
    }
    let not = raw.get("not").filter(|not| not.is_object());
    schema.not = not.map(|not| Box::new(part(not, &format!("{field}.not"), errors, false)));
    schema
}

fn children(
    schema: &mut Schema,
    raw: &Value,
    (field, errors, structural): (&str, &mut FieldErrors, bool),
) {
    for (name, property) in object::map(raw, &["properties"]).into_iter().flatten() {
        let place = format!("{field}.properties[{name}]");
        schema.properties.insert(name.to_string(), part(property, &place, errors, structural));
    }
    match raw.get("additionalProperties") {
        None | Some(Value::Bool(false) | Value::Null) => {}
        Some(Value::Bool(true)) => schema.additional = Additional::Any,
        Some(values) => {
            if !schema.properties.is_empty() {
                let rule = "additionalProperties and properties are mutual exclusive";
                errors.forbidden(format!("{field}.additionalProperties"), rule);
            }
            let values = part(values, &format!("{field}.additionalProperties"), errors, structural);
            schema.additional = Additional::Values(Box::new(values));
        }
    }
    match raw.get("items") {
        None | Some(Value::Null) if structural && schema.kind == Some(Type::Array) => {
            errors.required(format!("{field}.items"), "must be specified");
        }
        None | Some(Value::Null) => {}
        Some(Value::Array(_)) => {
            let rule = "items must be a schema object and not an array";
            errors.forbidden(format!("{field}.items"), rule);
        }
        Some(items) => {
            let items = part(items, &format!("{field}.items"), errors, structural);
            schema.items = Some(Box::new(items));
        }
    }
}

fn kind(raw: &Value, field: &str, errors: &mut FieldErrors) -> Option<Type> {
    if raw["x-kubernetes-int-or-string"] == true {
        return Some(Type::IntOrString);
    }
    Some(match raw.get("type")?.as_str().unwrap_or_default() {
        "" => return None,
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        other => {
            let allowed = ["array", "boolean", "integer", "number", "object", "string"];
            errors.unsupported(format!("{field}.type"), &other.into(), &allowed);
            return None;
        }
    })
}

fn bounds(raw: &Value, field: &str, errors: &mut FieldErrors) -> Rules {
    let count =
        |name: &str| raw[name].as_u64().map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let bound = |name: &str, exclusive: &str| Some((raw[name].as_f64()?, raw[exclusive] == true));
    let pattern = raw["pattern"].as_str().and_then(|pattern| {
        let compiled = Regex::new(pattern).ok();
        if compiled.is_none() {
            let rule = "must be a valid regular expression, but isn't";
            errors.invalid(format!("{field}.pattern"), &pattern.into(), rule);
        }
        compiled
    });
    Rules {
        allowed: raw["enum"].as_array().cloned(),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: raw["multipleOf"].as_f64(),
        lengths: (count("minLength"), count("maxLength")),
        items: (count("minItems"), count("maxItems")),
        properties: (count("minProperties"), count("maxProperties")),
        unique_items: raw["uniqueItems"] == true,
        pattern,
        format: raw["format"].as_str().map(str::to_owned),
    }
}

fn list_type(raw: &Value, field: &str, errors: &mut FieldErrors) -> ListType {
    let keys = texts(&raw["x-kubernetes-list-map-keys"]);
    match raw["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") if keys.is_empty() => {
            let rule = "must not be empty if x-kubernetes-list-type is map";
            errors.required(format!("{field}.x-kubernetes-list-map-keys"), rule);
            ListType::Atomic
        }
        Some("map") => ListType::Map(keys),
        None | Some("atomic") => ListType::Atomic,
        Some(other) => {
            let allowed = ["atomic", "map", "set"];
            errors.unsupported(format!("{field}.x-kubernetes-list-type"), &other.into(), &allowed);
            ListType::Atomic
        }
    }
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    #[test]
    fn a_schema_is_compiled_once_and_its_mistakes_are_told_each_time() {
        let sound = json!({"type": "object", "description": "of this test"});
        let mut errors = FieldErrors::new();
        let [first, again] = [(); 2].map(|()| compile(&sound, "schema", &mut errors));
        assert!(Arc::ptr_eq(&first, &again));
        assert!(errors.is_empty());
        let wrong = json!({"type": "object", "properties": {"a": {"type": "nonsense"}}});
        for field in ["one", "other"] {
            let mut errors = FieldErrors::new();
            compile(&wrong, field, &mut errors);
            let told = &errors.causes()[0].field;
            assert!(told.starts_with(field), "{told}");
        }
    }
}
