//! Pod garbage collection: pods whose node is gone go too, for no kubelet will ever end them; and
//! pods that are to go, never had a node, and are held by a finalizer, end as failed.
//!
//! They wait 40 s from the moment the node is gone, or from their binding to a node that was not
//! there. Kubernetes looks every 20 s only, so that there it may take so much longer. The removal of
//! finished pods beyond 12,500 is left out.

use jiff::Timestamp;

use super::fields::{Condition, after_secs, find_condition, set_condition, time};
use super::kinds::{NODES, PODS};
use super::kubelet::{is_finished, node_name};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{is_deleting, set};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

const QUARANTINE_SECS: i64 = 40;
/// How often the real one looks.
const PERIOD_SECS: i64 = 20;

/// The pod garbage collector.
pub(super) const ACTOR: Actor = Actor {
    name: "pod-gc",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&NODES, &PODS]),
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *NODES && change.after.is_none() {
        return view.pods_on(&change.key.name).map(|(key, _)| key.clone()).collect();
    }
    let concerns = |pod: &Object| is_lost(pod, view) || is_stuck(pod);
    let lost = change.key.resource == *PODS && change.after.as_ref().is_some_and(concerns);
    if lost { vec![change.key.clone()] } else { Vec::new() }
}

fn is_lost(pod: &Value, view: &View) -> bool {
    !node_name(pod).is_empty() && view.get(&node_of(pod)).is_none()
}

fn node_of(pod: &Value) -> Key {
    Key { resource: NODES.clone(), namespace: "".into(), name: node_name(pod).into() }
}

/// Whether a pod is to go that no kubelet will end.
fn is_stuck(pod: &Value) -> bool {
    node_name(pod).is_empty() && is_deleting(pod) && !is_finished(pod)
}

fn step(key: &Key, ctx: &Context) -> Step {
    if let Some(pod) = ctx.view.get(key).filter(|pod| is_stuck(pod)) {
        return unstick(key, pod, ctx);
    }
    let Some(pod) = ctx.view.get(key).filter(|pod| is_lost(pod, ctx.view)) else {
        return Step::rest();
    };
    let bound = find_condition(pod, "PodScheduled")
        .and_then(|condition| time(condition, &["lastTransitionTime"]))
        .or_else(|| time(pod, &["metadata", "creationTimestamp"]))
        .unwrap_or(Timestamp::MIN);
    let missed = ctx.view.gone_since(&node_of(pod)).map_or(bound, |gone| gone.max(bound));
    let due = after_secs(missed, QUARANTINE_SECS);
    if ctx.now < due {
        return Step::at(due);
    }
    let mut lost = Value::clone(pod);
    if !is_finished(pod) {
        set(&mut lost, &["status", "phase"], json!("Failed"));
        let condition = Condition {
            kind: "DisruptionTarget",
            status: "True",
            reason: "DeletionByPodGC",
            message: "PodGC: node no longer exists",
        };
        set_condition(&mut lost, &condition, ctx.now);
    }
    let status = Request::status(key, pod, lost);
    Step::of(status.into_iter().chain([Request::delete_now(key, pod)]))
}

fn unstick(key: &Key, pod: &Value, ctx: &Context) -> Step {
    let due = time(pod, &["metadata", "deletionTimestamp"]).unwrap_or(ctx.now);
    let due = after_secs(due, PERIOD_SECS);
    if ctx.now < due {
        return Step::at(due);
    }
    let mut ended = pod.clone();
    set(&mut ended, &["status", "phase"], json!("Failed"));
    Step::of(Request::status(key, pod, ended))
}
