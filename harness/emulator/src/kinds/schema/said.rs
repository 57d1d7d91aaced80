//! What a definition's schema may say of each place, besides being structural.

use super::rules;
use crate::error::FieldErrors;
use crate::object::{list, map, text};
use schedlab_json::Value;

/// What is wrong: with the schema, and with its rules in CEL.
#[derive(Default)]
struct Found {
    wrongs: FieldErrors,
    rules: FieldErrors,
}

/// What holds for a place because of where it stands.
#[derive(Clone, Copy)]
struct Around<'a> {
    is_root: bool,
    /// Whether it is about metadata, a type or a kind.
    in_metadata: bool,
    /// Why there can be no default.
    no_default: Option<&'a str>,
    /// Within what place no old value belongs to a new one.
    uncorrelated: Option<&'a str>,
    /// Whether rules are compiled.
    compiles: bool,
}

/// Refuses what the schema at `field` may not say. Rules are compiled if the schema is sound so far.
pub(super) fn check(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let around = Around {
        is_root: true,
        in_metadata: false,
        no_default: None,
        uncorrelated: None,
        compiles: errors.is_empty(),
    };
    let mut found = Found::default();
    part(raw, field, around, &mut found);
    errors.extend(found.wrongs);
    errors.extend(found.rules);
}

fn part(raw: &Value, field: &str, around: Around<'_>, found: &mut Found) {
    let before = found.wrongs.causes().len();
    check_words(raw, field, around, &mut found.wrongs);
    below(raw, field, around, found);
    check_map(raw, field, &mut found.wrongs);
    check_list(raw, field, &mut found.wrongs);
    rules::check_whole(raw, field, &mut found.wrongs);
    if around.compiles && found.wrongs.causes().len() == before {
        rules::check_compile(raw, (field, around.is_root), around.uncorrelated, &mut found.rules);
    }
}

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const UNKNOWN: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

fn check_words(raw: &Value, field: &str, around: Around<'_>, errors: &mut FieldErrors) {
    let kind = text(raw, &["type"]);
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.unsupported(format!("{field}.type"), &kind.into(), &TYPES);
    }
    if kind == "null" {
        let rule = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(format!("{field}.type"), rule);
    }
    if let Some(why) = around.no_default.filter(|_| !raw["default"].is_null()) {
        errors.forbidden(format!("{field}.default"), &format!("must not be set {why}"));
    }
    for word in UNKNOWN.iter().filter(|word| !raw[**word].is_null()) {
        errors.forbidden(format!("{field}.{word}"), &format!("{word} is not supported"));
    }
    if raw["items"].is_array() {
        let rule = "items must be a schema object and not an array";
        errors.forbidden(format!("{field}.items"), rule);
    }
    if around.in_metadata && raw["x-kubernetes-embedded-resource"] == true {
        let rule = "must not be used inside of resource meta";
        errors.forbidden(format!("{field}.x-kubernetes-embedded-resource"), rule);
    }
    if raw["uniqueItems"] == true {
        let rule =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(format!("{field}.uniqueItems"), rule);
    }
    let has_properties = map(raw, &["properties"]).is_some_and(|fields| !fields.is_empty());
    let values = &raw["additionalProperties"];
    if has_properties && (values.is_object() || *values == false) {
        let rule = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(format!("{field}.additionalProperties"), rule);
    }
    if raw["x-kubernetes-preserve-unknown-fields"] == false {
        let place = format!("{field}.x-kubernetes-preserve-unknown-fields");
        errors.invalid(place, &false.into(), "must be true or undefined");
    }
}

fn below(raw: &Value, field: &str, around: Around<'_>, found: &mut Found) {
    let inner = Around { is_root: false, ..around };
    if raw["additionalProperties"].is_object() {
        let why = "inside additionalProperties applying to object metadata";
        let no_default = if around.in_metadata { Some(why) } else { around.no_default };
        let inner = Around { no_default, ..inner };
        part(&raw["additionalProperties"], &format!("{field}.additionalProperties"), inner, found);
    }
    let is_resource = around.is_root || raw["x-kubernetes-embedded-resource"] == true;
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        let is_meta = is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let why = format!("in top-level {name}");
        let inner = Around {
            in_metadata: around.in_metadata || is_meta,
            no_default: around.no_default.or((around.is_root && is_meta).then_some(&*why)),
            ..inner
        };
        part(property, &format!("{field}.properties[{name}]"), inner, found);
    }
    let branch = Around { compiles: false, ..inner };
    if raw["not"].is_object() {
        part(&raw["not"], &format!("{field}.not"), branch, found);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(raw, &[name]).iter().enumerate() {
            part(schema, &format!("{field}.{name}[{index}]"), branch, found);
        }
    }
    if raw["items"].is_object() {
        let is_loose = raw["x-kubernetes-list-type"] != "map";
        let uncorrelated = around.uncorrelated.or(is_loose.then_some(field));
        let inner = Around { uncorrelated, ..inner };
        part(&raw["items"], &format!("{field}.items"), inner, found);
    }
}

