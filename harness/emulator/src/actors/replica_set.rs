//! ReplicaSets: as many active pods as asked for.
//!
//! Pods that nobody controls and that its selector matches are its own too, once it has taken them.

use super::adoption::{adopters, claim};
use super::fields::{Condition, drop_condition, find_condition, set_condition, set_counts};
use super::kinds::{PODS, REPLICA_SETS};
use super::kubelet::is_finished;
use super::workload::{
    BURST, available_at, cheapest, concern, count_at, counted, create_pod, delete_pod, free_names,
    generated_pod, is_active, is_ready, size,
};
use super::{Actor, Change, Context, Refusal, Request, Step, View, Watched};
use crate::object::{is_deleting, name, number, uid};
use crate::store::{Key, Object};
use schedlab_json::Value;

const COMPONENT: &str = "replicaset-controller";

/// The ReplicaSet controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&REPLICA_SETS, &PODS]),
    concerns,
    step,
};

/// A set, its pods, and those that it may take.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let mut keys = concern(change, view, &REPLICA_SETS, &PODS);
    keys.extend(adopters(change, view, &REPLICA_SETS, &PODS));
    keys
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(set) = ctx.view.get(key).filter(|set| !is_deleting(set)) else { return Step::rest() };
    let claims = claim(set, &PODS, is_active, ctx);
    if !claims.is_empty() {
        return Step::of(claims);
    }
    let all = ctx.view.controlled(uid(set), &PODS);
    let active: Vec<(&Key, &Object)> = all.filter(|(_, pod)| is_active(pod)).collect();
    let wanted = count_at(set, &["spec", "replicas"], 1);
    let there = counted(&active);
    if there < wanted {
        return Step::of(grow(set, size(wanted - there).min(BURST), ctx));
    }
    if there > wanted {
        let surplus = cheapest(active, size(there - wanted));
        return Step::of(surplus.into_iter().flat_map(|pod| delete_pod(pod, set, COMPONENT, ctx)));
    }
    observe(key, set, &active, None, ctx)
}

/// Says in a set's status why its pods cannot be made, or let go of.
pub(super) fn failed(key: &Key, refusal: &Refusal, ctx: &Context) -> Option<Request> {
    let set = ctx.view.get(key).filter(|set| !is_deleting(set))?;
    let all = ctx.view.controlled(uid(set), &PODS);
    let active: Vec<(&Key, &Object)> = all.filter(|(_, pod)| is_active(pod)).collect();
    let why = Condition {
        kind: "ReplicaFailure",
        status: "True",
        reason: if refusal.creates { "FailedCreate" } else { "FailedDelete" },
        message: &refusal.error.message,
    };
    observe(key, set, &active, Some(&why), ctx).writes.pop()
}

fn grow(set: &Value, count: usize, ctx: &Context) -> Vec<Request> {
    let template = &set["spec"]["template"];
    let prefix = format!("{}-", name(set));
    let names = free_names(set, &prefix, count, ctx);
    let pods = names.iter().map(|name| generated_pod(template, set, [&prefix, name]));
    pods.flat_map(|pod| create_pod(pod, set, COMPONENT, ctx)).collect()
}

fn observe(
    key: &Key,
    replica_set: &Value,
    active: &[(&Key, &Object)],
    failure: Option<&Condition>,
    ctx: &Context,
) -> Step {
    let all = ctx.view.controlled(uid(replica_set), &PODS);
    let terminating = all.filter(|(_, pod)| is_deleting(pod) && !is_finished(pod));
    let min_ready_secs = count_at(replica_set, &["spec", "minReadySeconds"], 0);
    let moments = active.iter().filter_map(|(_, pod)| available_at(pod, min_ready_secs));
    let (available, later): (Vec<_>, Vec<_>) = moments.partition(|moment| *moment <= ctx.now);
    let mut seen = replica_set.clone();
    let always = [("replicas", counted(active)), ("terminatingReplicas", counted(terminating))];
    let if_any = [
        ("fullyLabeledReplicas", counted(active)),
        ("readyReplicas", counted(active.iter().filter(|(_, pod)| is_ready(pod)))),
        ("availableReplicas", counted(available)),
        ("observedGeneration", number(replica_set, &["metadata", "generation"]).unwrap_or(0)),
    ];
    set_counts(&mut seen, &always, &if_any);
    let is_known = find_condition(&seen, "ReplicaFailure").is_some();
    match failure {
        // What was said first stays: each try makes other names.
        Some(why) if !is_known => set_condition(&mut seen, why, ctx.now),
        None if is_known => drop_condition(&mut seen, "ReplicaFailure"),
        Some(_) | None => {}
    }
    Step::of(Request::status(key, replica_set, seen)).by(later.into_iter().min())
}
