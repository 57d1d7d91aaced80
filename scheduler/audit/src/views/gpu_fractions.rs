//! GPU fractions, from the annotations with which pods request them and the labels with the
//! assigned devices.

use std::collections::BTreeMap;

use schedlab_api::{
    Value, annotations, labels, object_names,
    pointer::{at, text},
    quantity::thousandths,
    resources,
};

use crate::rules::{DeviceShare, Name, PodView};

/// Memory of each GPU of the node in MiB, rounded down to hundreds; 0 if unknown.
pub fn gpu_memory_mib(node: &Value) -> i64 {
    let label = at(node, "/metadata/labels").and_then(|all| all.get(labels::GPU_MEMORY));
    label.and_then(|text| text.as_str()?.parse::<i64>().ok()).map_or(0, |mib| mib / 100 * 100)
}

/// What queues are charged for the pod's GPU fractions on GPUs with `device_mib` MiB, in
/// thousandths of a GPU.
pub fn charged_fraction_milli(pod: &Value, device_mib: i64) -> i128 {
    requested_fractions(pod, device_mib).map_or(0, |(_, paid)| paid)
}

/// Adds the pod's GPU fractions to the view of the pod, if the pod has a node.
pub(crate) fn add_gpu_fractions(
    mut view: PodView,
    pod: &Value,
    gpu_memory: &BTreeMap<Name, i64>,
) -> PodView {
    let Some(node) = &view.node else { return view };
    let device_mib = gpu_memory.get(node).copied().unwrap_or(0);
    let reserves = is_reservation_pod(pod);
    let requested = requested_fractions(pod, device_mib).or_else(|| reserves.then_some((0, 0)));
    let Some((milli, paid)) = requested else { return view };
    let part = |device: &str| DeviceShare { device: device.into(), milli };
    view.device_shares = shared_device_names(pod).map(part).collect();
    if reserves {
        return view;
    }
    view.extra_charges.insert(resources::GPU.into(), paid);
    view
}

/// Names of the GPUs of which the pod has a fraction, or which it reserves as a reservation pod.
pub fn shared_device_names(pod: &Value) -> impl Iterator<Item = &str> {
    let labels = at(pod, "/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, value)| {
        let several = key.strip_prefix(labels::GPU_GROUP)?.strip_prefix('/');
        several.or_else(|| value.as_str().filter(|_| key == labels::GPU_GROUP))
    })
}

/// Whether the pod is a KAI reservation pod, which holds a shared GPU towards the device plugin.
pub fn is_reservation_pod(pod: &Value) -> bool {
    text(pod, "/metadata/name")
        .is_some_and(|name| name.starts_with(object_names::GPU_RESERVATION_PREFIX))
}

/// The fraction of each GPU that the pod requests, and the total that queues are charged for it,
/// both in thousandths of a GPU.
fn requested_fractions(pod: &Value, device_mib: i64) -> Option<(i64, i128)> {
    let annotations = at(pod, "/metadata/annotations")?;
    let annotation = |key: &str| annotations.get(key)?.as_str();
    let devices =
        annotation(annotations::GPU_FRACTION_NUM_DEVICES).map_or(Some(1), |text| text.parse().ok());
    let devices: i64 = devices.unwrap_or(1);
    let device_mib = device_mib.max(1);
    let (milli, paid) = if let Some(fraction) = annotation(annotations::GPU_FRACTION) {
        let milli = i64::try_from(thousandths(&Value::from(fraction))?).ok()?;
        (milli, milli)
    } else {
        let mib: i64 = annotation(annotations::GPU_MEMORY)?.parse().ok()?;
        ((mib * 1000 / device_mib).max(1), (mib * 100 + device_mib - 1) / device_mib * 10)
    };
    Some((milli, i128::from(paid * devices)))
}
