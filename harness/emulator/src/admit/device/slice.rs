//! What a driver offers: on which nodes, in which pool, and the devices one by one.

use std::collections::BTreeSet;

use super::{bounded, check_driver, check_label, check_once, check_pool, check_qualified};
use crate::admit::affinity;
use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::names;
use crate::object::{list, map, number, text};
use schedlab_json::Value;

const DEVICES_MAX: usize = 128;
/// How much may be said of one device: attributes and capacities together.
const FACTS_MAX: usize = 32;
/// How many bytes the text of an attribute may have.
const TEXT_MAX: usize = 64;

const TERMS: &[Field] = &[
    Field("matchExpressions", &[Field("key", &[]), Field("operator", &[]), Field("values", &[])]),
    Field("matchFields", &[Field("key", &[]), Field("operator", &[]), Field("values", &[])]),
];

pub(super) fn check(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
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
    check_nodes(spec, errors);
    let mut seen = BTreeSet::new();
    for (place, device) in bounded(spec, ("spec", "devices"), DEVICES_MAX, errors) {
        check_device(device, &place, errors);
        check_once(text(device, &["name"]), (&place, &mut seen), errors);
    }
    if let Some(old) = old {
        check_unchanged(&old["spec"], spec, errors);
    }
}

fn check_unchanged(before: &Value, after: &Value, errors: &mut FieldErrors) {
    let parts: [&[&str]; 3] = [&["pool", "name"], &["driver"], &["nodeName"]];
    for path in parts {
        let at = |spec: &Value| path.iter().fold(spec.clone(), |at, field| at[*field].clone());
        if at(before) != at(after) {
            errors.invalid(format!("spec.{}", path.join(".")), &at(after), "field is immutable");
        }
    }
}

/// Where the devices are is said in one way.
fn check_nodes(spec: &Value, errors: &mut FieldErrors) {
    let mut ways = Vec::new();
    match spec["nodeName"].as_str() {
        None => {}
        Some("") => {
            let rule = "must be either unset or set to a non-empty string";
            errors.invalid("spec.nodeName", &"".into(), rule);
        }
        Some(name) => {
            ways.push("`nodeName`");
            if let Some(rule) = names::dns_subdomain(name) {
                errors.invalid("spec.nodeName", &name.into(), &rule);
            }
        }
    }
    let selector = &spec["nodeSelector"];
    if !selector.is_null() {
        ways.push("`nodeSelector`");
        affinity::check_node_selector(selector, "spec.nodeSelector", errors);
        let terms = &selector["nodeSelectorTerms"];
        if list(selector, &["nodeSelectorTerms"]).len() != 1 {
            let rule = "must have exactly one node selector term";
            errors.invalid_in_go("spec.nodeSelector.nodeSelectorTerms", &in_go(terms, TERMS), rule);
        }
    }
    match spec["allNodes"].as_bool() {
        None => {}
        Some(true) => ways.push("`allNodes`"),
        Some(false) => {
            let rule = "must be either unset or set to true";
            errors.invalid("spec.allNodes", &false.into(), rule);
        }
    }
    let rule = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` \
                is required";
    match ways.as_slice() {
        [] => errors.required("spec", rule),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            errors.invalid("spec", &shown.into(), &format!("{rule}, but multiple fields are set"));
        }
    }
}

fn check_device(device: &Value, place: &str, errors: &mut FieldErrors) {
    check_label(text(device, &["name"]), &format!("{place}.name"), errors);
    let facts = |field: &str| map(device, &[field]).into_iter().flatten();
    let count = facts("attributes").count() + facts("capacity").count();
    if count > FACTS_MAX {
        let rule =
            format!("the total number of attributes and capacities must not exceed {FACTS_MAX}");
        errors.invalid(place, &count.into(), &rule);
    }
    for (name, value) in facts("attributes") {
        let place = format!("{place}.attributes[{name}]");
        check_qualified(name, &place, errors);
        check_attribute(value, &place, errors);
    }
    for (name, _) in facts("capacity") {
        check_qualified(name, &format!("{place}.capacity[{name}]"), errors);
    }
}

fn check_attribute(value: &Value, place: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one value must be specified";
    const FORMS: [&str; 4] = ["int", "bool", "string", "version"];
    for form in ["string", "version"] {
        let Some(said) = value[form].as_str() else { continue };
        let place = format!("{place}.{form}");
        if said.len() > TEXT_MAX {
            errors.too_long(&*place, TEXT_MAX);
        }
        if form == "version" && !is_version(said) {
            let rule = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(place, &said.into(), rule);
        }
    }
    match FORMS.iter().filter(|form| !value[**form].is_null()).count() {
        0 => errors.invalid(place, &"".into(), RULE),
        1 => {}
        _ => {
            let [int, bool, string, version] = FORMS.map(|form| &value[form]);
            let shown = format!(
                "{{\"IntValue\":{int},\"BoolValue\":{bool},\"StringValue\":{string},\
                 \"VersionValue\":{version}}}"
            );
            errors.invalid_in_go(place, &shown, RULE);
        }
    }
}

/// Whether a text is a version as semver.org has them.
fn is_version(text: &str) -> bool {
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
    use super::is_version;

    #[test]
    fn a_version_has_three_numbers_and_words_about_them() {
        for version in ["0.0.0", "1.20.3", "1.0.0-rc.1", "1.0.0-0a.b-c+001.sha", "1.0.0+b"] {
            assert!(is_version(version), "{version}");
        }
        for text in ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1..3"] {
            assert!(!is_version(text), "{text}");
        }
    }
}
