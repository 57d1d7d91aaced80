//! The StatefulSet controller: numbered pods with volume claims, created in order or in parallel,
//! and replaced in place.
//!
//! Left out: `minReadySeconds`.

mod claims;
mod revisions;

use std::collections::BTreeMap;

use super::adoption::{adopt_and_release_objects, adopting_owners};
use super::workload::{
    NEW_PODS_MAX, api_count, clamped_count_at, is_active, is_ready, owner_keys,
    pod_with_generated_name, set_metadata_entries,
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
const REVISION_LABEL: &str = "controller-revision-hash";

/// The StatefulSet controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&STATEFUL_SETS, &CONTROLLER_REVISIONS, &PODS, &VOLUME_CLAIMS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed StatefulSet, the owner or adopters of a changed pod or `ControllerRevision`, and all
/// StatefulSets in the namespace of a deleted `PersistentVolumeClaim`.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *VOLUME_CLAIMS {
        let is_gone = change.after.is_none();
        let sets =
            cache.objects_in_namespace(&STATEFUL_SETS, &change.key.namespace).filter(|_| is_gone);
        return sets.map(|(key, _)| key.clone()).collect();
    }
    let child =
        if change.key.resource == *CONTROLLER_REVISIONS { &CONTROLLER_REVISIONS } else { &PODS };
    let mut keys = owner_keys(change, cache, &STATEFUL_SETS, child);
    keys.extend(adopting_owners(change, cache, &STATEFUL_SETS, child));
    keys
}

/// A StatefulSet and its pods by ordinal.
struct StatefulSetState<'v> {
    key: &'v Key,
    set: &'v Object,
    pods: BTreeMap<i64, (&'v Key, &'v Object)>,
    /// The range of the desired ordinals: the first, and the one after the last.
    ordinal_range: (i64, i64),
    /// The name of the revision of the set's template (`updateRevision`).
    revision: String,
    /// The name of the revision before an update in progress (`currentRevision`).
    current: String,
    /// The pod template of the revision `current`.
    current_template: &'v Value,
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, set)) = ctx.cache.entry(key) else { return ReconcileResult::nothing_to_do() };
    if is_deleting(set) {
        return ReconcileResult::nothing_to_do();
    }
    let mut claims = adopt_and_release_objects(set, &CONTROLLER_REVISIONS, |_| true, ctx);
    claims.extend(adopt_and_release_objects(
        set,
        &PODS,
        |pod| ordinal_of_pod(set, pod).is_some(),
        ctx,
    ));
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let first = clamped_count_at(set, &["spec", "ordinals", "start"], 0);
    let desired = clamped_count_at(set, &["spec", "replicas"], 1);
    let pods = ctx.cache.controlled_by(uid(set), &PODS);
    let numbered = pods.filter_map(|(key, pod)| Some((ordinal_of_pod(set, pod)?, (key, pod))));
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
        current_template: revisions.revision_template(&current).unwrap_or(&set["spec"]["template"]),
        current,
    };
    let claim_writes = claims::sync_claims(&sets, ctx);
    let step = sync_pods(&sets, &revisions, ctx);
    ReconcileResult::from_writes(claim_writes.into_iter().chain(step.writes))
        .requeue_by(step.requeue_at)
}

/// Creates and deletes pods of a StatefulSet; updates the status if no pod needs to be created or
/// deleted.
fn sync_pods(sets: &StatefulSetState, revisions: &Revisions, ctx: &Context) -> ReconcileResult {
    let in_order = text(sets.set, &["spec", "podManagementPolicy"]) != "Parallel";
    let mut writes =
        if in_order { sync_pods_in_order(sets, ctx) } else { sync_pods_in_parallel(sets, ctx) };
    if writes.is_empty() {
        writes.extend(replace_outdated_pod(sets, ctx).into_iter().flatten());
    }
    if writes.is_empty() {
        writes.extend(revisions.delete_unused(sets));
    }
    if writes.is_empty() { sync_status(sets) } else { ReconcileResult::from_writes(writes) }
}

