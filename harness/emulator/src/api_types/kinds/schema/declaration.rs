//! Validation of the schema in a CRD: the keywords of each part. The rules for structural schemas
//! are in `structural`.

use super::cel_cost::{OccurrencesMax, TotalCost, inner_cardinality};
use super::cel_rules::{self, RulePosition};
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{list, map, text},
};

/// The errors found so far. Errors of the schema are reported before errors of its rules.
#[derive(Default)]
struct Findings {
    schema_errors: FieldErrors,
    rule_errors: FieldErrors,
    rule_cost: TotalCost,
}

/// What the position of a part in the schema implies for its validation.
#[derive(Clone, Copy)]
struct PartContext<'a> {
    is_root: bool,
    /// Whether the part describes apiVersion, kind or metadata of an object.
    in_metadata: bool,
    /// Why no default is allowed here; `None` if it is allowed.
    default_prohibition: Option<&'a str>,
    /// The path of the enclosing list whose old and new items cannot be correlated.
    uncorrelated_within: Option<&'a str>,
    /// Whether CEL rules are compiled.
    compiles_rules: bool,
    cardinality: OccurrencesMax,
}

/// Validates the schema at `field` of a CRD. Rules are compiled only if `errors` is empty.
pub(super) fn check_declared_schema(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let context = PartContext {
        is_root: true,
        in_metadata: false,
        default_prohibition: None,
        uncorrelated_within: None,
        compiles_rules: errors.is_empty(),
        cardinality: Some(1),
    };
    let mut found = Findings::default();
    check_part(raw, field, context, &mut found);
    errors.extend(found.schema_errors);
    errors.extend(found.rule_errors);
    found.rule_cost.report_total(field, errors);
}

fn check_part(raw: &Value, field: &str, context: PartContext<'_>, found: &mut Findings) {
    let before = found.schema_errors.causes().len();
    check_keywords(raw, field, context, &mut found.schema_errors);
    check_children(raw, field, context, found);
    check_map_type(raw, field, &mut found.schema_errors);
    check_list_type(raw, field, &mut found.schema_errors);
    cel_rules::check_rule_fields(raw, field, &mut found.schema_errors);
    if context.compiles_rules && found.schema_errors.causes().len() == before {
        let place = RulePosition {
            field,
            is_root: context.is_root,
            uncorrelated_within: context.uncorrelated_within,
            cardinality: context.cardinality,
        };
        let Findings { rule_errors, rule_cost, .. } = found;
        cel_rules::check_compiled_rules(raw, &place, rule_cost, rule_errors);
    }
}

const SCHEMA_TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const UNSUPPORTED_KEYWORDS: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

fn check_keywords(raw: &Value, field: &str, context: PartContext<'_>, errors: &mut FieldErrors) {
    let kind = text(raw, &["type"]);
    if !kind.is_empty() && !SCHEMA_TYPES.contains(&kind) {
        errors.unsupported(format!("{field}.type"), &kind.into(), &SCHEMA_TYPES);
    }
    if kind == "null" {
        let rule = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(format!("{field}.type"), rule);
    }
    if let Some(why) = context.default_prohibition.filter(|_| !raw["default"].is_null()) {
        errors.forbidden(format!("{field}.default"), &format!("must not be set {why}"));
    }
    for word in UNSUPPORTED_KEYWORDS.iter().filter(|word| !raw[**word].is_null()) {
        errors.forbidden(format!("{field}.{word}"), &format!("{word} is not supported"));
    }
    if raw["items"].is_array() {
        let rule = "items must be a schema object and not an array";
        errors.forbidden(format!("{field}.items"), rule);
    }
    if context.in_metadata && raw["x-kubernetes-embedded-resource"] == true {
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
        let path = format!("{field}.x-kubernetes-preserve-unknown-fields");
        errors.invalid(path, &false.into(), "must be true or undefined");
    }
}

fn check_children(raw: &Value, field: &str, context: PartContext<'_>, found: &mut Findings) {
    let cardinality = inner_cardinality(context.cardinality, raw);
    let inner = PartContext { is_root: false, cardinality, ..context };
    if raw["additionalProperties"].is_object() {
        let why = "inside additionalProperties applying to object metadata";
        let no_default = if context.in_metadata { Some(why) } else { context.default_prohibition };
        let inner = PartContext { default_prohibition: no_default, ..inner };
        check_part(
            &raw["additionalProperties"],
            &format!("{field}.additionalProperties"),
            inner,
            found,
        );
    }
    let is_resource = context.is_root || raw["x-kubernetes-embedded-resource"] == true;
    for (name, property) in map(raw, &["properties"]).into_iter().flatten() {
        let is_meta = is_resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let why = format!("in top-level {name}");
        let inner = PartContext {
            in_metadata: context.in_metadata || is_meta,
            default_prohibition: context
                .default_prohibition
                .or((context.is_root && is_meta).then_some(&*why)),
            ..inner
        };
        check_part(property, &format!("{field}.properties[{name}]"), inner, found);
    }
    let branch = PartContext { compiles_rules: false, ..inner };
    if raw["not"].is_object() {
        check_part(&raw["not"], &format!("{field}.not"), branch, found);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(raw, &[name]).iter().enumerate() {
            check_part(schema, &format!("{field}.{name}[{index}]"), branch, found);
        }
    }
    if raw["items"].is_object() {
        let is_loose = raw["x-kubernetes-list-type"] != "map";
        let uncorrelated = context.uncorrelated_within.or(is_loose.then_some(field));
        let inner = PartContext { uncorrelated_within: uncorrelated, ..inner };
        check_part(&raw["items"], &format!("{field}.items"), inner, found);
    }
}

