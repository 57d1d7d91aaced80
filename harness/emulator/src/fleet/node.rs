//! A node of a pool as a Kubernetes object.

use super::pool::{GpusBy, Objects, Pool};
use super::realistic;
use super::taint::TaintText;
use crate::actors::PUBLISHED;
use schedlab_json::{Map, Value, json};

/// The node with a name, the `index`th of its fleet.
pub(super) fn object(pool: &Pool, name: &str, index: usize) -> Value {
    let capacity = capacity(pool);
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(pool, name, index)},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity},
    });
    if !pool.annotations.is_empty() {
        node["metadata"]["annotations"] = json!(pool.annotations);
    }
    if pool.gpus_by == GpusBy::Claim {
        node["metadata"]["annotations"][PUBLISHED] = json!(pool.gpus.to_string());
    }
    if !pool.taints.is_empty() {
        node["spec"]["taints"] = pool.taints.iter().map(taint).collect();
    }
    match pool.objects {
        Objects::Slim => {}
        Objects::Realistic => realistic::fill(&mut node, index),
    }
    node
}

fn capacity(pool: &Pool) -> Map {
    let amounts = pool.amounts.iter();
    let mut all: Map =
        amounts.map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    if pool.gpus > 0 && pool.gpus_by == GpusBy::Plugin {
        all.insert("nvidia.com/gpu", json!(pool.gpus.to_string()));
    }
    all
}

/// Labels that kubelets and GPU discovery set, then the pool's own.
fn labels(pool: &Pool, name: &str, index: usize) -> Map {
    let mut all = Map::new();
    let mut put = |key: &str, value: String| all.insert(key.to_owned(), value.into());
    put("kubernetes.io/arch", "amd64".to_owned());
    put("kubernetes.io/os", "linux".to_owned());
    put("kubernetes.io/hostname", name.to_owned());
    if pool.gpus > 0 {
        put("nvidia.com/gpu.count", pool.gpus.to_string());
        put("nvidia.com/gpu.product", pool.gpu_product.clone());
        put("nvidia.com/gpu.memory", pool.gpu_memory_mib.to_string());
        put("nvidia.com/gpu.present", "true".to_owned());
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

fn taint(taint: &TaintText) -> Value {
    let mut made = json!({"key": taint.key, "effect": taint.effect.to_string()});
    if !taint.value.is_empty() {
        made["value"] = json!(taint.value);
    }
    made
}
