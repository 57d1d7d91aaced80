//! What makes a schema structural: what its outer part must say, and what its branches must not.

use regex::Regex;

use crate::error::FieldErrors;
use crate::object::{list, map, text};
use schedlab_json::{Value, json};

/// Where a part of the outer schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Refuses what is not structural in the schema at `field`.
pub(super) fn check(raw: &Value, field: &str, errors: &mut FieldErrors) {
    outer(raw, (Level::Root, field), errors);
    complete(raw, Some(raw), (field, field), errors);
}

fn is(raw: &Value, name: &str) -> bool {
    raw[name] == true
}

fn outer(raw: &Value, (level, field): (Level, &str), errors: &mut FieldErrors) {
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        outer(property, (Level::Field, &format!("{field}.properties[{name}]")), errors);
    }
    if raw["items"].is_object() {
        outer(&raw["items"], (Level::Item, &format!("{field}.items")), errors);
    } else if raw["type"] == "array" && raw["items"].is_null() {
        errors.required(format!("{field}.items"), "must be specified");
    }
    let values = &raw["additionalProperties"];
    if !values.is_null() && level == Level::Root {
        errors.forbidden(format!("{field}.additionalProperties"), "must not be used at the root");
    }
    if values.is_object() {
        outer(values, (Level::Field, &format!("{field}.additionalProperties")), errors);
    }
    if is(raw, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if is(raw, name) {
                let rule = "must be false if x-kubernetes-int-or-string is true";
                errors.invalid(format!("{field}.{name}"), &true.into(), rule);
            }
        }
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = list(raw, &["allOf"]).first();
    let skipped = Skipped {
        any_of: raw["anyOf"] == either,
        first_any_of: first.is_some_and(|first| first["anyOf"] == either),
    };
    values_of(raw, skipped, field, errors);
    check_type(raw, (level, field), errors);
    check_resource(raw, (level, field), errors);
}

fn check_type(raw: &Value, (level, field): (Level, &str), errors: &mut FieldErrors) {
    let kind = text(raw, &["type"]);
    let place = format!("{field}.type");
    let is_free =
        is(raw, "x-kubernetes-int-or-string") || is(raw, "x-kubernetes-preserve-unknown-fields");
    if is(raw, "x-kubernetes-embedded-resource") && kind != "object" {
        let rule = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(place, rule),
            other => errors.invalid(place, &other.into(), rule),
        }
    } else if kind.is_empty() && !is_free {
        let whose = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.required(place, &format!("must not be empty {whose}"));
    } else if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(place, &kind.into(), "must be object at the root");
    }
}

/// What stands for a whole object: the root, and embedded ones.
fn check_resource(raw: &Value, (level, field): (Level, &str), errors: &mut FieldErrors) {
    let is_embedded = is(raw, "x-kubernetes-embedded-resource");
    if level != Level::Root && !is_embedded {
        return;
    }
    let properties = &raw["properties"];
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        if let Some(property) = properties.get(name)
            && property["type"] != wanted
        {
            let kind = text(property, &["type"]).into();
            let place = format!("{field}.properties[{name}].type");
            errors.invalid(place, &kind, &format!("must be {wanted}"));
        }
    }
    if let Some(metadata) = properties.get("metadata")
        && level == Level::Root
        && says_more_than_names(metadata)
    {
        let rule = "must not specify anything other than name and generateName, but metadata is \
                    implicitly specified";
        errors.forbidden(format!("{field}.properties[metadata]"), rule);
    }
    if is_embedded && !raw["additionalProperties"].is_null() {
        let rule = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(format!("{field}.additionalProperties"), rule);
    }
    let is_empty = map(raw, &["properties"]).is_none_or(schedlab_json::Map::is_empty);
    if is_embedded && is_empty && !is(raw, "x-kubernetes-preserve-unknown-fields") {
        let rule = "must not be empty if x-kubernetes-embedded-resource is true without \
                    x-kubernetes-preserve-unknown-fields";
        errors.required(format!("{field}.properties"), rule);
    }
}

