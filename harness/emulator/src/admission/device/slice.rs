//! Validation of resource slices: driver, pool, node selection and devices.

use std::collections::BTreeSet;

use super::device_features;
use super::{
    check_dns_label, check_plain_driver, check_pool, check_qualified_name, check_unique,
    items_up_to_limit,
};
use crate::admission::core::affinity;
use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, format_go_struct};
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, map, number, text},
};

const DEVICES_MAX: usize = 128;
/// The maximum number of devices of a slice with taints, counters or lists.
const ADVANCED_DEVICES_MAX: usize = 64;
/// The maximum number of attributes and capacities of a device together.
const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;
/// The maximum length of a string attribute in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 64;

const NODE_SELECTOR_TERM_FIELDS: &[GoField] = &[
    GoField(
        "matchExpressions",
        &[GoField("key", &[]), GoField("operator", &[]), GoField("values", &[])],
    ),
    GoField(
        "matchFields",
        &[GoField("key", &[]), GoField("operator", &[]), GoField("values", &[])],
    ),
];

pub(super) fn check_slice(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let spec = &new["spec"];
    check_plain_driver(text(spec, &["driver"]), "spec.driver", errors);
    check_pool(text(spec, &["pool", "name"]), "spec.pool.name", errors);
    let count = number(spec, &["pool", "resourceSliceCount"]).unwrap_or(0);
    if count <= 0 {
        let rule = "must be greater than zero";
        errors.invalid("spec.pool.resourceSliceCount", &count.into(), rule);
    }
    let generation = number(spec, &["pool", "generation"]).unwrap_or(0);
    if generation < 0 {
        let rule = "must be greater than or equal to zero";
        errors.invalid("spec.pool.generation", &generation.into(), rule);
    }
    check_node_selection(spec, errors);
    if !spec["sharedCounters"].is_null() && !spec["devices"].is_null() {
        let rule = "only one of `sharedCounters` or `devices` is allowed";
        errors.invalid("spec", &"".into(), rule);
    }
    let is_per_device = spec["perDeviceNodeSelection"] == true;
    let mut seen = BTreeSet::new();
    let most = if has_advanced_features(spec) { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    for (field_path, device) in items_up_to_limit(spec, "spec", "devices", most, errors) {
        check_device(device, &field_path, errors);
        check_device_nodes(device, is_per_device, &field_path, errors);
        device_features::check_device_features(device, &field_path, errors);
        check_unique(text(device, &["name"]), &field_path, &mut seen, errors);
    }
    device_features::check_shared_counters(spec, errors);
    if let Some(old) = old {
        check_immutable_slice_fields(&old["spec"], spec, errors);
    }
}

fn check_immutable_slice_fields(before: &Value, after: &Value, errors: &mut FieldErrors) {
    let parts: [&[&str]; 3] = [&["pool", "name"], &["driver"], &["nodeName"]];
    for path in parts {
        let at = |spec: &Value| path.iter().fold(spec.clone(), |at, field| at[*field].clone());
        if at(before) != at(after) {
            errors.invalid(format!("spec.{}", path.join(".")), &at(after), "field is immutable");
        }
    }
}

/// Whether a slice has devices with taints, counters or lists of attribute values.
fn has_advanced_features(spec: &Value) -> bool {
    list(spec, &["devices"]).iter().any(|device| {
        let is_list = |value: &Value| {
            ["ints", "bools", "strings", "versions"].iter().any(|form| !value[*form].is_null())
        };
        let mut attributes = map(device, &["attributes"]).into_iter().flatten();
        let has_lists = attributes.any(|(_, value)| is_list(value));
        has_lists || ["taints", "consumesCounters"].iter().any(|it| !list(device, &[it]).is_empty())
    })
}

/// Checks the node selection of a device, which only slices with `perDeviceNodeSelection` have.
fn check_device_nodes(
    device: &Value,
    is_per_device: bool,
    field_path: &str,
    errors: &mut FieldErrors,
) {
    let fields = ["nodeName", "nodeSelector", "allNodes"];
    let set: Vec<&str> = fields.into_iter().filter(|field| !device[*field].is_null()).collect();
    if !is_per_device {
        if !set.is_empty() {
            let rule = "`nodeName`, `nodeSelector` and `allNodes` can only be set if \
                        `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(field_path, &Value::Null, rule);
        }
        return;
    }
    if let Some(name) = device["nodeName"].as_str() {
        let path = format!("{field_path}.nodeName");
        if name.is_empty() {
            errors.invalid(path, &"".into(), "must not be empty");
        } else if let Some(rule) = names::dns_subdomain_violation(name) {
            errors.invalid(path, &name.into(), &rule);
        }
    }
    let selector = &device["nodeSelector"];
    if !selector.is_null() {
        affinity::check_node_selector(selector, &format!("{field_path}.nodeSelector"), errors);
    }
    if device["allNodes"] == false {
        let rule = "must be either unset or set to true";
        errors.invalid(format!("{field_path}.allNodes"), &false.into(), rule);
    }
    let is_valid = |field: &&&str| device[**field] != "" && device[**field] != false;
    let set: Vec<String> = set.iter().filter(is_valid).map(|it| format!("`{it}`")).collect();
    let rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when \
                `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match set.as_slice() {
        [] => errors.required(field_path, rule),
        [_] => {}
        several => errors.invalid(field_path, &format!("{{{}}}", several.join(", ")).into(), rule),
    }
}

/// Checks that exactly one field of a ResourceSlice selects its nodes: `nodeName`, `nodeSelector`,
/// `allNodes` or `perDeviceNodeSelection`.
fn check_node_selection(spec: &Value, errors: &mut FieldErrors) {
    let mut selections = Vec::new();
    match spec["nodeName"].as_str() {
        None => {}
        Some("") => {
            let rule = "must be either unset or set to a non-empty string";
            errors.invalid("spec.nodeName", &"".into(), rule);
        }
        Some(name) => {
            selections.push("`nodeName`");
            if let Some(rule) = names::dns_subdomain_violation(name) {
                errors.invalid("spec.nodeName", &name.into(), &rule);
            }
        }
    }
    let selector = &spec["nodeSelector"];
    if !selector.is_null() {
        selections.push("`nodeSelector`");
        affinity::check_node_selector(selector, "spec.nodeSelector", errors);
        let terms = &selector["nodeSelectorTerms"];
        if list(selector, &["nodeSelectorTerms"]).len() != 1 {
            let rule = "must have exactly one node selector term";
            errors.invalid_as_shown(
                "spec.nodeSelector.nodeSelectorTerms",
                &format_go_struct(terms, NODE_SELECTOR_TERM_FIELDS),
                rule,
            );
        }
    }
    match spec["allNodes"].as_bool() {
        None => {}
        Some(true) => selections.push("`allNodes`"),
        Some(false) => {
            let rule = "must be either unset or set to true";
            errors.invalid("spec.allNodes", &false.into(), rule);
        }
    }
    match spec["perDeviceNodeSelection"].as_bool() {
        None => {}
        Some(true) => selections.push("`perDeviceNodeSelection`"),
        Some(false) => {
            let rule = "must be either unset or set to true";
            errors.invalid("spec.perDeviceNodeSelection", &false.into(), rule);
        }
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` \
                is required";
    match selections.as_slice() {
        [] => errors.required("spec", rule),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            errors.invalid("spec", &shown.into(), &format!("{rule}, but multiple fields are set"));
        }
    }
}

