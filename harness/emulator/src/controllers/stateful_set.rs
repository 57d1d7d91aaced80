//! The StatefulSet controller: numbered pods with volume claims, created in order or in parallel, and
//! replaced in place.
//!
//! Left out: `minReadySeconds`.

mod claims;
mod revisions;

use std::collections::BTreeMap;

use super::adoption::{adopters, claim_objects};
use super::workload::{
    BURST, api_count, count_at, generated_pod, is_active, is_ready, owner_keys, set_entries,
};
use crate::reconcile::fields::set_counts;
use crate::reconcile::pod_status::is_finished;
use crate::reconcile::resources::{CONTROLLER_REVISIONS, PODS, STATEFUL_SETS, VOLUME_CLAIMS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json, labels,
    object::{is_deleting, label, name, number, set, text, uid},
};

use revisions::Revisions;

const COMPONENT: &str = "statefulset-controller";
const HASH: &str = "controller-revision-hash";

/// The StatefulSet controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&STATEFUL_SETS, &CONTROLLER_REVISIONS, &PODS, &VOLUME_CLAIMS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed StatefulSet, the owner or adopters of a pod or revision, and all StatefulSets of the
/// namespace of a deleted volume claim.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *VOLUME_CLAIMS {
        let is_gone = change.after.is_none();
        let sets = cache.in_namespace(&STATEFUL_SETS, &change.key.namespace).filter(|_| is_gone);
        return sets.map(|(key, _)| key.clone()).collect();
    }
    let child =
        if change.key.resource == *CONTROLLER_REVISIONS { &CONTROLLER_REVISIONS } else { &PODS };
    let mut keys = owner_keys(change, cache, &STATEFUL_SETS, child);
    keys.extend(adopters(change, cache, &STATEFUL_SETS, child));
    keys
}

/// A StatefulSet and its pods by ordinal.
struct StatefulSetState<'v> {
    key: &'v Key,
    set: &'v Object,
    pods: BTreeMap<i64, (&'v Key, &'v Object)>,
    /// The desired ordinals: the first, and the one after the last.
    ordinal_range: (i64, i64),
    /// The name of the revision of the set's template (`updateRevision`).
    revision: String,
    /// The name of the revision before an update in progress (`currentRevision`).
    current: String,
    /// The template of that revision.
    current_template: &'v Value,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, set)) = ctx.cache.entry(key) else { return ReconcileResult::done() };
    if is_deleting(set) {
        return ReconcileResult::done();
    }
    let mut claims = claim_objects(set, &CONTROLLER_REVISIONS, |_| true, ctx);
    claims.extend(claim_objects(set, &PODS, |pod| ordinal(set, pod).is_some(), ctx));
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let first = count_at(set, &["spec", "ordinals", "start"], 0);
    let desired = count_at(set, &["spec", "replicas"], 1);
    let pods = ctx.cache.controlled(uid(set), &PODS);
    let numbered = pods.filter_map(|(key, pod)| Some((ordinal(set, pod)?, (key, pod))));
    let revisions = Revisions::from_cache(set, ctx);
    if let Some(write) = revisions.record_template(set) {
        return ReconcileResult::from_writes([write]);
    }
    let revision = revisions::update_revision_name(set);
    let current = revisions::current_revision(set, &revisions, &revision).to_owned();
    let sets = StatefulSetState {
        key,
        set,
        pods: numbered.collect(),
        ordinal_range: (first, first.saturating_add(desired)),
        revision,
        current_template: revisions.template(&current).unwrap_or(&set["spec"]["template"]),
        current,
    };
    let claim_writes = claims::sync_claims(&sets, ctx);
    let step = sync_pods(&sets, &revisions, ctx);
    ReconcileResult::from_writes(claim_writes.into_iter().chain(step.writes))
        .requeue_by(step.requeue_at)
}