fn says_more_than_names(metadata: &Value) -> bool {
    let is_name = |name: &str| matches!(name, "name" | "generateName");
    metadata.as_object().into_iter().flatten().any(|(word, said)| match word.as_str() {
        "type" | "default" => false,
        "properties" => said.as_object().into_iter().flatten().any(|(name, _)| !is_name(name)),
        _ => !said.is_null() && *said != false && *said != "",
    })
}

/// Which branches may say what only the outer schema says otherwise: an integer or a string.
#[derive(Clone, Copy, Default)]
struct Skipped {
    any_of: bool,
    first_any_of: bool,
}

/// What is said of values: branches and patterns.
fn values_of(raw: &Value, skipped: Skipped, field: &str, errors: &mut FieldErrors) {
    for name in ["anyOf", "allOf", "oneOf"] {
        if name == "anyOf" && skipped.any_of {
            continue;
        }
        for (index, branch) in list(raw, &[name]).iter().enumerate() {
            let any_of = name == "allOf" && index == 0 && skipped.first_any_of;
            let skipped = Skipped { any_of, ..Skipped::default() };
            nested(branch, skipped, &format!("{field}.{name}[{index}]"), errors);
        }
    }
    if raw["not"].is_object() {
        nested(&raw["not"], Skipped::default(), &format!("{field}.not"), errors);
    }
    let pattern = text(raw, &["pattern"]);
    if Regex::new(pattern).is_err() {
        let rule = "must be a valid regular expression, but isn't";
        errors.invalid(format!("{field}.pattern"), &pattern.into(), rule);
    }
}

/// What only the outer schema may say, and how a branch is told.
const OUTER: [(&str, &str); 13] = [
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

fn nested(raw: &Value, skipped: Skipped, field: &str, errors: &mut FieldErrors) {
    values_of(raw, skipped, field, errors);
    if raw["items"].is_object() {
        nested(&raw["items"], Skipped::default(), &format!("{field}.items"), errors);
    }
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        let place = format!("{field}.properties[{name}]");
        nested(property, Skipped::default(), &place, errors);
        if name == "metadata" {
            errors.forbidden(place, "must not be specified in a nested context");
        }
    }
    for (name, rule) in OUTER {
        let said = &raw[name];
        let is_empty = said.as_array().is_some_and(Vec::is_empty);
        let is_default = name == "default" && !said.is_null();
        if is_default || !(said.is_null() || *said == false || *said == "" || is_empty) {
            errors.forbidden(format!("{field}.{name}"), &format!("{rule} to be structural"));
        }
    }
}

/// Whatever a branch at the root speaks of is there outside of it.
fn complete(
    raw: &Value,
    outside: Option<&Value>,
    (at, from): (&str, &str),
    errors: &mut FieldErrors,
) {
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in list(raw, &[name]).iter().enumerate() {
            let from = format!("{from}.{name}[{index}]");
            complete_branch(branch, outside, (at, &from), errors);
        }
    }
    if raw["not"].is_object() {
        complete_branch(&raw["not"], outside, (at, &format!("{from}.not")), errors);
    }
}

fn complete_branch(
    branch: &Value,
    outside: Option<&Value>,
    (at, from): (&str, &str),
    errors: &mut FieldErrors,
) {
    let Some(there) = outside else {
        return errors.required(at, &format!("because it is defined in {from}"));
    };
    complete(branch, outside, (at, from), errors);
    let step = |name: &str| (format!("{at}.{name}"), format!("{from}.{name}"));
    if branch["items"].is_object() {
        let (at, from) = step("items");
        let items = there.get("items").filter(|items| items.is_object());
        complete_branch(&branch["items"], items, (&at, &from), errors);
    }
    for (name, property) in map(branch, &["properties"]).into_iter().flatten() {
        let (at, from) = step(&format!("properties[{name}]"));
        complete_branch(property, there["properties"].get(name.as_str()), (&at, &from), errors);
    }
}
