//! Validation of resource slices: driver, pool, node selection and devices.

use std::collections::BTreeSet;

use super::{
    check_dns_label, check_driver, check_pool, check_qualified_name, check_unique,
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
    check_driver(text(spec, &["driver"]), "spec.driver", errors);
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
    let mut seen = BTreeSet::new();
    for (field_path, device) in items_up_to_limit(spec, "spec", "devices", DEVICES_MAX, errors) {
        check_device(device, &field_path, errors);
        check_unique(text(device, &["name"]), &field_path, &mut seen, errors);
    }
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
        let field_path = format!("{field_path}.attributes[{name}]");
        check_qualified_name(name, &field_path, errors);
        check_attribute(value, &field_path, errors);
    }
    for (name, _) in facts("capacity") {
        check_qualified_name(name, &format!("{field_path}.capacity[{name}]"), errors);
    }
}

fn check_attribute(value: &Value, field_path: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one value must be specified";
    const FORMS: [&str; 4] = ["int", "bool", "string", "version"];
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
    match FORMS.iter().filter(|form| !value[**form].is_null()).count() {
        0 => errors.invalid(field_path, &"".into(), RULE),
        1 => {}
        _ => {
            let [int, bool, string, version] = FORMS.map(|form| &value[form]);
            let shown = format!(
                "{{\"IntValue\":{int},\"BoolValue\":{bool},\"StringValue\":{string},\
                 \"VersionValue\":{version}}}"
            );
            errors.invalid_as_shown(field_path, &shown, RULE);
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