/// Creates and deletes pods; updates the status if there is nothing to do.
fn sync_pods(sets: &StatefulSetState, revisions: &Revisions, ctx: &Context) -> ReconcileResult {
    let in_order = text(sets.set, &["spec", "podManagementPolicy"]) != "Parallel";
    let mut writes = if in_order { sync_in_order(sets, ctx) } else { sync_in_parallel(sets, ctx) };
    if writes.is_empty() {
        writes.extend(replace_outdated(sets, ctx).into_iter().flatten());
    }
    if writes.is_empty() {
        writes.extend(revisions.clean_up(sets));
    }
    if writes.is_empty() { sync_status(sets) } else { ReconcileResult::from_writes(writes) }
}

/// The ordinal in a pod's name.
fn ordinal(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

/// The next action for a pod.
enum EventAction {
    /// The pod does not exist.
    Create,
    /// The pod ended and has to be recreated.
    Remove,
    /// The pod is starting or terminating.
    Wait,
    /// The pod is ready.
    Keep,
}

fn pod_action(sets: &StatefulSetState, number: i64) -> EventAction {
    match sets.pods.get(&number) {
        None => EventAction::Create,
        Some((_, pod)) if is_deleting(pod) => EventAction::Wait,
        Some((_, pod)) if is_finished(pod) => EventAction::Remove,
        Some((_, pod)) if is_ready(pod) => EventAction::Keep,
        Some(_) => EventAction::Wait,
    }
}

/// The surplus pods, highest ordinal first.
fn surplus<'s, 'v>(
    sets: &'s StatefulSetState<'v>,
) -> impl Iterator<Item = (&'v Key, &'v Object)> + 's {
    let (first, end) = sets.ordinal_range;
    let beyond = move |number: &i64| *number >= end || *number < first;
    sets.pods.iter().rev().filter(move |(number, _)| beyond(number)).map(|(_, pod)| *pod)
}

/// Creates pods in order, each when the previous ones are ready, and deletes the last one first.
fn sync_in_order(sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    for number in sets.ordinal_range.0..sets.ordinal_range.1 {
        match pod_action(sets, number) {
            EventAction::Keep => {}
            EventAction::Wait => return Vec::new(),
            EventAction::Create => return create(sets, number, ctx),
            EventAction::Remove => return remove(sets, number, ctx),
        }
    }
    let last = surplus(sets).next().filter(|(_, pod)| !is_deleting(pod));
    last.map(|(key, pod)| delete(key, pod, sets, ctx)).unwrap_or_default()
}

fn sync_in_parallel(sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    let mut writes = Vec::new();
    for number in sets.ordinal_range.0..sets.ordinal_range.1 {
        match pod_action(sets, number) {
            EventAction::Keep | EventAction::Wait => {}
            EventAction::Create => writes.extend(create(sets, number, ctx)),
            EventAction::Remove => writes.extend(remove(sets, number, ctx)),
        }
        if writes.len() >= BURST {
            return writes;
        }
    }
    for (key, pod) in surplus(sets).filter(|(_, pod)| !is_deleting(pod)) {
        writes.extend(delete(key, pod, sets, ctx));
    }
    writes
}

fn create(sets: &StatefulSetState, number: i64, ctx: &Context) -> Vec<ApiRequest> {
    let pod_name = format!("{}-{number}", name(sets.set));
    let held_back = partition(sets).is_some_and(|first| number < first);
    let (template, revision) = if held_back {
        (sets.current_template, &sets.current)
    } else {
        (&sets.set["spec"]["template"], &sets.revision)
    };
    let mut pod = generated_pod(template, sets.set, [&format!("{}-", name(sets.set)), &pod_name]);
    let marks = [
        (labels::STATEFUL_SET_POD_NAME, &*pod_name),
        ("apps.kubernetes.io/pod-index", &number.to_string()),
        (HASH, &**revision),
    ];
    set_entries(&mut pod, "labels", &marks);
    set(&mut pod, &["spec", "hostname"], json!(pod_name));
    let service = text(sets.set, &["spec", "serviceName"]);
    if !service.is_empty() {
        set(&mut pod, &["spec", "subdomain"], json!(service));
    }
    let claims = claims::claims_for(sets.set, number);
    if claims::any_deleting(&claims, ctx) {
        return Vec::new();
    }
    claims::mount(&mut pod, &claims);
    let mut writes = claims::create_missing(&claims, &pod_name, sets.set, ctx);
    writes.push(ApiRequest::create(&PODS, pod));
    writes.push(pod_event("Create", &pod_name, sets, ctx));
    writes
}

