//! Ports of containers and services.

use std::collections::BTreeSet;

use crate::error::FieldErrors;
use crate::object::{list, text};
use schedlab_json::Value;

const RANGE: &str = "must be between 1 and 65535, inclusive";

/// Checks the ports of the container that stands at `place`.
pub(super) fn check(container: &Value, place: &str, errors: &mut FieldErrors) {
    for (index, port) in list(container, &["ports"]).iter().enumerate() {
        let place = format!("{place}.ports[{index}]");
        if number(&port["containerPort"]) == 0 {
            errors.required(format!("{place}.containerPort"), "");
        }
        for field in ["containerPort", "hostPort"] {
            let found = number(&port[field]);
            if !(0..=65535).contains(&found) {
                errors.invalid(format!("{place}.{field}"), &found.into(), RANGE);
            }
        }
    }
}

/// Checks that the containers of a pod spec share no port of their host, and on its network have
/// there the ports that they have.
pub(super) fn check_host(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for (number_of, container) in list(spec, &["containers"]).iter().enumerate() {
        for (index, port) in list(container, &["ports"]).iter().enumerate() {
            let host = number(&port["hostPort"]);
            if host == 0 {
                continue;
            }
            let place = format!("{field}.containers[{number_of}].ports[{index}].hostPort");
            let protocol = Some(text(port, &["protocol"])).filter(|protocol| !protocol.is_empty());
            let address = text(port, &["hostIP"]);
            let shown = format!("{}/{address}/{host}", protocol.unwrap_or("TCP"));
            if spec["hostNetwork"] == true && host != number(&port["containerPort"]) {
                let rule = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&*place, &host.into(), rule);
            }
            if !taken.insert(shown.clone()) {
                errors.duplicate(place, &shown.into());
            }
        }
    }
}

/// Checks the ports of a service.
pub(super) fn check_service(service: &Value, errors: &mut FieldErrors) {
    for (index, port) in list(service, &["spec", "ports"]).iter().enumerate() {
        let numbered = |field: &str| !port[field].is_string();
        for field in ["port", "targetPort"].into_iter().filter(|field| numbered(field)) {
            // It is that of the service where it is left out.
            let found = if port[field].is_null() { &port["port"] } else { &port[field] };
            if !(1..=65535).contains(&number(found)) {
                let place = format!("spec.ports[{index}].{field}");
                errors.invalid(place, &number(found).into(), RANGE);
            }
        }
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