/// A type must be there, and the right one, for what is said.
fn check_type(raw: &Value, (field, wanted): (&str, &str), word: &str, errors: &mut FieldErrors) {
    let rule = format!("must be {wanted} if {word} is specified");
    match text(raw, &["type"]) {
        "" => errors.required(format!("{field}.type"), &rule),
        kind if kind != wanted => errors.invalid(format!("{field}.type"), &kind.into(), &rule),
        _ => {}
    }
}

fn check_map(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let word = "x-kubernetes-map-type";
    let Some(kind) = raw[word].as_str() else { return };
    check_type(raw, (field, "object"), word, errors);
    if !matches!(kind, "atomic" | "granular") {
        errors.unsupported(format!("{field}.{word}"), &kind.into(), &["atomic", "granular"]);
    }
}

const LIST_TYPE: &str = "x-kubernetes-list-type";
const KEYS: &str = "x-kubernetes-list-map-keys";

fn check_list(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let (kind, items) = (&raw[LIST_TYPE], &raw["items"]);
    if !list(raw, &[KEYS]).is_empty() && *kind != "map" {
        let rule = format!("must be map if {KEYS} is non-empty");
        let place = format!("{field}.{LIST_TYPE}");
        if kind.is_null() {
            errors.required(place, &rule);
        } else {
            errors.invalid(place, kind, &rule);
        }
    }
    let Some(kind) = kind.as_str() else { return };
    if raw["type"] != "array" {
        check_type(raw, (field, "array"), LIST_TYPE, errors);
    } else if kind == "set" {
        check_set(items, field, errors);
    }
    match kind {
        "map" => check_keys(raw, field, errors),
        "set" | "atomic" => {}
        other => {
            let allowed = ["atomic", "set", "map"];
            errors.unsupported(format!("{field}.{LIST_TYPE}"), &other.into(), &allowed);
        }
    }
    if matches!(kind, "set" | "map") && items["nullable"] == true {
        let rule = format!("cannot be nullable when {LIST_TYPE} is {kind}");
        errors.forbidden(format!("{field}.items.nullable"), &rule);
    }
}

/// What is in a set is one thing.
fn check_set(items: &Value, field: &str, errors: &mut FieldErrors) {
    let rule = format!("must be atomic as item of a list with {LIST_TYPE}=set");
    let inner = &items[LIST_TYPE];
    let is_atomic = |word: &str| items[word] == "atomic";
    match text(items, &["type"]) {
        "array" if !inner.is_null() && !is_atomic(LIST_TYPE) => {
            errors.invalid(format!("{field}.items.{LIST_TYPE}"), inner, &rule);
        }
        // The real server shows the list's type here, too.
        "object" if !is_atomic("x-kubernetes-map-type") => {
            errors.invalid(format!("{field}.items.x-kubernetes-map-type"), inner, &rule);
        }
        _ => {}
    }
}

/// Keys are single values that every item has.
fn check_keys(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let (keys, items) = (list(raw, &[KEYS]), &raw["items"]);
    let place = format!("{field}.{KEYS}");
    if keys.is_empty() {
        errors.required(&*place, &format!("must not be empty if {LIST_TYPE} is map"));
    }
    if items.is_null() {
        let rule = format!("must have a schema if {LIST_TYPE} is map");
        return errors.required(format!("{field}.items"), &rule);
    }
    if items["type"] != "object" {
        let rule = format!("must be object if parent array's {LIST_TYPE} is map");
        let kind = text(items, &["type"]).into();
        return errors.invalid(format!("{field}.items.type"), &kind, &rule);
    }
    for (index, key) in keys.iter().enumerate() {
        if keys.iter().take(index).any(|earlier| earlier == key) {
            errors.invalid(&*place, &raw[KEYS], "must not contain duplicate entries");
        }
        match items["properties"].get(key.as_str().unwrap_or_default()) {
            None => {
                errors.invalid(&*place, &raw[KEYS], "entries must all be names of item properties");
            }
            Some(property) => check_key((property, key), items, field, errors),
        }
    }
}

fn check_key(
    (property, key): (&Value, &Value),
    items: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    let place = format!("{field}.items.properties[{}]", key.as_str().unwrap_or_default());
    let of_keys = format!("this property is in {KEYS}, so it");
    if matches!(text(property, &["type"]), "array" | "object") {
        let rule = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
        errors.invalid(format!("{place}.type"), &"object".into(), &rule);
    }
    if !list(items, &["required"]).contains(key) && property["default"].is_null() {
        let rule = format!("{of_keys} must have a default or be a required property");
        errors.required(format!("{place}.default"), &rule);
    }
    if property["nullable"] == true {
        errors.forbidden(format!("{place}.nullable"), &format!("{of_keys} cannot be nullable"));
    }
}
