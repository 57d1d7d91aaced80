//! Validation that a schema is structural: every part has a type, and the branches of logical
//! junctors add only value validations.

use regex::Regex;

use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value, json,
    object::{list, map, text},
};

/// The position of a part of the schema outside branches such as `anyOf`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Reports violations of the rules for structural schemas in the schema at `field`.
pub(super) fn check_structural_schema(raw: &Value, field: &str, errors: &mut FieldErrors) {
    check_structure(raw, SchemaLevel::Root, field, errors);
    check_completeness(raw, Some(raw), field, field, errors);
}

fn is_keyword_true(raw: &Value, name: &str) -> bool {
    raw[name] == true
}

fn check_structure(raw: &Value, level: SchemaLevel, field: &str, errors: &mut FieldErrors) {
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        check_structure(
            property,
            SchemaLevel::Field,
            &format!("{field}.properties[{name}]"),
            errors,
        );
    }
    if raw["items"].is_object() {
        check_structure(&raw["items"], SchemaLevel::Item, &format!("{field}.items"), errors);
    } else if raw["type"] == "array" && raw["items"].is_null() {
        errors.required(format!("{field}.items"), "must be specified");
    }
    let values = &raw["additionalProperties"];
    if !values.is_null() && level == SchemaLevel::Root {
        errors.forbidden(format!("{field}.additionalProperties"), "must not be used at the root");
    }
    if values.is_object() {
        check_structure(
            values,
            SchemaLevel::Field,
            &format!("{field}.additionalProperties"),
            errors,
        );
    }
    if is_keyword_true(raw, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if is_keyword_true(raw, name) {
                let rule = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(format!("{field}.{name}"), &true.into(), rule);
            }
        }
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = list(raw, &["allOf"]).first();
    let skipped = IntOrStringBranches {
        any_of: raw["anyOf"] == either,
        first_any_of: first.is_some_and(|first| first["anyOf"] == either),
    };
    check_value_validations(raw, skipped, field, errors);
    check_type(raw, level, field, errors);
    check_root_or_embedded(raw, level, field, errors);
}

fn check_type(raw: &Value, level: SchemaLevel, field: &str, errors: &mut FieldErrors) {
    let kind = text(raw, &["type"]);
    let path = format!("{field}.type");
    let is_free = is_keyword_true(raw, "x-kubernetes-int-or-string")
        || is_keyword_true(raw, "x-kubernetes-preserve-unknown-fields");
    if is_keyword_true(raw, "x-kubernetes-embedded-resource") && kind != "object" {
        let rule = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(path, rule),
            other => errors.invalid(path, &other.into(), rule),
        }
    } else if kind.is_empty() && !is_free {
        let location = match level {
            SchemaLevel::Root => "at the root",
            SchemaLevel::Item => "for specified array items",
            SchemaLevel::Field => "for specified object fields",
        };
        errors.required(path, &format!("must not be empty {location}"));
    } else if level == SchemaLevel::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(path, &kind.into(), "must be object at the root");
    }
}

/// Checks a part that describes a whole object: the root or an embedded resource.
fn check_root_or_embedded(raw: &Value, level: SchemaLevel, field: &str, errors: &mut FieldErrors) {
    let is_embedded = is_keyword_true(raw, "x-kubernetes-embedded-resource");
    if level != SchemaLevel::Root && !is_embedded {
        return;
    }
    let properties = &raw["properties"];
    for (name, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(property) = properties.get(name)
            && property["type"] != expected
        {
            let kind = text(property, &["type"]).into();
            let path = format!("{field}.properties[{name}].type");
            errors.invalid(path, &kind, &format!("must be {expected}"));
        }
    }
    if let Some(metadata) = properties.get("metadata")
        && level == SchemaLevel::Root
        && constrains_more_than_names(metadata)
    {
        let rule = "must not specify anything other than name and generateName, but metadata is \
                    implicitly specified";
        errors.forbidden(format!("{field}.properties[metadata]"), rule);
    }
    if is_embedded && !raw["additionalProperties"].is_null() {
        let rule = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(format!("{field}.additionalProperties"), rule);
    }
    let is_empty = map(raw, &["properties"]).is_none_or(schedlab_api::Map::is_empty);
    if is_embedded && is_empty && !is_keyword_true(raw, "x-kubernetes-preserve-unknown-fields") {
        let rule = "must not be empty if x-kubernetes-embedded-resource is true without \
                    x-kubernetes-preserve-unknown-fields";
        errors.required(format!("{field}.properties"), rule);
    }
}

fn constrains_more_than_names(metadata: &Value) -> bool {
    let is_name = |name: &str| matches!(name, "name" | "generateName");
    metadata.as_object().into_iter().flatten().any(|(word, keyword_value)| match word.as_str() {
        "type" | "default" => false,
        "properties" => {
            keyword_value.as_object().into_iter().flatten().any(|(name, _)| !is_name(name))
        }
        _ => !keyword_value.is_null() && *keyword_value != false && *keyword_value != "",
    })
}

