//! Cells of services' endpoints and of ingresses. Like kube-apiserver, they show the first three of
//! a list and count the others.

use std::collections::BTreeSet;

use super::NONE_TEXT;
use schedlab_api::{
    Value,
    object::{list, number, text},
};

/// The maximum number of items that a cell shows.
const SHOWN_ITEMS_MAX: usize = 3;

/// The addresses of an `Endpoints` object, with their ports.
pub(super) fn endpoint_addresses(endpoints: &Value) -> String {
    let subsets = list(endpoints, &["subsets"]);
    if subsets.is_empty() {
        return NONE_TEXT.to_owned();
    }
    let mut all = Vec::new();
    for subset in subsets {
        let hosts = || list(subset, &["addresses"]).iter().map(|address| text(address, &["ip"]));
        let ports = list(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(hosts().map(str::to_owned));
        }
        for port in ports {
            let port = number(port, &["port"]).unwrap_or(0);
            all.extend(hosts().map(|host| host_and_port(host, port)));
        }
    }
    first_items(&all)
}

/// Formats `host:port`. An IPv6 address is put in brackets.
fn host_and_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The ports of an endpoint slice: the numbers, or the names of ports without a number.
pub(super) fn slice_ports(slice: &Value) -> String {
    let shown = |port: &Value| match (number(port, &["port"]), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports: Vec<String> = list(slice, &["ports"]).iter().map(shown).collect();
    text_or_unset(first_items(&ports))
}

/// The addresses of an endpoint slice.
pub(super) fn slice_addresses(slice: &Value) -> String {
    let endpoints = list(slice, &["endpoints"]).iter();
    let addresses: Vec<&str> = endpoints
        .flat_map(|endpoint| list(endpoint, &["addresses"]))
        .filter_map(Value::as_str)
        .collect();
    text_or_unset(first_items(&addresses))
}

fn text_or_unset(text: String) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text }
}

/// The first items as text, and the number of the other items.
fn first_items<T: AsRef<str>>(items: &[T]) -> String {
    let shown: Vec<&str> = items.iter().take(SHOWN_ITEMS_MAX).map(AsRef::as_ref).collect();
    let shown = shown.join(",");
    match items.len().checked_sub(SHOWN_ITEMS_MAX) {
        None | Some(0) => shown,
        Some(others) => format!("{shown} + {others} more..."),
    }
}

/// The hosts of an ingress. As in kube-apiserver, rules without a host are not shown but counted as
/// further hosts.
pub(super) fn ingress_hosts(ingress: &Value) -> String {
    let rules = list(ingress, &["spec", "rules"]);
    let mut hosts = Vec::new();
    let mut has_more = false;
    for rule in rules {
        has_more |= hosts.len() == SHOWN_ITEMS_MAX;
        let host = text(rule, &["host"]);
        if !has_more && !host.is_empty() {
            hosts.push(host);
        }
    }
    let shown = hosts.join(",");
    match hosts.as_slice() {
        [] => "*".to_owned(),
        _ if has_more => format!("{shown} + {} more...", rules.len() - SHOWN_ITEMS_MAX),
        _ => shown,
    }
}

/// The addresses of an ingress' load balancer.
pub(super) fn ingress_address(ingress: &Value) -> String {
    let points = list(ingress, &["status", "loadBalancer", "ingress"]).iter();
    let addresses: BTreeSet<&str> = points
        .map(|point| match text(point, &["ip"]) {
            "" => text(point, &["hostname"]),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

/// The object with the parameters of an ingress class: `Kind.group/name`.
pub(super) fn class_parameters(class: &Value) -> String {
    let parameters = &class["spec"]["parameters"];
    if parameters.is_null() {
        return NONE_TEXT.to_owned();
    }
    let (kind, name) = (text(parameters, &["kind"]), text(parameters, &["name"]));
    match parameters["apiGroup"].as_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn three_items_are_shown_and_the_others_counted() {
        for (count, expected) in [(0, ""), (3, "a,a,a"), (4, "a,a,a + 1 more...")] {
            assert_eq!(first_items(&vec!["a"; count]), expected);
        }
        let rule = |host: &str| json!({ "host": host });
        let ingress = |hosts: &[&str]| {
            let rules: Vec<Value> = hosts.iter().map(|host| rule(host)).collect();
            json!({"spec": { "rules": rules }})
        };
        assert_eq!(ingress_hosts(&ingress(&["", ""])), "*");
        assert_eq!(ingress_hosts(&ingress(&["", "a", "b", "c", "d"])), "a,b,c + 2 more...");
    }

    #[test]
    fn an_ipv6_address_with_a_port_is_in_brackets() {
        let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "::1"}]);
        let subset = json!({"addresses": addresses, "ports": [{"port": 80}]});
        assert_eq!(endpoint_addresses(&json!({"subsets": [subset]})), "10.0.0.1:80,[::1]:80");
    }
}
