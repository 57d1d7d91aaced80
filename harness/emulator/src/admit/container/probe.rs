//! Probes of containers, and what is done when they begin and end.

use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, number, text};
use schedlab_json::Value;

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Checks the probes and hooks of the container that stands at `place`, in a pod that has `grace`
/// seconds to end.
pub(super) fn check(container: &Value, (place, grace): (&str, i64), errors: &mut FieldErrors) {
    for field in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][field];
        if !hook.is_null() {
            let place = format!("{place}.lifecycle.{field}");
            check_handler(hook, (&place, &["exec", "httpGet", "tcpSocket", "sleep"]), errors);
            let seconds = number(hook, &["sleep", "seconds"]).unwrap_or(0);
            if !(0..=grace).contains(&seconds) {
                let rule = format!(
                    "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                );
                errors.invalid(format!("{place}.sleep"), &seconds.into(), &rule);
            }
        }
    }
    for field in PROBES {
        let probe = &container[field];
        if !probe.is_null() {
            check_probe(probe, (&format!("{place}.{field}"), field), errors);
        }
    }
}

/// Containers that end before the others begin are not looked after.
pub(super) fn check_absent(container: &Value, place: &str, errors: &mut FieldErrors) {
    let rule = "may not be set for init containers without restartPolicy=Always";
    for field in ["lifecycle"].into_iter().chain(PROBES) {
        if !container[field].is_null() {
            errors.forbidden(format!("{place}.{field}"), rule);
        }
    }
}

fn check_probe(probe: &Value, (place, kind): (&str, &str), errors: &mut FieldErrors) {
    check_handler(probe, (place, &["exec", "httpGet", "tcpSocket", "grpc"]), errors);
    let counts = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for field in counts {
        if let Some(count) = number(probe, &[field]).filter(|count| *count < 0) {
            errors.invalid(format!("{place}.{field}"), &count.into(), NOT_NEGATIVE);
        }
    }
    let grace = number(probe, &["terminationGracePeriodSeconds"]);
    let grace_place = format!("{place}.terminationGracePeriodSeconds");
    if let Some(grace) = grace.filter(|grace| *grace <= 0) {
        errors.invalid(&*grace_place, &grace.into(), "must be greater than 0");
    }
    if kind == "readinessProbe" {
        if let Some(grace) = grace {
            errors.invalid(grace_place, &grace.into(), "must not be set for readinessProbes");
        }
    } else if let Some(count) = number(probe, &["successThreshold"]).filter(|count| *count != 1) {
        errors.invalid(format!("{place}.successThreshold"), &count.into(), "must be 1");
    }
}

/// Something is asked or done in one way.
fn check_handler(owner: &Value, (place, ways): (&str, &[&str]), errors: &mut FieldErrors) {
    let mut there = ways.iter().filter(|way| !owner[**way].is_null());
    let Some(way) = there.next() else {
        return errors.required(place, "must specify a handler type");
    };
    let handler = &owner[*way];
    let place_of = |way: &str| format!("{place}.{way}");
    if *way == "exec" {
        if list(handler, &["command"]).is_empty() {
            errors.required(format!("{}.command", place_of(way)), "");
        }
    } else if *way != "sleep" {
        check_port(&handler["port"], &format!("{}.port", place_of(way)), errors);
        let scheme = text(handler, &["scheme"]);
        if !["", "HTTP", "HTTPS"].contains(&scheme) {
            let allowed = ["HTTP", "HTTPS"];
            errors.unsupported(format!("{}.scheme", place_of(way)), &scheme.into(), &allowed);
        }
    }
    for other in there {
        errors.forbidden(place_of(other), "may not specify more than 1 handler type");
    }
}

fn check_port(port: &Value, place: &str, errors: &mut FieldErrors) {
    let Some(name) = port.as_str() else {
        let number = port.as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            errors.invalid(place, &number.into(), "must be between 1 and 65535, inclusive");
        }
        return;
    };
    for rule in names::port_name(name) {
        errors.invalid(place, &name.into(), rule);
    }
}
