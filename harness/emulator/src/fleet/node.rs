//! Builds the Kubernetes object of a pool's node.

use super::node_padding;
use super::pool::{GpusBy, ObjectSize, Pool};
use super::taint::TaintText;
use schedlab_api::{Map, Value, annotations, json, labels, resources};

/// The Node object named `name` of a pool. `index` is the node's index in the fleet, which
/// determines its topology domains.
pub(super) fn node_object(pool: &Pool, name: &str, index: usize) -> Value {
    let capacity = node_capacity(pool);
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node_labels(pool, name, index)},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity},
    });
    if !pool.annotations.is_empty() {
        node["metadata"]["annotations"] = json!(pool.annotations);
    }
    if pool.gpus_by == GpusBy::Claim {
        node["metadata"]["annotations"][annotations::PUBLISHED_GPUS] = json!(pool.gpus.to_string());
    }
    if !pool.taints.is_empty() {
        node["spec"]["taints"] = pool.taints.iter().map(taint_json).collect();
    }
    match pool.objects {
        ObjectSize::Slim => {}
        ObjectSize::Realistic => node_padding::pad_node(&mut node, index),
    }
    node
}

fn node_capacity(pool: &Pool) -> Map {
    let amounts = pool.amounts.iter();
    let mut all: Map =
        amounts.map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    if pool.gpus > 0 && pool.gpus_by == GpusBy::Plugin {
        all.insert(resources::GPU, json!(pool.gpus.to_string()));
    }
    all
}

/// The labels of a node: those that kubelets and GPU feature discovery set, and those of the pool.
fn node_labels(pool: &Pool, name: &str, index: usize) -> Map {
    let mut all = Map::new();
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value.into());
    put("kubernetes.io/arch", "amd64".to_owned());
    put("kubernetes.io/os", "linux".to_owned());
    put(labels::HOSTNAME, name.to_owned());
    if pool.gpus > 0 {
        put(labels::GPU_COUNT, pool.gpus.to_string());
        put(labels::GPU_PRODUCT, pool.gpu_product.clone());
        put(labels::GPU_MEMORY, pool.gpu_memory_mib.to_string());
        put(labels::GPU_PRESENT, "true".to_owned());
    }
    for (label, nodes) in &pool.topology {
        let kind = label.rsplit('/').next().unwrap_or(label);
        let domain = u64::try_from(index).unwrap_or(u64::MAX) / nodes;
        put(label, format!("{kind}-{domain}"));
    }
    for (key, value) in &pool.labels {
        put(key, value.clone());
    }
    all
}

fn taint_json(taint: &TaintText) -> Value {
    let mut made = json!({"key": taint.key, "effect": taint.effect.to_string()});
    if !taint.value.is_empty() {
        made["value"] = json!(taint.value);
    }
    made
}