fn remove(sets: &StatefulSetState, number: i64, ctx: &Context) -> Vec<ApiRequest> {
    let pod = sets.pods.get(&number);
    pod.map(|(key, pod)| delete(key, pod, sets, ctx)).unwrap_or_default()
}

fn delete(key: &Key, pod: &Object, sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    vec![ApiRequest::delete(key, pod), pod_event("Delete", name(pod), sets, ctx)]
}

/// The event for a created or deleted pod.
fn pod_event(done: &str, pod: &str, sets: &StatefulSetState, ctx: &Context) -> ApiRequest {
    let reason = format!("Successful{done}");
    let of = name(sets.set);
    let message = format!("{done} Pod {pod} in StatefulSet {of} successful");
    EventSpec { component: COMPONENT, kind: "Normal", reason: &reason, message }
        .record(sets.set, ctx)
}

fn is_outdated(sets: &StatefulSetState, pod: &Value) -> bool {
    label(pod, HASH) != Some(sets.revision.as_str())
}

/// The first ordinal that an update replaces; `None` with `OnDelete`.
fn partition(sets: &StatefulSetState) -> Option<i64> {
    if text(sets.set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return None;
    }
    let rolling = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    Some(sets.ordinal_range.0.saturating_add(count_at(sets.set, &rolling, 0)))
}

/// Replaces the outdated pod with the highest ordinal when all pods are ready.
fn replace_outdated(sets: &StatefulSetState, ctx: &Context) -> Option<Vec<ApiRequest>> {
    let first = partition(sets)?;
    let settled = sets.pods.values().all(|(_, pod)| is_active(pod) && is_ready(pod));
    let (key, old) = sets
        .pods
        .range(first..)
        .rev()
        .map(|(_, pod)| *pod)
        .find(|(_, pod)| is_outdated(sets, pod))?;
    // An update may fix an outdated pod that is not ready.
    let broken = !is_deleting(old) && !is_ready(old);
    (settled || broken).then(|| delete(key, old, sets, ctx))
}

fn sync_status(sets: &StatefulSetState) -> ReconcileResult {
    let mut seen = Value::clone(sets.set);
    let pods = || sets.pods.values().map(|(_, pod)| pod).filter(|pod| is_active(pod));
    let of = |revision: &str| api_count(pods().filter(|pod| label(pod, HASH) == Some(revision)));
    let (updated, ready) = (of(&sets.revision), api_count(pods().filter(|pod| is_ready(pod))));
    // An update is complete when all pods are new and ready.
    let desired = sets.ordinal_range.1 - sets.ordinal_range.0;
    let is_complete = partition(sets).is_some() && updated == desired && ready == desired;
    let current = if is_complete { &sets.revision } else { &sets.current };
    let always =
        [("replicas", api_count(pods())), ("availableReplicas", ready), ("collisionCount", 0)];
    let if_any = [
        ("observedGeneration", number(sets.set, &["metadata", "generation"]).unwrap_or(0)),
        ("readyReplicas", ready),
        ("currentReplicas", of(current)),
        ("updatedReplicas", updated),
    ];
    set_counts(&mut seen, &always, &if_any);
    set(&mut seen, &["status", "updateRevision"], json!(sets.revision));
    set(&mut seen, &["status", "currentRevision"], json!(current));
    ReconcileResult::from_writes(ApiRequest::status_update(sets.key, sets.set, seen))
}
