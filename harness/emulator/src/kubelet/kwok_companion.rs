//! The kubelet features that kwok lacks: GPU assignment and the end of a run. kwok starts and
//! deletes the pods.

use super::admission;
use super::stage::{ContainerExit, PodStage};
use super::{
    PodOnNode, active_deadline, is_finished, is_kept_by_finalizers_only, is_ready,
    keys_to_reconcile, live_node, status, sync_run_time,
};
use crate::kubelet::timing::PodTiming;
use crate::reconcile::resources::{NODES, PODS};
use crate::reconcile::{ApiRequest, Context, Controller, ReconcileResult, WatchedKinds};
use crate::store::Key;
use schedlab_api::{
    Value, annotations,
    object::{annotation, is_deleting},
};

/// The controller that completes kwok on all nodes which kwok simulates.
pub(crate) const CONTROLLER: Controller = Controller {
    name: "kubelet-beside",
    manager: "kubelet",
    watches: WatchedKinds::Kinds(&[&PODS, &NODES]),
    keys_to_reconcile,
    reconcile,
};

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(pod) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    let Some(node) = live_node(pod, ctx.cache) else { return ReconcileResult::nothing_to_do() };
    if is_finished(pod) {
        return ReconcileResult::nothing_to_do();
    }
    let pod_on_node =
        PodOnNode { key, pod, node, timing: PodTiming::resolve(pod, node, ctx.kubelet_defaults) };
    if is_deleting(pod) {
        // kwok has removed the pod, but its Job still waits for its end.
        let ended = || {
            pod_on_node
                .status_update(|pod| status::set_finished(pod, &ContainerExit::TERMINATED, ctx.now))
        };
        return ReconcileResult::from_writes(is_kept_by_finalizers_only(pod).then(ended).flatten());
    }
    if let Some(handed) = assign_gpus(&pod_on_node, ctx) {
        return ReconcileResult::from_writes([handed]);
    }
    let deadline = active_deadline(pod);
    if deadline.is_some_and(|deadline| deadline <= ctx.now) {
        return ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_deadline_exceeded(pod, ctx.now)),
        );
    }
    let step = match PodStage::from_pod(pod) {
        PodStage::Running { since } if is_ready(pod) => sync_run_time(&pod_on_node, since, ctx),
        PodStage::BackingOff { until } if ctx.now < until => ReconcileResult::requeue_at(until),
        PodStage::BackingOff { .. } => ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_running(pod, ctx.now)),
        ),
        PodStage::Arriving | PodStage::Starting { .. } | PodStage::Running { .. } => {
            ReconcileResult::nothing_to_do()
        }
    };
    step.requeue_by(deadline)
}

/// Records GPUs for a pod that has none recorded. If the node has too few, the pod gets none and
/// keeps running under kwok; the audit reports that.
fn assign_gpus(pod_on_node: &PodOnNode, ctx: &Context) -> Option<ApiRequest> {
    if annotation(pod_on_node.pod, annotations::GPU_DEVICES).is_some() {
        return None;
    }
    let devices =
        admission::admitted_gpus(pod_on_node.key, pod_on_node.pod, pod_on_node.node, ctx.cache)
            .ok()?;
    if devices.is_empty() {
        return None;
    }
    let mut pod = Value::clone(pod_on_node.pod);
    admission::record_gpus(&mut pod, &devices);
    status::record_reserved_gpu(&mut pod);
    Some(ApiRequest::update(pod_on_node.key, pod))
}
