//! StatefulSets: numbered pods with claims on volumes, one after the other or all at once, and
//! replaced in place.
//!
//! Left out: `minReadySeconds`.

mod claims;
mod revisions;

use std::collections::BTreeMap;

use super::adoption::{adopters, claim};
use super::fields::set_counts;
use super::kinds::{CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS};
use super::kubelet::is_finished;
use super::step::Notice;
use super::workload::{
    BURST, concern, count_at, counted, generated_pod, is_active, is_ready, mark,
};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{is_deleting, label, name, number, set, text, uid};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

use revisions::Revisions;

const COMPONENT: &str = "statefulset-controller";
const HASH: &str = "controller-revision-hash";

/// The StatefulSet controller.
pub(super) const ACTOR: Actor = Actor {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&STATEFUL_SETS, &CONTROLLER_REVISIONS, &PODS, &VOLUME_CLAIMS]),
    concerns,
    step,
};

/// A set, its pods, and its history; a claim that is gone is made anew for a pod that needs it.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *VOLUME_CLAIMS {
        let is_gone = change.after.is_none();
        let sets = view.within(&STATEFUL_SETS, &change.key.namespace).filter(|_| is_gone);
        return sets.map(|(key, _)| key.clone()).collect();
    }
    let child =
        if change.key.resource == *CONTROLLER_REVISIONS { &CONTROLLER_REVISIONS } else { &PODS };
    let mut keys = concern(change, view, &STATEFUL_SETS, child);
    keys.extend(adopters(change, view, &STATEFUL_SETS, child));
    keys
}

/// A set and its pods by number.
struct Numbered<'v> {
    key: &'v Key,
    set: &'v Object,
    pods: BTreeMap<i64, (&'v Key, &'v Object)>,
    /// The first number and the one after the last.
    wanted: (i64, i64),
    /// The name of the current template's revision.
    revision: String,
    /// The name of the revision that the pods had before an update, or of the same.
    current: String,
    /// Its template.
    current_template: &'v Value,
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some((key, set)) = ctx.view.entry(key) else { return Step::rest() };
    if is_deleting(set) {
        return Step::rest();
    }
    let mut claims = claim(set, &CONTROLLER_REVISIONS, |_| true, ctx);
    claims.extend(claim(set, &PODS, |pod| ordinal(set, pod).is_some(), ctx));
    if !claims.is_empty() {
        return Step::of(claims);
    }
    let first = count_at(set, &["spec", "ordinals", "start"], 0);
    let wanted = count_at(set, &["spec", "replicas"], 1);
    let pods = ctx.view.controlled(uid(set), &PODS);
    let numbered = pods.filter_map(|(key, pod)| Some((ordinal(set, pod)?, (key, pod))));
    let revisions = Revisions::of(set, ctx);
    if let Some(write) = revisions.take_in(set) {
        return Step::of([write]);
    }
    let revision = revisions::name_of(set);
    let current = revisions::current(set, &revisions, &revision).to_owned();
    let sets = Numbered {
        key,
        set,
        pods: numbered.collect(),
        wanted: (first, first.saturating_add(wanted)),
        revision,
        current_template: revisions.template(&current).unwrap_or(&set["spec"]["template"]),
        current,
    };
    let mended = claims::mend(&sets, ctx);
    let step = go_on(&sets, &revisions, ctx);
    Step::of(mended.into_iter().chain(step.writes)).by(step.again)
}

/// Makes and deletes pods, or says how it stands.
fn go_on(sets: &Numbered, revisions: &Revisions, ctx: &Context) -> Step {
    let in_order = text(sets.set, &["spec", "podManagementPolicy"]) != "Parallel";
    let mut writes = if in_order { in_turn(sets, ctx) } else { at_once(sets, ctx) };
    if writes.is_empty() {
        writes.extend(replace_outdated(sets, ctx).into_iter().flatten());
    }
    if writes.is_empty() {
        writes.extend(revisions.forget(sets));
    }
    if writes.is_empty() { observe(sets) } else { Step::of(writes) }
}

/// The number in a pod's name.
fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

/// What a pod of the set needs now.
enum Need {
    /// It is not there.
    Create,
    /// It ended and is made anew.
    Remove,
    /// It is on its way, up or down.
    Wait,
    /// It is ready.
    Nothing,
}

fn need(sets: &Numbered, number: i64) -> Need {
    match sets.pods.get(&number) {
        None => Need::Create,
        Some((_, pod)) if is_deleting(pod) => Need::Wait,
        Some((_, pod)) if is_finished(pod) => Need::Remove,
        Some((_, pod)) if is_ready(pod) => Need::Nothing,
        Some(_) => Need::Wait,
    }
}

/// The surplus pods, the highest first.
fn surplus<'s, 'v>(sets: &'s Numbered<'v>) -> impl Iterator<Item = (&'v Key, &'v Object)> + 's {
    let (first, end) = sets.wanted;
    let beyond = move |number: &i64| *number >= end || *number < first;
    sets.pods.iter().rev().filter(move |(number, _)| beyond(number)).map(|(_, pod)| *pod)
}

/// One pod after the other: the next comes when all before it are ready, and the last goes first.
fn in_turn(sets: &Numbered, ctx: &Context) -> Vec<Request> {
    for number in sets.wanted.0..sets.wanted.1 {
        match need(sets, number) {
            Need::Nothing => {}
            Need::Wait => return Vec::new(),
            Need::Create => return create(sets, number, ctx),
            Need::Remove => return remove(sets, number, ctx),
        }
    }
    let last = surplus(sets).next().filter(|(_, pod)| !is_deleting(pod));
    last.map(|pod| delete(pod, sets, ctx)).unwrap_or_default()
}

