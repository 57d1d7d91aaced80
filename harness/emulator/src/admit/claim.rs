//! What is asked of devices, in claims and in templates of claims: each request is of one form
//! and names a class, and a name stands once.

use std::collections::BTreeSet;

use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, text};
use schedlab_json::Value;

/// Checks the spec of a claim that stands at `field`.
pub(super) fn check(spec: &Value, field: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    let mut seen = BTreeSet::new();
    for (index, request) in list(spec, &["devices", "requests"]).iter().enumerate() {
        let field = format!("{field}.devices.requests[{index}]");
        check_name(request, (&field, &mut seen), errors);
        let (exactly, choices) = (&request["exactly"], list(request, &["firstAvailable"]));
        match (exactly.is_null(), choices.is_empty()) {
            (true, true) => errors.required(field, RULE),
            (false, false) => {
                let rule = format!("{RULE}, but multiple fields are set");
                errors.invalid(field, &Value::Null, &rule);
            }
            (false, true) => check_request(exactly, &format!("{field}.exactly"), errors),
            (true, false) => {
                let mut seen = BTreeSet::new();
                for (index, choice) in choices.iter().enumerate() {
                    let field = format!("{field}.firstAvailable[{index}]");
                    check_name(choice, (&field, &mut seen), errors);
                    check_request(choice, &field, errors);
                }
            }
        }
    }
}

fn check_name<'r>(
    request: &'r Value,
    (field, seen): (&str, &mut BTreeSet<&'r str>),
    errors: &mut FieldErrors,
) {
    let name = text(request, &["name"]);
    if let Some(rule) = names::dns_label(name) {
        errors.invalid(format!("{field}.name"), &name.into(), &rule);
    }
    if !seen.insert(name) {
        errors.duplicate(field, &name.into());
    }
}

fn check_request(request: &Value, field: &str, errors: &mut FieldErrors) {
    check_class(request, field, errors);
    let count = request["count"].as_i64();
    let place = format!("{field}.count");
    match text(request, &["allocationMode"]) {
        "" | "ExactCount" => {
            if let Some(count) = count.filter(|count| *count <= 0) {
                errors.invalid(place, &count.into(), "must be greater than zero");
            }
        }
        "All" => {
            if let Some(count) = count.filter(|count| *count != 0) {
                let rule = "must not be specified when allocationMode is 'All'";
                errors.invalid(place, &count.into(), rule);
            }
        }
        mode => {
            let allowed = ["All", "ExactCount"];
            errors.unsupported(format!("{field}.allocationMode"), &mode.into(), &allowed);
        }
    }
}

fn check_class(request: &Value, field: &str, errors: &mut FieldErrors) {
    let field = format!("{field}.deviceClassName");
    let name = text(request, &["deviceClassName"]);
    if name.is_empty() {
        errors.required(field, "");
    } else if let Some(rule) = names::dns_subdomain(name) {
        errors.invalid(field, &name.into(), &rule);
    }
}
