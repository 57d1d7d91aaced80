//! Sets the runtime class of GPU pods that name none (`gpuPodRuntimeClassName`). KAI's admission
//! also overwrites the class that a pod names.

use schedlab_api::{Value, json};

use super::devices::{GpuSharing, containers, requests_gpus};
use crate::parse::at;

pub(super) const RUNTIME_CLASS_PATH: &str = "/spec/runtimeClassName";

/// JSON patch operation that sets the runtime class of a pod that requests GPUs; `None` for other
/// pods.
pub(super) fn gpu_pod_runtime_class_operation(
    pod: &Value,
    shares: GpuSharing,
    class: &str,
) -> Option<Value> {
    let has_some = matches!(shares, GpuSharing::Shared) || containers(pod).any(requests_gpus);
    has_some.then(|| runtime_class_operation(pod, class)).flatten()
}

/// JSON patch operation that sets the runtime class of a pod, whatever it requests; `None` if the
/// pod names a class.
pub(super) fn runtime_class_operation(pod: &Value, class: &str) -> Option<Value> {
    let is_named = at(pod, RUNTIME_CLASS_PATH).is_some_and(|named| !named.is_null());
    (!is_named).then(|| json!({ "op": "add", "path": RUNTIME_CLASS_PATH, "value": class }))
}
