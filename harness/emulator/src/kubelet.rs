//! The kubelets: the life of a pod after it is bound.
//!
//! ```text
//! bound ─► admitted ─► running ─► Succeeded | Failed
//!    └───► Failed         └◄─ restart, with `CrashLoopBackOff`
//! deleted at any time: the containers end within the grace period, then the object is removed
//! ```
//! All containers of a pod start and end together. Init containers take no time; sidecars run from
//! before the start of the main containers until after their end. Containers wait for their
//! `ConfigMaps` and Secrets.
//!
//! Left out: images, probes and other volumes. A running container is ready.

pub(crate) mod device_driver;
pub(crate) mod node;

mod admission;
pub(crate) mod kwok_companion;
mod mounts;
mod predicates;
mod stage;
mod status;
mod timing;

use jiff::Timestamp;

use crate::reconcile::fields::{time_after, time_after_secs, time_at};
use crate::reconcile::pod_status::{
    are_claims_ready, group_members, is_finished, node_name, pods_reserving_claim,
};
use crate::reconcile::resources::{CONFIG_MAPS, NODES, POD_GROUPS, PODS, RESOURCE_CLAIMS, SECRETS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, annotations, conditions,
    object::{annotation, condition, is_deleting, list, number, text},
};

use stage::{ContainerExit, PodStage};
pub(crate) use status::host_address;
use timing::{PodTiming, invalid_annotation_events};

/// The controller that emulates all kubelets.
pub(crate) const CONTROLLER: Controller = Controller {
    name: "kubelet",
    manager: "kubelet",
    watches: WatchedKinds::Kinds(&[
        &PODS,
        &RESOURCE_CLAIMS,
        &POD_GROUPS,
        &CONFIG_MAPS,
        &SECRETS,
        &NODES,
    ]),
    keys_to_reconcile,
    reconcile,
};

/// A changed pod, the pods of a changed node or a new pod group, and the pods that use a changed
/// `ResourceClaim`, `ConfigMap` or Secret.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *PODS {
        let bound = change.after.as_ref().filter(|pod| is_bound(pod));
        return bound.map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.resource == *RESOURCE_CLAIMS {
        return pods_reserving_claim(change, cache);
    }
    if change.key.resource == *POD_GROUPS {
        // Its pods may have been seen first, and wait for claims that are reserved for the group.
        let is_new = change.before.is_none();
        let members = group_members(&change.key, cache).filter(|(_, pod)| is_new && is_bound(pod));
        return members.map(|(key, _)| key.clone()).collect();
    }
    if [&*CONFIG_MAPS, &SECRETS].contains(&&change.key.resource) {
        return mounts::pods_waiting_for(change, cache);
    }
    if !change.key.resource.is("", "nodes") || is_unchanged_for_pods(change) {
        return Vec::new();
    }
    cache.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect()
}

fn is_bound(pod: &Value) -> bool {
    !node_name(pod).is_empty()
}

/// Whether the change of a node leaves its pods unaffected.
fn is_unchanged_for_pods(change: &ObjectChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    is_node_down(before) == is_node_down(after)
}

/// Whether a node is down: it has the annotation `schedlab.dev/node-down: "true"`.
pub(crate) fn is_node_down(node: &Value) -> bool {
    annotation(node, annotations::NODE_DOWN) == Some("true")
}

/// A pod on a node that is up.
struct PodOnNode<'a> {
    key: &'a Key,
    pod: &'a Object,
    node: &'a Object,
    timing: PodTiming,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(pod) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    let Some(node) = live_node(pod, ctx.cache) else { return ReconcileResult::nothing_to_do() };
    let pod_on_node =
        PodOnNode { key, pod, node, timing: PodTiming::resolve(pod, node, ctx.kubelet_defaults) };
    if is_deleting(pod) {
        return terminate_pod(&pod_on_node, ctx);
    }
    if is_finished(pod) {
        return ReconcileResult::nothing_to_do();
    }
    let deadline = active_deadline(pod);
    if deadline.is_some_and(|deadline| deadline <= ctx.now) {
        return ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_deadline_exceeded(pod, ctx.now)),
        );
    }
    sync_not_deleted(&pod_on_node, ctx).requeue_by(deadline)
}

fn live_node<'v>(pod: &Value, cache: &'v InformerCache) -> Option<&'v Object> {
    let name = node_name(pod);
    let key = Key { resource: NODES.clone(), namespace: "".into(), name: name.into() };
    let node = cache.get(&key)?;
    (!is_node_down(node)).then_some(node)
}

/// The time at which `activeDeadlineSeconds` of a pod ends; `None` without such a deadline.
fn active_deadline(pod: &Value) -> Option<Timestamp> {
    let secs = number(pod, &["spec", "activeDeadlineSeconds"])?;
    Some(time_after_secs(time_at(pod, &["status", "startTime"])?, secs))
}

