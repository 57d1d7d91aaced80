//! Parts of GPUs, from the annotations with which pods ask for them and the labels that say which
//! they got.

use std::collections::BTreeMap;

use schedlab_emulator::quantity::thousandths;
use schedlab_json::Value;
use schedlab_scheduler_core::{
    audit::{Part, PodView},
    model::Name,
};

use crate::fields::{at, text};

const GROUP: &str = "runai-gpu-group";

/// So begin the names of pods that hold a shared device, as a whole one, for a device plugin to
/// see. They have no part of it.
const RESERVATION: &str = "gpu-reservation-";

/// MiB of each GPU of the node, in whole hundreds; 0 where it does not say.
pub(crate) fn gpu_memory_mib(node: &Value) -> i64 {
    let label = at(node, "/metadata/labels").and_then(|all| all.get("nvidia.com/gpu.memory"));
    label.and_then(|text| text.as_str()?.parse::<i64>().ok()).map_or(0, |mib| mib / 100 * 100)
}

/// What queues pay for the pod's parts on a node with such devices, in thousandths of GPUs.
pub(crate) fn paid_milli(pod: &Value, device_mib: i64) -> i128 {
    asked(pod, device_mib).map_or(0, |(_, paid)| paid)
}

/// The pod with its parts, when it has a node.
pub(super) fn add(mut view: PodView, pod: &Value, gpu_memory: &BTreeMap<Name, i64>) -> PodView {
    let Some(node) = &view.node else { return view };
    let device_mib = gpu_memory.get(node).copied().unwrap_or(0);
    let reserves = reserves(pod);
    let asked = asked(pod, device_mib).or_else(|| reserves.then_some((0, 0)));
    let Some((milli, paid)) = asked else { return view };
    let part = |device: &str| Part { device: device.into(), milli };
    view.parts = shared_devices(pod).map(part).collect();
    if reserves {
        return view;
    }
    view.paid_besides.insert("nvidia.com/gpu".into(), paid);
    view
}

/// The devices of which the pod has a part, or which it holds for those that do.
pub(crate) fn shared_devices(pod: &Value) -> impl Iterator<Item = &str> {
    let labels = at(pod, "/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, value)| {
        let several = key.strip_prefix(GROUP)?.strip_prefix('/');
        several.or_else(|| value.as_str().filter(|_| key == GROUP))
    })
}

/// Whether the pod holds a shared device for a device plugin to see.
pub(crate) fn reserves(pod: &Value) -> bool {
    text(pod, "/metadata/name").is_some_and(|name| name.starts_with(RESERVATION))
}

/// Thousandths of each device, and of all together as queues pay them.
fn asked(pod: &Value, device_mib: i64) -> Option<(i64, i128)> {
    let annotations = at(pod, "/metadata/annotations")?;
    let annotation = |key: &str| annotations.get(key)?.as_str();
    let devices = annotation("gpu-fraction-num-devices").map_or(Some(1), |text| text.parse().ok());
    let devices: i64 = devices.unwrap_or(1);
    let device_mib = device_mib.max(1);
    let (milli, paid) = if let Some(fraction) = annotation("gpu-fraction") {
        let milli = i64::try_from(thousandths(&Value::from(fraction))?).ok()?;
        (milli, milli)
    } else {
        let mib: i64 = annotation("gpu-memory")?.parse().ok()?;
        ((mib * 1000 / device_mib).max(1), (mib * 100 + device_mib - 1) / device_mib * 10)
    };
    Some((milli, i128::from(paid * devices)))
}
