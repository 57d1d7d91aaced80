//! A GPU driver for dynamic resource allocation, on annotated nodes. Like NVIDIA's driver it
//! publishes a `ResourceSlice` per node and a `DeviceClass`.

use std::sync::Arc;

use crate::reconcile::resources::{DEVICE_CLASSES, NODES, RESOURCE_SLICES};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::Key;
use schedlab_api::{
    Value, json, labels,
    object::{annotation, is_deleting, label, name, uid},
};

/// The node annotation with the number of GPUs to publish.
pub(crate) const PUBLISHED: &str = "schedlab.dev/published-gpus";
/// The name of the driver and of its device class.
const DRIVER: &str = "gpu.nvidia.com";

/// The GPU driver of all nodes.
pub(crate) const CONTROLLER: Controller = Controller {
    name: "gpu-driver",
    manager: "gpu-driver",
    watches: WatchedKinds::Kinds(&[&NODES]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, _: &InformerCache) -> Vec<Key> {
    let key = &change.key;
    let publishes = |node: &Arc<Value>| annotation(node, PUBLISHED).is_some();
    let node = change.after.iter().any(publishes) && key.resource == *NODES;
    if node { vec![key.clone()] } else { Vec::new() }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(node) = ctx.cache.get(key).filter(|node| !is_deleting(node)) else {
        return ReconcileResult::done();
    };
    let slice = slice(node);
    let is_there = |resource, object: &Value| {
        let key = crate::reconcile::key_of(resource, object);
        ctx.cache.get(&key).is_some()
    };
    let class = class();
    let class = (!is_there(&DEVICE_CLASSES, &class)).then_some((&DEVICE_CLASSES, class));
    let slice = (!is_there(&RESOURCE_SLICES, &slice)).then_some((&RESOURCE_SLICES, slice));
    ReconcileResult::from_writes(
        class.into_iter().chain(slice).map(|(kind, object)| ApiRequest::create(kind, object)),
    )
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
    let product = label(node, labels::GPU_PRODUCT).unwrap_or("NVIDIA-H100-80GB-HBM3");
    let memory_mib = label(node, labels::GPU_MEMORY).unwrap_or("81920");
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
