//! Rows of nodes.

use jiff::Timestamp;

use super::or_none;
use schedlab_api::duration::age::since;
use schedlab_api::{
    Value, json,
    object::{at, condition, list, map, text},
};

pub(super) const COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Roles", "string", 0),
    ("Age", "string", 0),
    ("Version", "string", 0),
    ("Internal-IP", "string", 1),
    ("External-IP", "string", 1),
    ("OS-Image", "string", 1),
    ("Kernel-Version", "string", 1),
    ("Container-Runtime", "string", 1),
];

pub(super) fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let known = |field: &str| {
        let value = text(node, &["status", "nodeInfo", field]);
        if value.is_empty() { "<unknown>" } else { value }
    };
    let kernel = match text(node, &["status", "nodeInfo", "architecture"]) {
        "" => known("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", known("kernelVersion")),
    };
    vec![
        json!(text(node, &["metadata", "name"])),
        json!(status(node)),
        json!(roles(node)),
        json!(since(at(node, &["metadata", "creationTimestamp"]), now)),
        json!(text(node, &["status", "nodeInfo", "kubeletVersion"])),
        json!(address(node, "InternalIP")),
        json!(address(node, "ExternalIP")),
        json!(known("osImage")),
        json!(kernel),
        json!(known("containerRuntimeVersion")),
    ]
}

fn status(node: &Value) -> String {
    let mut status = match condition(node, "Ready") {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let labels = map(node, &["metadata", "labels"]).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if label == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or_none(&roles.join(",")).to_owned()
}

fn address<'n>(node: &'n Value, kind: &str) -> &'n str {
    let addresses = list(node, &["status", "addresses"]);
    let found = addresses.iter().find(|address| text(address, &["type"]) == kind);
    or_none(found.map_or("", |address| text(address, &["address"])))
}