/// The ordinal in the name of a pod of the set; `None` for other names.
fn ordinal_of_pod(set: &Value, pod: &Value) -> Option<i64> {
    name(pod).strip_prefix(name(set))?.strip_prefix('-')?.parse().ok()
}

/// The next action for a pod.
enum EventAction {
    /// The pod does not exist.
    Create,
    /// The pod has ended and must be deleted, so that it is recreated.
    Remove,
    /// The pod is starting or terminating.
    Wait,
    /// The pod is ready.
    Keep,
}

fn pod_action(sets: &StatefulSetState, ordinal: i64) -> EventAction {
    match sets.pods.get(&ordinal) {
        None => EventAction::Create,
        Some((_, pod)) if is_deleting(pod) => EventAction::Wait,
        Some((_, pod)) if is_finished(pod) => EventAction::Remove,
        Some((_, pod)) if is_ready(pod) => EventAction::Keep,
        Some(_) => EventAction::Wait,
    }
}

/// The surplus pods, highest ordinal first.
fn surplus_pods<'s, 'v>(
    sets: &'s StatefulSetState<'v>,
) -> impl Iterator<Item = (&'v Key, &'v Object)> + 's {
    let (first, end) = sets.ordinal_range;
    let beyond = move |number: &i64| *number >= end || *number < first;
    sets.pods.iter().rev().filter(move |(number, _)| beyond(number)).map(|(_, pod)| *pod)
}

/// Creates pods in the order of their ordinals, each when the previous ones are ready, and deletes
/// surplus pods in reverse order.
fn sync_pods_in_order(sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    for number in sets.ordinal_range.0..sets.ordinal_range.1 {
        match pod_action(sets, number) {
            EventAction::Keep => {}
            EventAction::Wait => return Vec::new(),
            EventAction::Create => return create_pod_with_claims(sets, number, ctx),
            EventAction::Remove => return remove_ended_pod(sets, number, ctx),
        }
    }
    let last = surplus_pods(sets).next().filter(|(_, pod)| !is_deleting(pod));
    last.map(|(key, pod)| delete_pod_with_event(key, pod, sets, ctx)).unwrap_or_default()
}

fn sync_pods_in_parallel(sets: &StatefulSetState, ctx: &Context) -> Vec<ApiRequest> {
    let mut writes = Vec::new();
    for number in sets.ordinal_range.0..sets.ordinal_range.1 {
        match pod_action(sets, number) {
            EventAction::Keep | EventAction::Wait => {}
            EventAction::Create => writes.extend(create_pod_with_claims(sets, number, ctx)),
            EventAction::Remove => writes.extend(remove_ended_pod(sets, number, ctx)),
        }
        if writes.len() >= NEW_PODS_MAX {
            return writes;
        }
    }
    for (key, pod) in surplus_pods(sets).filter(|(_, pod)| !is_deleting(pod)) {
        writes.extend(delete_pod_with_event(key, pod, sets, ctx));
    }
    writes
}

fn create_pod_with_claims(sets: &StatefulSetState, ordinal: i64, ctx: &Context) -> Vec<ApiRequest> {
    let pod_name = format!("{}-{ordinal}", name(sets.set));
    let held_back = first_updated_ordinal(sets).is_some_and(|first| ordinal < first);
    let (template, revision) = if held_back {
        (sets.current_template, &sets.current)
    } else {
        (&sets.set["spec"]["template"], &sets.revision)
    };
    let mut pod =
        pod_with_generated_name(template, sets.set, [&format!("{}-", name(sets.set)), &pod_name]);
    let marks = [
        (labels::STATEFUL_SET_POD_NAME, &*pod_name),
        ("apps.kubernetes.io/pod-index", &ordinal.to_string()),
        (REVISION_LABEL, &**revision),
    ];
    set_metadata_entries(&mut pod, "labels", &marks);
    set(&mut pod, &["spec", "hostname"], json!(pod_name));
    let service = text(sets.set, &["spec", "serviceName"]);
    if !service.is_empty() {
        set(&mut pod, &["spec", "subdomain"], json!(service));
    }
    let claims = claims::claims_of_pod(sets.set, ordinal);
    if claims::is_any_claim_deleting(&claims, ctx) {
        return Vec::new();
    }
    claims::mount_claims(&mut pod, &claims);
    let mut writes = claims::create_missing_claims(&claims, &pod_name, sets.set, ctx);
    writes.push(ApiRequest::create(&PODS, pod));
    writes.push(pod_event("Create", &pod_name, sets, ctx));
    writes
}

