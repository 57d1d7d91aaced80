//! A GPU driver for dynamic resource allocation, on annotated nodes. Like NVIDIA's driver it
//! publishes a `ResourceSlice` per node and a `DeviceClass`, and withdraws unhealthy GPUs.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api_types::kubelet_timing::unhealthy_gpus;
use crate::reconcile::resources::{DEVICE_CLASSES, NODES, RESOURCE_SLICES};
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
    key_of,
};
use crate::store::Key;
use schedlab_api::{
    Value, annotations, json, labels,
    object::{annotation, is_deleting, label, list, name, number, set, text, uid},
};

/// The name of the emulated DRA driver and of its device class.
const DRIVER_NAME: &str = "gpu.nvidia.com";

/// The controller that emulates the DRA driver for GPUs on all nodes.
pub(crate) const CONTROLLER: Controller = Controller {
    name: "gpu-driver",
    manager: "gpu-driver",
    watches: WatchedKinds::Kinds(&[&NODES]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, _: &InformerCache) -> Vec<Key> {
    let key = &change.key;
    let publishes = |node: &Arc<Value>| annotation(node, annotations::PUBLISHED_GPUS).is_some();
    let node = change.after.iter().any(publishes) && key.resource == *NODES;
    if node { vec![key.clone()] } else { Vec::new() }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(node) = ctx.cache.get(key).filter(|node| !is_deleting(node)) else {
        return ReconcileResult::nothing_to_do();
    };
    let class = device_class();
    let is_new = ctx.cache.get(&key_of(&DEVICE_CLASSES, &class)).is_none();
    let class = is_new.then(|| ApiRequest::create(&DEVICE_CLASSES, class));
    ReconcileResult::from_writes(class.into_iter().chain(sync_slice(node, ctx)))
}

/// Publishes the ResourceSlice of a node, and publishes it again when other GPUs become unhealthy.
/// A node without the annotation for unhealthy GPUs keeps its slice unchanged.
fn sync_slice(node: &Value, ctx: &Context) -> Option<ApiRequest> {
    let desired = resource_slice(node);
    let key = key_of(&RESOURCE_SLICES, &desired);
    let Some(published) = ctx.cache.get(&key) else {
        return Some(ApiRequest::create(&RESOURCE_SLICES, desired));
    };
    annotation(node, annotations::UNHEALTHY_GPUS)?;
    let names = |slice: &Value| -> Vec<String> {
        let devices = list(slice, &["spec", "devices"]).iter();
        devices.map(|device| text(device, &["name"]).to_owned()).collect()
    };
    if names(published) == names(&desired) || is_deleting(published) {
        return None;
    }
    let mut changed = Value::clone(published);
    let generation = number(published, &["spec", "pool", "generation"]).unwrap_or(1);
    set(&mut changed, &["spec", "pool", "generation"], json!(generation + 1));
    set(&mut changed, &["spec", "devices"], desired["spec"]["devices"].clone());
    Some(ApiRequest::update(&key, changed))
}

fn device_class() -> Value {
    let selects = format!(
        "device.driver == '{DRIVER_NAME}' && device.attributes['{DRIVER_NAME}'].type == 'gpu'"
    );
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER_NAME},
        "spec": {"selectors": [{"cel": {"expression": selects}}]},
    })
}

fn resource_slice(node: &Value) -> Value {
    let count: u64 = annotation(node, annotations::PUBLISHED_GPUS)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let unhealthy: BTreeSet<u64> = unhealthy_gpus(node).collect();
    let healthy = (0..count).filter(|index| !unhealthy.contains(index));
    let devices: Vec<Value> = healthy.map(|index| slice_device(node, index)).collect();
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": format!("{}-{DRIVER_NAME}", name(node)),
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name(node), "uid": uid(node)},
            ],
        },
        "spec": {
            "driver": DRIVER_NAME,
            "nodeName": name(node),
            "pool": {"name": name(node), "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    })
}

fn slice_device(node: &Value, index: u64) -> Value {
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