fn at_once(sets: &Numbered, ctx: &Context) -> Vec<Request> {
    let mut writes = Vec::new();
    for number in sets.wanted.0..sets.wanted.1 {
        match need(sets, number) {
            Need::Nothing | Need::Wait => {}
            Need::Create => writes.extend(create(sets, number, ctx)),
            Need::Remove => writes.extend(remove(sets, number, ctx)),
        }
        if writes.len() >= BURST {
            return writes;
        }
    }
    for (key, pod) in surplus(sets).filter(|(_, pod)| !is_deleting(pod)) {
        writes.extend(delete((key, pod), sets, ctx));
    }
    writes
}

fn create(sets: &Numbered, number: i64, ctx: &Context) -> Vec<Request> {
    let pod_name = format!("{}-{number}", name(sets.set));
    let held_back = partition(sets).is_some_and(|first| number < first);
    let (template, revision) = if held_back {
        (sets.current_template, &sets.current)
    } else {
        (&sets.set["spec"]["template"], &sets.revision)
    };
    let mut pod = generated_pod(template, sets.set, [&format!("{}-", name(sets.set)), &pod_name]);
    let marks = [
        ("statefulset.kubernetes.io/pod-name", &*pod_name),
        ("apps.kubernetes.io/pod-index", &number.to_string()),
        (HASH, &**revision),
    ];
    mark(&mut pod, "labels", &marks);
    set(&mut pod, &["spec", "hostname"], json!(pod_name));
    let service = text(sets.set, &["spec", "serviceName"]);
    if !service.is_empty() {
        set(&mut pod, &["spec", "subdomain"], json!(service));
    }
    let claims = claims::of(sets.set, number);
    if claims::leave(&claims, ctx) {
        return Vec::new();
    }
    claims::mount(&mut pod, &claims);
    let mut writes = claims::make(&claims, &pod_name, sets.set, ctx);
    writes.push(Request::create(&PODS, pod));
    writes.push(tell("Create", &pod_name, sets, ctx));
    writes
}

fn remove(sets: &Numbered, number: i64, ctx: &Context) -> Vec<Request> {
    let pod = sets.pods.get(&number);
    pod.map(|pod| delete(*pod, sets, ctx)).unwrap_or_default()
}

fn delete((key, pod): (&Key, &Object), sets: &Numbered, ctx: &Context) -> Vec<Request> {
    vec![Request::delete(key, pod), tell("Delete", name(pod), sets, ctx)]
}

/// Says that a pod was made or deleted.
fn tell(done: &str, pod: &str, sets: &Numbered, ctx: &Context) -> Request {
    let reason = format!("Successful{done}");
    let of = name(sets.set);
    let message = format!("{done} Pod {pod} in StatefulSet {of} successful");
    Notice { component: COMPONENT, kind: "Normal", reason: &reason, message }.about(sets.set, ctx)
}

fn outdated(sets: &Numbered, pod: &Value) -> bool {
    label(pod, HASH) != Some(sets.revision.as_str())
}

/// The first number that an update reaches; `None` where pods are only replaced by hand.
fn partition(sets: &Numbered) -> Option<i64> {
    if text(sets.set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return None;
    }
    let rolling = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    Some(sets.wanted.0.saturating_add(count_at(sets.set, &rolling, 0)))
}

/// Replaces the highest outdated pod when all are ready.
fn replace_outdated(sets: &Numbered, ctx: &Context) -> Option<Vec<Request>> {
    let first = partition(sets)?;
    let settled = sets.pods.values().all(|(_, pod)| is_active(pod) && is_ready(pod));
    let old = sets.pods.range(first..).rev().find(|(_, (_, pod))| outdated(sets, pod))?;
    // A pod that is outdated and not ready is what an update is to mend.
    let broken = !is_deleting(old.1.1) && !is_ready(old.1.1);
    (settled || broken).then(|| delete(*old.1, sets, ctx))
}

fn observe(sets: &Numbered) -> Step {
    let mut seen = Value::clone(sets.set);
    let pods = || sets.pods.values().map(|(_, pod)| pod).filter(|pod| is_active(pod));
    let of = |revision: &str| counted(pods().filter(|pod| label(pod, HASH) == Some(revision)));
    let (updated, ready) = (of(&sets.revision), counted(pods().filter(|pod| is_ready(pod))));
    // An update is through when all pods are new and ready; then what is new is what is there.
    let wanted = sets.wanted.1 - sets.wanted.0;
    let is_through = partition(sets).is_some() && updated == wanted && ready == wanted;
    let current = if is_through { &sets.revision } else { &sets.current };
    let always =
        [("replicas", counted(pods())), ("availableReplicas", ready), ("collisionCount", 0)];
    let if_any = [
        ("observedGeneration", number(sets.set, &["metadata", "generation"]).unwrap_or(0)),
        ("readyReplicas", ready),
        ("currentReplicas", of(current)),
        ("updatedReplicas", updated),
    ];
    set_counts(&mut seen, &always, &if_any);
    set(&mut seen, &["status", "updateRevision"], json!(sets.revision));
    set(&mut seen, &["status", "currentRevision"], json!(current));
    Step::of(Request::status(sets.key, sets.set, seen))
}
