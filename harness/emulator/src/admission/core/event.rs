//! Validation of events: the rules of the core group, and the stricter ones of `events.k8s.io`.

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{self, number, text},
};

const NAME_LENGTH_MAX: usize = 128;
const NOTE_LENGTH_MAX: usize = 1024;

/// Checks an event. `is_strict`: it is a new event in `events.k8s.io`, where no deprecated field
/// may be set.
pub(in crate::admission) fn check_event(is_strict: bool, event: &Value, errors: &mut FieldErrors) {
    let has_time = !text(event, &["eventTime"]).is_empty();
    check_namespace(event, has_time, errors);
    if has_time {
        check_reporter(is_strict, event, errors);
    }
    if is_strict {
        check_new_api_fields(event, has_time, errors);
    }
}

fn check_namespace(event: &Value, has_time: bool, errors: &mut FieldErrors) {
    let involved = text(event, &["involvedObject", "namespace"]);
    let own = object::namespace(event);
    let fits = match involved {
        "" => own == "default" || own == "kube-system",
        // An event with an `eventTime` may be in another namespace than the object it is about.
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
    for rule in names::qualified_name_violations(controller) {
        errors.invalid(field, &controller.into(), &rule);
    }
    for field in ["reportingInstance", "action", "reason"] {
        if text(event, &[field]).is_empty() {
            errors.required(field, "");
        }
        check_length(event, field, NAME_LENGTH_MAX, errors);
    }
    check_length(event, "message", NOTE_LENGTH_MAX, errors);
}

fn check_length(event: &Value, field: &str, limit: usize, errors: &mut FieldErrors) {
    if text(event, &[field]).len() > limit {
        let rule = format!("can have at most {limit} characters");
        errors.invalid(field, &"".into(), &rule);
    }
}

fn check_new_api_fields(event: &Value, has_time: bool, errors: &mut FieldErrors) {
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