/// Checks that a schema with the keyword `keyword` has the type `expected`.
fn check_type_for_keyword(
    raw: &Value,
    field: &str,
    expected: &str,
    keyword: &str,
    errors: &mut FieldErrors,
) {
    let rule = format!("must be {expected} if {keyword} is specified");
    match text(raw, &["type"]) {
        "" => errors.required(format!("{field}.type"), &rule),
        kind if kind != expected => errors.invalid(format!("{field}.type"), &kind.into(), &rule),
        _ => {}
    }
}

fn check_map_type(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let word = "x-kubernetes-map-type";
    let Some(kind) = raw[word].as_str() else { return };
    check_type_for_keyword(raw, field, "object", word, errors);
    if !matches!(kind, "atomic" | "granular") {
        errors.unsupported(format!("{field}.{word}"), &kind.into(), &["atomic", "granular"]);
    }
}

const LIST_TYPE: &str = "x-kubernetes-list-type";
const LIST_MAP_KEYS: &str = "x-kubernetes-list-map-keys";

fn check_list_type(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let (kind, items) = (&raw[LIST_TYPE], &raw["items"]);
    if !list(raw, &[LIST_MAP_KEYS]).is_empty() && *kind != "map" {
        let rule = format!("must be map if {LIST_MAP_KEYS} is non-empty");
        let path = format!("{field}.{LIST_TYPE}");
        if kind.is_null() {
            errors.required(path, &rule);
        } else {
            errors.invalid(path, kind, &rule);
        }
    }
    let Some(kind) = kind.as_str() else { return };
    if raw["type"] != "array" {
        check_type_for_keyword(raw, field, "array", LIST_TYPE, errors);
    } else if kind == "set" {
        check_set_items(items, field, errors);
    }
    match kind {
        "map" => check_map_keys(raw, field, errors),
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

/// Checks that the items of a list with list type `set` are atomic.
fn check_set_items(items: &Value, field: &str, errors: &mut FieldErrors) {
    let rule = format!("must be atomic as item of a list with {LIST_TYPE}=set");
    let inner = &items[LIST_TYPE];
    let is_atomic = |word: &str| items[word] == "atomic";
    match text(items, &["type"]) {
        "array" if !inner.is_null() && !is_atomic(LIST_TYPE) => {
            errors.invalid(format!("{field}.items.{LIST_TYPE}"), inner, &rule);
        }
        // The API server shows the list type here, too.
        "object" if !is_atomic("x-kubernetes-map-type") => {
            errors.invalid(format!("{field}.items.x-kubernetes-map-type"), inner, &rule);
        }
        _ => {}
    }
}

/// Checks that the keys of a list with list type `map` are scalar properties that every item has.
fn check_map_keys(raw: &Value, field: &str, errors: &mut FieldErrors) {
    let (keys, items) = (list(raw, &[LIST_MAP_KEYS]), &raw["items"]);
    let path = format!("{field}.{LIST_MAP_KEYS}");
    if keys.is_empty() {
        errors.required(&*path, &format!("must not be empty if {LIST_TYPE} is map"));
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
            errors.invalid(&*path, &raw[LIST_MAP_KEYS], "must not contain duplicate entries");
        }
        match items["properties"].get(key.as_str().unwrap_or_default()) {
            None => {
                errors.invalid(
                    &*path,
                    &raw[LIST_MAP_KEYS],
                    "entries must all be names of item properties",
                );
            }
            Some(property) => check_map_key(property, key, items, field, errors),
        }
    }
}

fn check_map_key(
    property: &Value,
    key: &Value,
    items: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    let path = format!("{field}.items.properties[{}]", key.as_str().unwrap_or_default());
    let of_keys = format!("this property is in {LIST_MAP_KEYS}, so it");
    if matches!(text(property, &["type"]), "array" | "object") {
        let rule = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
        errors.invalid(format!("{path}.type"), &"object".into(), &rule);
    }
    if !list(items, &["required"]).contains(key) && property["default"].is_null() {
        let rule = format!("{of_keys} must have a default or be a required property");
        errors.required(format!("{path}.default"), &rule);
    }
    if property["nullable"] == true {
        errors.forbidden(format!("{path}.nullable"), &format!("{of_keys} cannot be nullable"));
    }
}
