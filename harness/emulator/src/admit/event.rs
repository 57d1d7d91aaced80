//! Events: what those of old may say, and what those of `events.k8s.io` must.

use crate::error::FieldErrors;
use crate::names;
use crate::object::{self, number, text};
use schedlab_json::Value;

const WORD_BYTES: usize = 128;
const NOTE_BYTES: usize = 1024;

/// `is_strict`: it comes new in `events.k8s.io`, where nothing deprecated may be set.
pub(super) fn check(is_strict: bool, event: &Value, errors: &mut FieldErrors) {
    let has_time = !text(event, &["eventTime"]).is_empty();
    check_namespace(event, has_time, errors);
    if has_time {
        check_reporter(is_strict, event, errors);
    }
    if is_strict {
        check_modern(event, has_time, errors);
    }
}

fn check_namespace(event: &Value, has_time: bool, errors: &mut FieldErrors) {
    let involved = text(event, &["involvedObject", "namespace"]);
    let own = object::namespace(event);
    let fits = match involved {
        "" => own == "default" || own == "kube-system",
        // Whoever says when it happened may report from elsewhere.
        involved => has_time || involved == own,
    };
    if !fits {
        let rule = "does not match event.namespace";
        errors.invalid("involvedObject.namespace", &involved.into(), rule);
    }
}

fn check_reporter(is_strict: bool, event: &Value, errors: &mut FieldErrors) {
    let controller = text(event, &["reportingComponent"]);
    let field = if is_strict { "reportingController" } else { "reportingComponent" };
    if controller.is_empty() {
        errors.required(field, "");
    }
    for rule in names::qualified_name(controller) {
        errors.invalid(field, &controller.into(), &rule);
    }
    for field in ["reportingInstance", "action", "reason"] {
        if text(event, &[field]).is_empty() {
            errors.required(field, "");
        }
        check_length(event, (field, WORD_BYTES), errors);
    }
    check_length(event, ("message", NOTE_BYTES), errors);
}

fn check_length(event: &Value, (field, most): (&str, usize), errors: &mut FieldErrors) {
    if text(event, &[field]).len() > most {
        let rule = format!("can have at most {most} characters");
        errors.invalid(field, &"".into(), &rule);
    }
}

fn check_modern(event: &Value, has_time: bool, errors: &mut FieldErrors) {
    if !has_time {
        errors.required("eventTime", "");
    }
    let kind = text(event, &["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid("type", &"".into(), &format!("has invalid value: {kind}"));
    }
    let is_set = [
        ("firstTimestamp", !text(event, &["firstTimestamp"]).is_empty()),
        ("lastTimestamp", !text(event, &["lastTimestamp"]).is_empty()),
        ("count", number(event, &["count"]).is_some_and(|count| count != 0)),
        ("source", ["component", "host"].iter().any(|f| !text(event, &["source", f]).is_empty())),
    ];
    for (field, _) in is_set.into_iter().filter(|(_, is_set)| *is_set) {
        errors.invalid(field, &"".into(), "needs to be unset");
    }
}