fn check_device(device: &Value, field_path: &str, errors: &mut FieldErrors) {
    check_dns_label(text(device, &["name"]), &format!("{field_path}.name"), errors);
    let facts = |field: &str| map(device, &[field]).into_iter().flatten();
    let count = facts("attributes").count() + facts("capacity").count();
    if count > ATTRIBUTES_AND_CAPACITIES_MAX {
        let rule = format!(
            "the total number of attributes and capacities must not exceed {ATTRIBUTES_AND_CAPACITIES_MAX}"
        );
        errors.invalid(field_path, &count.into(), &rule);
    }
    for (name, value) in facts("attributes") {
        check_qualified_name(name, &format!("{field_path}.attributes"), errors);
        check_attribute(value, &format!("{field_path}.attributes[{name}]"), errors);
    }
    for (name, _) in facts("capacity") {
        check_qualified_name(name, &format!("{field_path}.capacity"), errors);
    }
}

fn check_attribute(value: &Value, field_path: &str, errors: &mut FieldErrors) {
    const FORMS: [&str; 8] =
        ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];
    let forms =
        "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`";
    for form in ["string", "version"] {
        let Some(content) = value[form].as_str() else { continue };
        let field_path = format!("{field_path}.{form}");
        if content.len() > ATTRIBUTE_BYTES_MAX {
            errors.too_long(&*field_path, ATTRIBUTE_BYTES_MAX);
        }
        if form == "version" && !is_semantic_version(content) {
            let rule = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(field_path, &content.into(), rule);
        }
    }
    let set: Vec<&str> = FORMS.into_iter().filter(|form| !value[*form].is_null()).collect();
    match set.as_slice() {
        [] => errors.invalid(field_path, &"".into(), &format!("must specify {forms}")),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", ")).into();
            errors.invalid(field_path, &shown, &format!("must specify exactly {forms}"));
        }
    }
}

/// Whether a text is a semantic version (semver.org 2.0.0).
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, it)| (text, Some(it)));
    let (core, before) = text.split_once('-').map_or((text, None), |(text, it)| (text, Some(it)));
    let is_number = |part: &str| {
        part == "0" || (!part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let is_ordered = |part: &str| {
        is_word(part) && (part.bytes().any(|byte| !byte.is_ascii_digit()) || is_number(part))
    };
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|part| !part.is_empty() && is_number(part))
        && before.is_none_or(|before| before.split('.').all(is_ordered))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::is_semantic_version;

    #[test]
    fn a_semantic_version_has_three_numbers_and_optional_suffixes() {
        for version in ["0.0.0", "1.20.3", "1.0.0-rc.1", "1.0.0-0a.b-c+001.sha", "1.0.0+b"] {
            assert!(is_semantic_version(version), "{version}");
        }
        for text in ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1..3"] {
            assert!(!is_semantic_version(text), "{text}");
        }
    }
}
