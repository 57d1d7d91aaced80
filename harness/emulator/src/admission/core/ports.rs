//! Validation of container ports.

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, text},
};

pub(in crate::admission) const PORT_RANGE_RULE: &str = "must be between 1 and 65535, inclusive";
pub(in crate::admission) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// Checks the ports of the container at `path`.
pub(in crate::admission) fn check_container_ports(
    container: &Value,
    path: &str,
    errors: &mut FieldErrors,
) {
    let mut seen = BTreeSet::new();
    for (index, port) in list(container, &["ports"]).iter().enumerate() {
        let path = format!("{path}.ports[{index}]");
        let name = text(port, &["name"]);
        let rules = if name.is_empty() { Vec::new() } else { names::port_name_violations(name) };
        for rule in &rules {
            errors.invalid(format!("{path}.name"), &name.into(), rule);
        }
        if rules.is_empty() && !name.is_empty() && !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), &name.into());
        }
        let protocol = text(port, &["protocol"]);
        if !protocol.is_empty() && !PROTOCOLS.contains(&protocol) {
            errors.unsupported(format!("{path}.protocol"), &protocol.into(), &PROTOCOLS);
        }
        if port_number(&port["containerPort"]) == 0 {
            errors.required(format!("{path}.containerPort"), "");
        }
        for field in ["containerPort", "hostPort"] {
            let found = port_number(&port[field]);
            if !(0..=65535).contains(&found) {
                errors.invalid(format!("{path}.{field}"), &found.into(), PORT_RANGE_RULE);
            }
        }
    }
}

/// Checks that no host port is used twice, and that with `hostNetwork` host port and container port
/// are equal.
pub(in crate::admission) fn check_host_ports(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let mut taken = BTreeSet::new();
    for (number_of, container) in list(spec, &["containers"]).iter().enumerate() {
        for (index, port) in list(container, &["ports"]).iter().enumerate() {
            let host = port_number(&port["hostPort"]);
            if host == 0 {
                continue;
            }
            let path = format!("{field}.containers[{number_of}].ports[{index}].hostPort");
            let protocol = Some(text(port, &["protocol"])).filter(|protocol| !protocol.is_empty());
            let address = text(port, &["hostIP"]);
            let shown = format!("{}/{address}/{host}", protocol.unwrap_or("TCP"));
            if spec["hostNetwork"] == true && host != port_number(&port["containerPort"]) {
                let rule = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&*path, &host.into(), rule);
            }
            if !taken.insert(shown.clone()) {
                errors.duplicate(path, &shown.into());
            }
        }
    }
}

/// The number of a port field; 0 if the field is absent.
pub(in crate::admission) fn port_number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}
