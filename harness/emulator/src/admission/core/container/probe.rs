//! Validation of probes and lifecycle hooks of containers.

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, number, text},
};

const PROBE_FIELDS: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const NOT_NEGATIVE_RULE: &str = "must be greater than or equal to 0";

/// Checks the probes and lifecycle hooks of the container at `path`. `grace_secs` is the pod's
/// termination grace period in seconds.
pub(super) fn check_probes_and_hooks(
    container: &Value,
    path: &str,
    grace_secs: i64,
    errors: &mut FieldErrors,
) {
    for field in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][field];
        if !hook.is_null() {
            let path = format!("{path}.lifecycle.{field}");
            check_handler(hook, &path, &["exec", "httpGet", "tcpSocket", "sleep"], errors);
            let seconds = number(hook, &["sleep", "seconds"]).unwrap_or(0);
            if !(0..=grace_secs).contains(&seconds) {
                let rule = format!(
                    "must be non-negative and less than terminationGracePeriodSeconds ({grace_secs})"
                );
                errors.invalid(format!("{path}.sleep"), &seconds.into(), &rule);
            }
        }
    }
    for field in PROBE_FIELDS {
        let probe = &container[field];
        if !probe.is_null() {
            check_probe(probe, &format!("{path}.{field}"), field, errors);
        }
    }
}

/// Checks that an init container that is no sidecar has no probes and no lifecycle hooks.
pub(super) fn check_no_probes_or_hooks(container: &Value, path: &str, errors: &mut FieldErrors) {
    let rule = "may not be set for init containers without restartPolicy=Always";
    for field in ["lifecycle"].into_iter().chain(PROBE_FIELDS) {
        if !container[field].is_null() {
            errors.forbidden(format!("{path}.{field}"), rule);
        }
    }
}

fn check_probe(probe: &Value, path: &str, kind: &str, errors: &mut FieldErrors) {
    check_handler(probe, path, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
    let counts = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for field in counts {
        if let Some(count) = number(probe, &[field]).filter(|count| *count < 0) {
            errors.invalid(format!("{path}.{field}"), &count.into(), NOT_NEGATIVE_RULE);
        }
    }
    let grace = number(probe, &["terminationGracePeriodSeconds"]);
    let grace_path = format!("{path}.terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.invalid(&*grace_path, &grace.into(), "must be greater than 0");
    }
    if kind == "readinessProbe" {
        if let Some(grace) = grace {
            errors.invalid(grace_path, &grace.into(), "must not be set for readinessProbes");
        }
    } else if let Some(count) = number(probe, &["successThreshold"]).filter(|count| *count != 1) {
        errors.invalid(format!("{path}.successThreshold"), &count.into(), "must be 1");
    }
}

/// Checks that a probe or hook has exactly one handler.
fn check_handler(owner: &Value, path: &str, handler_kinds: &[&str], errors: &mut FieldErrors) {
    let mut present = handler_kinds.iter().filter(|handler_kind| !owner[**handler_kind].is_null());
    let Some(handler_kind) = present.next() else {
        return errors.required(path, "must specify a handler type");
    };
    let handler = &owner[*handler_kind];
    let path_of = |handler_kind: &str| format!("{path}.{handler_kind}");
    if *handler_kind == "exec" {
        if list(handler, &["command"]).is_empty() {
            errors.required(format!("{}.command", path_of(handler_kind)), "");
        }
    } else if *handler_kind != "sleep" {
        check_port(&handler["port"], &format!("{}.port", path_of(handler_kind)), errors);
        let scheme = text(handler, &["scheme"]);
        if !["", "HTTP", "HTTPS"].contains(&scheme) {
            let allowed = ["HTTP", "HTTPS"];
            errors.unsupported(
                format!("{}.scheme", path_of(handler_kind)),
                &scheme.into(),
                &allowed,
            );
        }
    }
    for other in present {
        errors.forbidden(path_of(other), "may not specify more than 1 handler type");
    }
}

fn check_port(port: &Value, path: &str, errors: &mut FieldErrors) {
    let Some(name) = port.as_str() else {
        let number = port.as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            errors.invalid(path, &number.into(), "must be between 1 and 65535, inclusive");
        }
        return;
    };
    for rule in names::port_name_violations(name) {
        errors.invalid(path, &name.into(), rule);
    }
}
