//! The runtime class of pods with GPUs that name none, where the configuration does
//! (`gpuPodRuntimeClassName`, as KAI's admission, which overwrites what a pod names).

use schedlab_json::{Value, json};

use super::devices::{Shares, containers, has_gpus};
use crate::parse::at;

pub(super) const PATH: &str = "/spec/runtimeClassName";

/// The operation of a JSON patch that gives it to the pod.
pub(super) fn class_of(pod: &Value, shares: Shares, class: &str) -> Option<Value> {
    let has_some = matches!(shares, Shares::Gpus) || containers(pod).any(has_gpus);
    has_some.then(|| given(pod, class)).flatten()
}

/// The same, whatever the pod asks for.
pub(super) fn given(pod: &Value, class: &str) -> Option<Value> {
    let is_named = at(pod, PATH).is_some_and(|named| !named.is_null());
    (!is_named).then(|| json!({ "op": "add", "path": PATH, "value": class }))
}
