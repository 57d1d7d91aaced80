//! Pads nodes to the size of real GPU nodes, 27 to 55 KB: feature labels, health check conditions,
//! images and `managedFields`. The padding does not affect scheduling; it makes measurements of
//! speed and memory realistic.

use schedlab_api::{
    Map, Value, json,
    object::{as_map, list, map, set},
};

const FEATURE_LABEL_COUNT: usize = 150;
const CONDITION_COUNT: usize = 44;
const IMAGE_COUNT: usize = 50;
/// The timestamp of added conditions: a time before the start of every run.
const PADDING_TIME: &str = "2025-12-31T00:00:00Z";

/// Makes a node as large as a real GPU node: adds labels, conditions, images and `managedFields`.
pub(super) fn pad_node(node: &mut Value, index: usize) {
    add_feature_labels(node);
    add_conditions(node);
    add_images(node, index);
    add_managed_fields(node);
}

fn add_feature_labels(node: &mut Value) {
    let mut labels = map(node, &["metadata", "labels"]).cloned().unwrap_or_default();
    for feature in 0..FEATURE_LABEL_COUNT {
        let key = match feature % 3 {
            0 => format!("feature.node.kubernetes.io/cpu-cpuid.FEATURE{feature}"),
            1 => format!("feature.node.kubernetes.io/kernel-config.OPTION_{feature}"),
            _ => format!("feature.node.kubernetes.io/pci-{feature:04x}.present"),
        };
        labels.insert(key, json!("true"));
    }
    set(node, &["metadata", "labels"], Value::Object(labels));
}

fn add_conditions(node: &mut Value) {
    let all: Vec<Value> = (0..CONDITION_COUNT)
        .map(|check| {
            json!({
                "type": format!("GpuHealthCheck{check}"),
                "status": "False",
                "reason": format!("GpuHealthCheck{check}IsHealthy"),
                "message": "No health failures were found by this check",
                "lastHeartbeatTime": PADDING_TIME,
                "lastTransitionTime": PADDING_TIME,
            })
        })
        .collect();
    set(node, &["status", "conditions"], Value::Array(all));
}

fn add_images(node: &mut Value, index: usize) {
    let all: Vec<Value> = (0..IMAGE_COUNT)
        .map(|image| {
            let digest = (index * IMAGE_COUNT + image) % 997;
            json!({
                "names": [
                    format!("registry.example.com/team/image-{image}@sha256:{digest:064x}"),
                    format!("registry.example.com/team/image-{image}:v{digest}"),
                ],
                "sizeBytes": 100_000_000 + image * 7_000_000,
            })
        })
        .collect();
    set(node, &["status", "images"], Value::Array(all));
}

/// Adds `managedFields`: one entry for the labels, one for the status.
fn add_managed_fields(node: &mut Value) {
    let owned =
        |names: Vec<String>| -> Map { names.into_iter().map(|name| (name, json!({}))).collect() };
    let labels = as_map(&mut node["metadata"]["labels"]).keys().map(|key| format!("f:{key}"));
    let labels = owned(labels.collect());
    let conditions = list(node, &["status", "conditions"]).iter();
    let conditions: Map = conditions
        .map(|one| {
            let fields = ["type", "status", "reason", "message", "lastHeartbeatTime"];
            let owned = owned(fields.iter().map(|field| format!("f:{field}")).collect());
            (format!("k:{{\"type\":{}}}", one["type"]), Value::Object(owned))
        })
        .collect();
    let entry = |manager: &str, fields: Value| {
        json!({
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": PADDING_TIME,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    };
    let entries = json!([
        entry("nfd-master", json!({"f:metadata": {"f:labels": labels}})),
        entry("node-health", json!({"f:status": {"f:conditions": conditions}})),
    ]);
    set(node, &["metadata", "managedFields"], entries);
}