fn remove_ended_pod(sets: &StatefulSetState, ordinal: i64, ctx: &Context) -> Vec<ApiRequest> {
    let pod = sets.pods.get(&ordinal);
    pod.map(|(key, pod)| delete_pod_with_event(key, pod, sets, ctx)).unwrap_or_default()
}

fn delete_pod_with_event(
    key: &Key,
    pod: &Object,
    sets: &StatefulSetState,
    ctx: &Context,
) -> Vec<ApiRequest> {
    vec![ApiRequest::delete(key, pod), pod_event("Delete", name(pod), sets, ctx)]
}

/// The event for a created or deleted pod.
fn pod_event(verb: &str, pod_name: &str, sets: &StatefulSetState, ctx: &Context) -> ApiRequest {
    let reason = format!("Successful{verb}");
    let of = name(sets.set);
    let message = format!("{verb} Pod {pod_name} in StatefulSet {of} successful");
    EventSpec { component: COMPONENT, kind: "Normal", reason: &reason, message }
        .record(sets.set, ctx)
}

fn is_pod_outdated(sets: &StatefulSetState, pod: &Value) -> bool {
    label(pod, REVISION_LABEL) != Some(sets.revision.as_str())
}

/// The first ordinal whose pod an update replaces (`partition`); `None` with the strategy
/// `OnDelete`.
fn first_updated_ordinal(sets: &StatefulSetState) -> Option<i64> {
    if text(sets.set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return None;
    }
    let rolling = ["spec", "updateStrategy", "rollingUpdate", "partition"];
    Some(sets.ordinal_range.0.saturating_add(clamped_count_at(sets.set, &rolling, 0)))
}

/// Replaces the outdated pod with the highest ordinal when all pods are ready.
fn replace_outdated_pod(sets: &StatefulSetState, ctx: &Context) -> Option<Vec<ApiRequest>> {
    let first = first_updated_ordinal(sets)?;
    let settled = sets.pods.values().all(|(_, pod)| is_active(pod) && is_ready(pod));
    let (key, old) = sets
        .pods
        .range(first..)
        .rev()
        .map(|(_, pod)| *pod)
        .find(|(_, pod)| is_pod_outdated(sets, pod))?;
    // An update may fix an outdated pod that is not ready.
    let broken = !is_deleting(old) && !is_ready(old);
    (settled || broken).then(|| delete_pod_with_event(key, old, sets, ctx))
}

fn sync_status(sets: &StatefulSetState) -> ReconcileResult {
    let mut seen = Value::clone(sets.set);
    let pods = || sets.pods.values().map(|(_, pod)| pod).filter(|pod| is_active(pod));
    let of = |revision: &str| {
        api_count(pods().filter(|pod| label(pod, REVISION_LABEL) == Some(revision)))
    };
    let (updated, ready) = (of(&sets.revision), api_count(pods().filter(|pod| is_ready(pod))));
    // An update is complete when all pods are new and ready.
    let desired = sets.ordinal_range.1 - sets.ordinal_range.0;
    let is_complete =
        first_updated_ordinal(sets).is_some() && updated == desired && ready == desired;
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
