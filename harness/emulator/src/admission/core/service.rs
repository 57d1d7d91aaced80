//! Defaults and validation of services: types, ports and addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::ports::{PORT_RANGE_RULE, PROTOCOLS, port_number};
use crate::admission::defaults::pod_template::list_items_mut;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value, json,
    object::{list, map, remove, set, text},
};

const SERVICE_TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

/// Whether the service is reachable from outside the cluster.
pub(in crate::admission) fn is_externally_reachable(spec: &Value) -> bool {
    matches!(text(spec, &["type"]), "LoadBalancer" | "NodePort")
        || spec["type"] == "ClusterIP" && !list(spec, &["externalIPs"]).is_empty()
}

/// Whether the service has node ports.
fn has_node_ports(spec: &Value) -> bool {
    spec["type"] == "NodePort"
        || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
}

/// Removes the fields that only the old service type used, if the client left them unchanged.
fn drop_fields_of_old_type(old: &Value, new: &mut Value) {
    let same = |field: &str, new: &Value| old["spec"][field] == new["spec"][field];
    let closes = is_externally_reachable(&old["spec"]) && !is_externally_reachable(&new["spec"]);
    if closes && same("externalTrafficPolicy", new) {
        remove(new, &["spec", "externalTrafficPolicy"]);
    }
    let frees_ports = has_node_ports(&old["spec"]) && !has_node_ports(&new["spec"]);
    let numbers = |service: &Value| -> Vec<Value> {
        list(service, &["spec", "ports"]).iter().map(|port| port["nodePort"].clone()).collect()
    };
    if frees_ports && numbers(old) == numbers(new) {
        for port in list_items_mut(&mut new["spec"], "ports") {
            remove(port, &["nodePort"]);
        }
    }
    let balanced = |service: &Value| service["spec"]["type"] == "LoadBalancer";
    let field = "allocateLoadBalancerNodePorts";
    if balanced(old) && !balanced(new) && same(field, new) {
        remove(new, &["spec", field]);
    }
}

/// Keeps the cluster IPs if the update leaves them out.
pub(in crate::admission) fn set_fields_on_update(old: &Value, new: &mut Value) {
    drop_fields_of_old_type(old, new);
    if old["spec"]["type"] == "ExternalName" || new["spec"]["type"] == "ExternalName" {
        return;
    }
    if text(new, &["spec", "clusterIP"]).is_empty() {
        set(new, &["spec", "clusterIP"], old["spec"]["clusterIP"].clone());
    }
    let address = new["spec"]["clusterIP"].clone();
    let all = list(new, &["spec", "clusterIPs"]);
    if all.is_empty() {
        set(new, &["spec", "clusterIPs"], old["spec"]["clusterIPs"].clone());
    } else if all == list(old, &["spec", "clusterIPs"]) && address != old["spec"]["clusterIP"] {
        set(new, &["spec", "clusterIPs"], json!([address]));
    }
}

/// Checks that the cluster IPs do not change.
fn check_cluster_ips_unchanged(old: &Value, new: &Value, errors: &mut FieldErrors) {
    let is_external = |service: &Value| service["spec"]["type"] == "ExternalName";
    if is_external(old) || is_external(new) {
        return;
    }
    let (before, after) = (list(old, &["spec", "clusterIPs"]), list(new, &["spec", "clusterIPs"]));
    for (index, _) in before.iter().zip(after).enumerate().filter(|(_, (old, new))| old != new) {
        let path = format!("spec.clusterIPs[{index}]");
        errors.invalid(path, &Value::Array(after.to_vec()), "may not change once set");
    }
}

pub(in crate::admission) fn check_service(
    old: Option<&Value>,
    service: &Value,
    errors: &mut FieldErrors,
) {
    let spec = &service["spec"];
    let (address, all) = (&spec["clusterIP"], list(spec, &["clusterIPs"]));
    if address.is_string() && all.first().is_some_and(|first| first != address) {
        let rule = "first value must match `clusterIP`";
        errors.invalid("spec.clusterIPs", &Value::Array(all.to_vec()), rule);
        return;
    }
    if let Some(old) = old {
        check_cluster_ips_unchanged(old, service, errors);
    }
    let kind = text(spec, &["type"]);
    let ports = list(spec, &["ports"]);
    if ports.is_empty() && kind != "ExternalName" && spec["clusterIP"] != "None" {
        errors.required("spec.ports", "");
    }
    check_ports(ports, kind, errors);
    for (key, value) in map(spec, &["selector"]).into_iter().flatten() {
        for rule in names::qualified_name_violations(key) {
            errors.invalid("spec.selector", &key.as_str().into(), &rule);
        }
        if let Some(rule) = value.as_str().and_then(names::label_value_violation) {
            errors.invalid("spec.selector", value, &rule);
        }
    }
    let choices: [(&str, &[&str]); 3] = [
        ("type", &SERVICE_TYPES),
        ("sessionAffinity", &["ClientIP", "None"]),
        ("internalTrafficPolicy", &["Cluster", "Local"]),
    ];
    for (field, allowed) in choices {
        let found = text(spec, &[field]);
        if !found.is_empty() && !allowed.contains(&found) {
            errors.unsupported(format!("spec.{field}"), &found.into(), allowed);
        }
    }
    check_addresses(spec, kind, errors);
}

fn check_ports(ports: &[Value], kind: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, &["name"]);
        if name.is_empty() && ports.len() > 1 {
            errors.required(format!("{path}.name"), "");
        } else if let Some(rule) = names::dns_label_violation(name).filter(|_| !name.is_empty()) {
            errors.invalid(format!("{path}.name"), &name.into(), &rule);
        } else if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), &name.into());
        }
        let numbered = |field: &str| !port[field].is_string();
        for field in ["port", "targetPort"].into_iter().filter(|field| numbered(field)) {
            // The target port defaults to the port.
            let found = if port[field].is_null() { &port["port"] } else { &port[field] };
            if !(1..=65535).contains(&port_number(found)) {
                errors.invalid(
                    format!("{path}.{field}"),
                    &port_number(found).into(),
                    PORT_RANGE_RULE,
                );
            }
        }
        if let Some(target) = port["targetPort"].as_str() {
            for rule in names::port_name_violations(target) {
                errors.invalid(format!("{path}.targetPort"), &target.into(), rule);
            }
        }
        let protocol = text(port, &["protocol"]);
        if !protocol.is_empty() && !PROTOCOLS.contains(&protocol) {
            errors.unsupported(format!("{path}.protocol"), &protocol.into(), &PROTOCOLS);
        }
        if kind == "ClusterIP" && port_number(&port["nodePort"]) != 0 {
            let rule = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(format!("{path}.nodePort"), rule);
        }
    }
}

fn check_addresses(spec: &Value, kind: &str, errors: &mut FieldErrors) {
    const RULE: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    if kind == "ExternalName" {
        let name = text(spec, &["externalName"]);
        if name.is_empty() {
            errors.required("spec.externalName", "");
        } else if let Some(rule) = names::dns_subdomain_violation(name.trim_end_matches('.')) {
            errors.invalid("spec.externalName", &name.into(), &rule);
        }
    }
    for field in ["clusterIPs", "externalIPs"] {
        for (index, address) in list(spec, &[field]).iter().enumerate() {
            let is_address = |text: &str| text == "None" || text.parse::<IpAddr>().is_ok();
            if !address.as_str().is_some_and(is_address) {
                errors.invalid(format!("spec.{field}[{index}]"), address, RULE);
            }
        }
    }
}