/// Which branches may set `type`: those by which an int-or-string field lists its two types.
#[derive(Clone, Copy, Default)]
struct IntOrStringBranches {
    any_of: bool,
    first_any_of: bool,
}

/// Checks the branches (`allOf`, `anyOf`, `oneOf`, `not`) and the pattern of a part.
fn check_value_validations(
    raw: &Value,
    skipped: IntOrStringBranches,
    field: &str,
    errors: &mut FieldErrors,
) {
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skipped.any_of {
            continue;
        }
        for (index, branch) in list(raw, &[name]).iter().enumerate() {
            let any_of = name == "allOf" && index == 0 && skipped.first_any_of;
            let skipped = IntOrStringBranches { any_of, ..IntOrStringBranches::default() };
            check_branches(branch, skipped, &format!("{field}.{name}[{index}]"), errors);
        }
    }
    if raw["not"].is_object() {
        check_branches(
            &raw["not"],
            IntOrStringBranches::default(),
            &format!("{field}.not"),
            errors,
        );
    }
    let pattern = text(raw, &["pattern"]);
    if Regex::new(pattern).is_err() {
        let rule = "must be a valid regular expression, but isn't";
        errors.invalid(format!("{field}.pattern"), &pattern.into(), rule);
    }
}

/// The keywords that are forbidden in branches such as `anyOf`, with the violated rule.
const STRUCTURAL_KEYWORDS: [(&str, &str); 13] = [
    ("type", "must be empty"),
    ("additionalProperties", "must be undefined"),
    ("default", "must be undefined"),
    ("title", "must be empty"),
    ("description", "must be empty"),
    ("nullable", "must be false"),
    ("x-kubernetes-preserve-unknown-fields", "must be false"),
    ("x-kubernetes-embedded-resource", "must be false"),
    ("x-kubernetes-int-or-string", "must be false"),
    ("x-kubernetes-list-map-keys", "must be empty"),
    ("x-kubernetes-list-type", "must be undefined"),
    ("x-kubernetes-map-type", "must be undefined"),
    ("x-kubernetes-validations", "must be empty"),
];

fn check_branches(
    raw: &Value,
    int_or_string_branches: IntOrStringBranches,
    field: &str,
    errors: &mut FieldErrors,
) {
    check_value_validations(raw, int_or_string_branches, field, errors);
    if raw["items"].is_object() {
        check_branches(
            &raw["items"],
            IntOrStringBranches::default(),
            &format!("{field}.items"),
            errors,
        );
    }
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        let path = format!("{field}.properties[{name}]");
        check_branches(property, IntOrStringBranches::default(), &path, errors);
        if name == "metadata" {
            errors.forbidden(path, "must not be specified in a nested context");
        }
    }
    for (name, rule) in STRUCTURAL_KEYWORDS {
        let keyword_value = &raw[name];
        let is_empty = keyword_value.as_array().is_some_and(Vec::is_empty);
        let is_default = name == "default" && !keyword_value.is_null();
        if is_default
            || !(keyword_value.is_null()
                || *keyword_value == false
                || *keyword_value == ""
                || is_empty)
        {
            errors.forbidden(format!("{field}.{name}"), &format!("{rule} to be structural"));
        }
    }
}

/// Checks that every field that a branch mentions is also defined outside the branches.
fn check_completeness(
    raw: &Value,
    outside: Option<&Value>,
    at: &str,
    from: &str,
    errors: &mut FieldErrors,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in list(raw, &[name]).iter().enumerate() {
            let from = format!("{from}.{name}[{index}]");
            check_branch_completeness(branch, outside, at, &from, errors);
        }
    }
    if raw["not"].is_object() {
        check_branch_completeness(&raw["not"], outside, at, &format!("{from}.not"), errors);
    }
}

fn check_branch_completeness(
    branch: &Value,
    outside: Option<&Value>,
    at: &str,
    from: &str,
    errors: &mut FieldErrors,
) {
    let Some(outer_schema) = outside else {
        return errors.required(at, &format!("because it is defined in {from}"));
    };
    check_completeness(branch, outside, at, from, errors);
    let step = |name: &str| (format!("{at}.{name}"), format!("{from}.{name}"));
    if branch["items"].is_object() {
        let (at, from) = step("items");
        let items = outer_schema.get("items").filter(|items| items.is_object());
        check_branch_completeness(&branch["items"], items, &at, &from, errors);
    }
    for (name, property) in map(branch, &["properties"]).into_iter().flatten() {
        let (at, from) = step(&format!("properties[{name}]"));
        check_branch_completeness(
            property,
            outer_schema["properties"].get(name.as_str()),
            &at,
            &from,
            errors,
        );
    }
}
