//! A driver of GPUs for dynamic resource allocation, on the nodes that ask for one: publishes
//! their GPUs in a `ResourceSlice` each, and the class of its devices, as NVIDIA's driver does.

use std::sync::Arc;

use super::kinds::{DEVICE_CLASSES, NODES, SLICES};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{annotation, is_deleting, label, name, uid};
use crate::store::Key;
use schedlab_json::{Value, json};

/// The annotation of a node whose GPUs are published: how many.
pub(crate) const PUBLISHED: &str = "schedlab.dev/published-gpus";
/// The driver, and the class of its devices.
const DRIVER: &str = "gpu.nvidia.com";

/// The driver on all nodes.
pub(super) const ACTOR: Actor = Actor {
    name: "gpu-driver",
    manager: "gpu-driver",
    watches: Watched::Kinds(&[&NODES]),
    concerns,
    step,
};

fn concerns(change: &Change, _: &View) -> Vec<Key> {
    let key = &change.key;
    let publishes = |node: &Arc<Value>| annotation(node, PUBLISHED).is_some();
    let node = change.after.iter().any(publishes) && key.resource == *NODES;
    if node { vec![key.clone()] } else { Vec::new() }
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(node) = ctx.view.get(key).filter(|node| !is_deleting(node)) else {
        return Step::rest();
    };
    let slice = slice(node);
    let is_there = |resource, object: &Value| {
        let key = super::key_of(resource, object);
        ctx.view.get(&key).is_some()
    };
    let class = class();
    let class = (!is_there(&DEVICE_CLASSES, &class)).then_some((&DEVICE_CLASSES, class));
    let slice = (!is_there(&SLICES, &slice)).then_some((&SLICES, slice));
    Step::of(class.into_iter().chain(slice).map(|(kind, object)| Request::create(kind, object)))
}

fn class() -> Value {
    let selects =
        format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'");
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [{"cel": {"expression": selects}}]},
    })
}

fn slice(node: &Value) -> Value {
    let count: u64 = annotation(node, PUBLISHED).and_then(|text| text.parse().ok()).unwrap_or(0);
    let devices: Vec<Value> = (0..count).map(|index| device(node, index)).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": format!("{}-{DRIVER}", name(node)),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)},
            ],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": name(node),
            "pool": {"name": name(node), "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    })
}

fn device(node: &Value, index: u64) -> Value {
    let product = label(node, "nvidia.com/gpu.product").unwrap_or("NVIDIA-H100-80GB-HBM3");
    let memory_mib = label(node, "nvidia.com/gpu.memory").unwrap_or("81920");
    json!({
        "name": format!("gpu-{index}"),
        "attributes": {
            "type": {"string": "gpu"},
            "index": {"int": index},
            "productName": {"string": product.replace('-', " ")},
            "uuid": {"string": format!("GPU-{}-{index}", name(node))},
        },
        "capacity": {"memory": {"value": format!("{memory_mib}Mi")}},
    })
}
