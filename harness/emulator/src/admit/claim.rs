//! What is asked of devices, in claims and in templates of claims: each request is of one form
//! and names a class.

use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, text};
use schedlab_json::Value;

/// Checks the spec of a claim that stands at `field`.
pub(super) fn check(spec: &Value, field: &str, errors: &mut FieldErrors) {
    const RULE: &str = "exactly one of `exactly` or `firstAvailable` is required";
    for (index, request) in list(spec, &["devices", "requests"]).iter().enumerate() {
        let field = format!("{field}.devices.requests[{index}]");
        let (exactly, choices) = (&request["exactly"], list(request, &["firstAvailable"]));
        match (exactly.is_null(), choices.is_empty()) {
            (true, true) => errors.required(field, RULE),
            (false, false) => {
                let rule = format!("{RULE}, but multiple fields are set");
                errors.invalid(field, &Value::Null, &rule);
            }
            (false, true) => check_class(exactly, &format!("{field}.exactly"), errors),
            (true, false) => {
                for (index, choice) in choices.iter().enumerate() {
                    check_class(choice, &format!("{field}.firstAvailable[{index}]"), errors);
                }
            }
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