/// Reconciles a pod that is not being deleted.
fn sync_not_deleted(pod_on_node: &PodOnNode, ctx: &Context) -> ReconcileResult {
    match PodStage::from_pod(pod_on_node.pod) {
        PodStage::Arriving if !are_claims_ready(pod_on_node.pod, ctx.cache) => {
            report_unprepared_claims(pod_on_node, ctx)
        }
        PodStage::Arriving => admit_pod(pod_on_node, ctx),
        PodStage::Starting { since } => {
            let ready = time_after(since, pod_on_node.timing.startup);
            if ctx.now < ready {
                return ReconcileResult::requeue_at(ready);
            }
            match mounts::first_missing_object(pod_on_node.pod, ctx.cache) {
                Some(missing) => report_missing_object(pod_on_node, &missing, ctx),
                None => ReconcileResult::from_writes(
                    pod_on_node.status_update(|pod| status::set_running(pod, ctx.now)),
                ),
            }
        }
        PodStage::Running { since } if is_ready(pod_on_node.pod) => {
            sync_run_time(pod_on_node, since, ctx)
        }
        // Its node was unreachable and is back.
        PodStage::Running { .. } => ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_ready(pod, ctx.now)),
        ),
        PodStage::BackingOff { until } if ctx.now < until => ReconcileResult::requeue_at(until),
        PodStage::BackingOff { .. } => ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_running(pod, ctx.now)),
        ),
    }
}

/// Records an event: the pod waits for resource claims that are not allocated, or not reserved for
/// the pod.
fn report_unprepared_claims(pod_on_node: &PodOnNode, ctx: &Context) -> ReconcileResult {
    let notice = EventSpec {
        component: "kubelet",
        kind: "Warning",
        reason: "FailedPrepareDynamicResources",
        message: "Failed to prepare dynamic resources: a resource claim is not allocated, or not reserved for this pod".to_owned(),
    };
    ReconcileResult::from_writes(notice.record_once(pod_on_node.pod, ctx))
}

/// Records in status and event that the containers wait for a missing object.
fn report_missing_object(
    pod_on_node: &PodOnNode,
    missing: &mounts::MissingObject,
    ctx: &Context,
) -> ReconcileResult {
    let (reason, message) = (missing.event.0, missing.event.1.clone());
    let notice = EventSpec { component: "kubelet", kind: "Warning", reason, message };
    let status =
        pod_on_node.status_update(|pod| status::set_waiting(pod, missing.state, &missing.message));
    ReconcileResult::from_writes(notice.record_once(pod_on_node.pod, ctx).into_iter().chain(status))
}

fn is_ready(pod: &Value) -> bool {
    condition(pod, conditions::READY) == Some("True")
}

/// Admits or rejects a pod that was bound to the node.
fn admit_pod(pod_on_node: &PodOnNode, ctx: &Context) -> ReconcileResult {
    let mut writes: Vec<ApiRequest> =
        invalid_annotation_events(pod_on_node.pod, ctx).into_iter().collect();
    let (key, pod, node) = (pod_on_node.key, pod_on_node.pod, pod_on_node.node);
    let admitted = admission::admitted_gpus(key, pod, node, ctx.cache).and_then(|devices| {
        predicates::check_predicates(key, pod, node, ctx.cache).map(|()| devices)
    });
    let devices = match admitted {
        Ok(devices) => devices,
        Err(refusal) => {
            writes.push(
                EventSpec {
                    component: "kubelet",
                    kind: "Warning",
                    reason: &refusal.reason,
                    message: refusal.message.clone(),
                }
                .record(pod_on_node.pod, ctx),
            );
            writes.extend(
                pod_on_node.status_update(|pod| status::set_pod_rejected(pod, &refusal, ctx.now)),
            );
            return ReconcileResult::from_writes(writes);
        }
    };
    let address = status::free_pod_addresses(pod_on_node.pod, pod_on_node.node, ctx.cache);
    let instant = pod_on_node.timing.startup.is_zero()
        && mounts::first_missing_object(pod_on_node.pod, ctx.cache).is_none();
    writes.extend(pod_on_node.status_update(|pod| {
        admission::record_gpus(pod, &devices);
        status::set_admitted(pod, &address, ctx.now);
        if instant {
            status::set_running(pod, ctx.now);
        } else {
            status::set_starting(pod, ctx.now);
        }
    }));
    ReconcileResult::from_writes(writes)
}

