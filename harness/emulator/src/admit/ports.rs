//! Ports of containers.

use std::collections::BTreeSet;

use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, text};
use schedlab_json::Value;

pub(super) const RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks the ports of the container that stands at `place`.
pub(super) fn check(container: &Value, place: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, &["ports"]).iter().enumerate() {
        let place = format!("{place}.ports[{index}]");
        let name = text(port, &["name"]);
        let rules = if name.is_empty() { Vec::new() } else { names::port_name(name) };
        for rule in &rules {
            errors.invalid(format!("{place}.name"), &name.into(), rule);
        }
        if rules.is_empty() && !name.is_empty() && !seen.insert(name) {
            errors.duplicate(format!("{place}.name"), &name.into());
        }
        let protocol = text(port, &["protocol"]);
        if !protocol.is_empty() && !PROTOCOLS.contains(&protocol) {
            errors.unsupported(format!("{place}.protocol"), &protocol.into(), &PROTOCOLS);
        }
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

/// A port's number; 0 where there is none.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
