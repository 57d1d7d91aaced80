//! Sets the runtime class of GPU pods that name none (`gpuPodRuntimeClassName`). KAI's admission
//! also overwrites the class that a pod names.

use schedlab_api::{Value, json};

use super::devices::{GpuSharing, containers, requests_gpus};
use crate::parse::at;

pub(super) const PATH: &str = "/spec/runtimeClassName";

/// JSON patch operation that sets the runtime class of a pod that requests GPUs; `None` for other
/// pods.
pub(super) fn gpu_pod_class_patch(pod: &Value, shares: GpuSharing, class: &str) -> Option<Value> {
    let has_some = matches!(shares, GpuSharing::Shared) || containers(pod).any(requests_gpus);
    has_some.then(|| class_patch(pod, class)).flatten()
}

/// JSON patch operation that sets the runtime class of a pod, whatever it requests; `None` if the
/// pod names a class.
pub(super) fn class_patch(pod: &Value, class: &str) -> Option<Value> {
    let is_named = at(pod, PATH).is_some_and(|named| !named.is_null());
    (!is_named).then(|| json!({ "op": "add", "path": PATH, "value": class }))
}