/// Ends a running pod, or restarts its containers, when the run time is over.
fn sync_run_time(pod_on_node: &PodOnNode, since: Timestamp, ctx: &Context) -> ReconcileResult {
    let Some(run_time) = pod_on_node.timing.run_time else {
        return ReconcileResult::nothing_to_do();
    };
    let over = time_after(since, run_time);
    if ctx.now < over {
        return ReconcileResult::requeue_at(over);
    }
    let exit = ContainerExit::from_code(pod_on_node.timing.exit_code);
    match text(pod_on_node.pod, &["spec", "restartPolicy"]) {
        "Never" => ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_finished(pod, &exit, ctx.now)),
        ),
        "OnFailure" if exit.code == 0 => ReconcileResult::from_writes(
            pod_on_node.status_update(|pod| status::set_finished(pod, &exit, ctx.now)),
        ),
        _ => restart_containers(pod_on_node, &exit, ctx),
    }
}

fn restart_containers(
    pod_on_node: &PodOnNode,
    exit: &ContainerExit,
    ctx: &Context,
) -> ReconcileResult {
    let mut writes = Vec::new();
    if stage::restart_delay(pod_on_node.pod, ctx.now).is_zero() {
        writes.extend(pod_on_node.status_update(|pod| status::set_restarted(pod, exit, ctx.now)));
    } else {
        let notice = EventSpec {
            component: "kubelet",
            kind: "Warning",
            reason: "BackOff",
            message: "Back-off restarting failed container".to_owned(),
        };
        writes.push(notice.record(pod_on_node.pod, ctx));
        writes.extend(pod_on_node.status_update(|pod| status::set_backing_off(pod, exit, ctx.now)));
    }
    ReconcileResult::from_writes(writes)
}

/// Terminates a deleted pod: ends the containers, and then removes the object.
fn terminate_pod(pod_on_node: &PodOnNode, ctx: &Context) -> ReconcileResult {
    let gone = ApiRequest::delete_now(pod_on_node.key, pod_on_node.pod);
    let runs = match PodStage::from_pod(pod_on_node.pod) {
        PodStage::Running { .. } => !is_finished(pod_on_node.pod),
        PodStage::Arriving | PodStage::Starting { .. } | PodStage::BackingOff { .. } => false,
    };
    if !runs {
        return if is_kept_by_finalizers_only(pod_on_node.pod) {
            ReconcileResult::nothing_to_do()
        } else {
            remove_pod_not_running(pod_on_node, gone, ctx)
        };
    }
    let latest = time_at(pod_on_node.pod, &["metadata", "deletionTimestamp"]).unwrap_or(ctx.now);
    let grace = number(pod_on_node.pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    let graceful =
        time_after(time_after_secs(latest, grace.saturating_neg()), pod_on_node.timing.termination);
    let over = latest.min(graceful);
    let sidecars = list(pod_on_node.pod, &["spec", "initContainers"]).iter();
    let sidecars = sidecars.filter(|container| status::is_sidecar(container));
    let containers = list(pod_on_node.pod, &["spec", "containers"]).iter().chain(sidecars);
    let notice = |container| EventSpec {
        component: "kubelet",
        kind: "Normal",
        reason: "Killing",
        message: format!("Stopping container {}", text(container, &["name"])),
    };
    let mut writes: Vec<ApiRequest> = containers
        .filter_map(|container| notice(container).record_once(pod_on_node.pod, ctx))
        .collect();
    if ctx.now < over {
        return ReconcileResult::from_writes(writes).requeue_by(over);
    }
    let exit = if graceful <= latest { ContainerExit::TERMINATED } else { ContainerExit::KILLED };
    writes.extend(pod_on_node.status_update(|pod| status::set_finished(pod, &exit, ctx.now)));
    writes.push(gone);
    ReconcileResult::from_writes(writes)
}

/// Removes a deleted pod that does not run. If a finalizer keeps the pod, the status must show that
/// it ended.
fn remove_pod_not_running(
    pod_on_node: &PodOnNode,
    deletion: ApiRequest,
    ctx: &Context,
) -> ReconcileResult {
    let is_held = schedlab_api::object::finalizers(pod_on_node.pod).next().is_some();
    let shows = is_held && !is_finished(pod_on_node.pod);
    let ended = shows.then(|| {
        pod_on_node
            .status_update(|pod| status::set_finished(pod, &ContainerExit::NEVER_RAN, ctx.now))
    });
    ReconcileResult::from_writes(ended.flatten().into_iter().chain([deletion]))
}

/// Whether the kubelet has removed a pod, so that only finalizers keep the object.
fn is_kept_by_finalizers_only(pod: &Value) -> bool {
    number(pod, &["metadata", "deletionGracePeriodSeconds"]) == Some(0)
        && schedlab_api::object::finalizers(pod).next().is_some()
}

impl PodOnNode<'_> {
    /// The status update that applies `change` to the pod; `None` if the status stays the same.
    fn status_update(&self, change: impl FnOnce(&mut Value)) -> Option<ApiRequest> {
        let mut pod = Value::clone(self.pod);
        change(&mut pod);
        ApiRequest::status_update(self.key, self.pod, pod)
    }
}
