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

/// Index of the cell in column `Kernel-Version`.
const KERNEL: usize = 8;

/// The cells since Kubernetes 1.37, with the architecture of the node.
pub(super) fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = cells_without_architecture(node, now);
    let architecture = text(node, &["status", "nodeInfo", "architecture"]);
    if let (false, Some(kernel)) = (architecture.is_empty(), cells[KERNEL].as_str()) {
        cells[KERNEL] = json!(format!("{kernel} ({architecture})"));
    }
    cells
}

/// The cells before Kubernetes 1.37.
pub(super) fn cells_without_architecture(node: &Value, now: Timestamp) -> Vec<Value> {
    let known = |field: &str| {
        let value = text(node, &["status", "nodeInfo", field]);
        if value.is_empty() { "<unknown>" } else { value }
    };
    vec![
        json!(text(node, &["metadata", "name"])),
        json!(node_status(node)),
        json!(node_roles(node)),
        json!(since(at(node, &["metadata", "creationTimestamp"]), now)),
        json!(text(node, &["status", "nodeInfo", "kubeletVersion"])),
        json!(address_of_type(node, "InternalIP")),
        json!(address_of_type(node, "ExternalIP")),
        json!(known("osImage")),
        json!(known("kernelVersion")),
        json!(known("containerRuntimeVersion")),
    ]
}

fn node_status(node: &Value) -> String {
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

fn node_roles(node: &Value) -> String {
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

fn address_of_type<'n>(node: &'n Value, kind: &str) -> &'n str {
    let addresses = list(node, &["status", "addresses"]);
    let found = addresses.iter().find(|address| text(address, &["type"]) == kind);
    or_none(found.map_or("", |address| text(address, &["address"])))
}
