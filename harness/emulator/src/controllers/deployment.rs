//! The Deployment controller: one ReplicaSet per pod template, and rollouts between them.
//!
//! Left out: rollback by annotation.

mod proportion;
mod rollout;
mod status;

use super::WriteRefusal;
use super::adoption::{adopters, claim_objects};
use super::workload::{count_at, from_template, owner_keys, set_entries, template_hash};
use crate::reconcile::fields::string_entries;
use crate::reconcile::resources::{DEPLOYMENTS, PODS, REPLICA_SETS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
    controller_of,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, annotations, json,
    object::{annotation, is_deleting, label, name, remove, set, text, uid},
};

const COMPONENT: &str = "deployment-controller";
const REVISION: &str = "deployment.kubernetes.io/revision";
/// The earlier revisions of a reused ReplicaSet.
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that are not copied to its ReplicaSets.
const OWN_ANNOTATIONS: [&str; 5] = [
    annotations::LAST_APPLIED_CONFIGURATION,
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
];
const HASH: &str = "pod-template-hash";

/// The Deployment controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&DEPLOYMENTS, &REPLICA_SETS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

/// A Deployment, the owner or adopters of a ReplicaSet, and the Deployment of a deleted pod, which
/// `Recreate` waits for.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource != *PODS {
        let mut keys = owner_keys(change, cache, &DEPLOYMENTS, &REPLICA_SETS);
        keys.extend(adopters(change, cache, &DEPLOYMENTS, &REPLICA_SETS));
        return keys;
    }
    let gone = change.before.as_ref().filter(|_| change.after.is_none());
    let parent = |object: &Object| cache.by_uid(controller_of(object)?.uid);
    let set = gone.and_then(|pod| cache.get(parent(pod)?));
    let deployment = set.and_then(parent).filter(|key| key.resource == *DEPLOYMENTS);
    deployment.cloned().into_iter().collect()
}

/// A deployment and its ReplicaSets.
struct DeploymentSets<'v> {
    key: &'v Key,
    deployment: &'v Object,
    /// The ReplicaSet of the current template.
    new: Option<(&'v Key, &'v Object)>,
    /// The other ReplicaSets, oldest first.
    old: Vec<(&'v Key, &'v Object)>,
}

impl<'v> DeploymentSets<'v> {
    fn all(&self) -> impl Iterator<Item = (&'v Key, &'v Object)> + '_ {
        self.old.iter().copied().chain(self.new)
    }

    fn desired_replicas(&self) -> i64 {
        count_at(self.deployment, &["spec", "replicas"], 1)
    }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, deployment)) = ctx.cache.entry(key) else { return ReconcileResult::done() };
    if is_deleting(deployment) {
        return ReconcileResult::done();
    }
    let claims = claim_objects(deployment, &REPLICA_SETS, |_| true, ctx);
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let mut old: Vec<_> = ctx.cache.controlled(uid(deployment), &REPLICA_SETS).collect();
    old.retain(|(_, set)| !is_deleting(set));
    old.sort_by_key(|(key, set)| age(key, set));
    let template = &deployment["spec"]["template"];
    let new = old.iter().position(|(_, set)| template_without_hash(set) == *template);
    let new = new.map(|index| old.remove(index));
    let sets = DeploymentSets { key, deployment, new, old };
    let paused = crate::reconcile::fields::flag(deployment, &["spec", "paused"]);
    let is_scaled = paused || proportion::is_scaling_event(&sets);
    let mut writes = if is_scaled { proportion::scale_all(&sets, ctx) } else { Vec::new() };
    if writes.is_empty() && !paused {
        writes = match sets.new {
            None => rollout::start_rollout(&sets, ctx),
            Some((key, new)) => rollout::continue_rollout(&sets, key, new, ctx),
        };
    }
    if writes.is_empty() {
        writes.extend(sync_revision(&sets));
    }
    if writes.is_empty() {
        writes.extend(clean_up_old_sets(&sets));
    }
    if writes.is_empty() {
        return status::sync_status(&sets, ctx);
    }
    ReconcileResult::from_writes(writes)
}

/// A sort key by age, oldest first.
fn age<'v>(key: &'v Key, set: &'v Object) -> (&'v str, &'v Key) {
    (text(set, &["metadata", "creationTimestamp"]), key)
}

/// The message for a ReplicaSet that could not be created.
pub(super) fn creation_failure(refusal: &WriteRefusal) -> String {
    format!("Failed to create new replica set \"{}\": {}", refusal.name, refusal.error.message)
}

/// The status update that reports the refused creation of a ReplicaSet.
pub(super) fn failure_status(
    key: &Key,
    refusal: &WriteRefusal,
    ctx: &Context,
) -> Option<ApiRequest> {
    let deployment = ctx.cache.get(key).filter(|deployment| !is_deleting(deployment))?;
    ApiRequest::status_update(
        key,
        deployment,
        status::failure_status(deployment, &creation_failure(refusal), ctx.now),
    )
}

/// The revision of a ReplicaSet.
fn revision(set: &Value) -> i64 {
    annotation(set, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A ReplicaSet's template without the `pod-template-hash` label.
fn template_without_hash(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    remove(&mut template, &["metadata", "labels", HASH]);
    template
}

/// A new ReplicaSet for the current template.
fn new_replica_set(sets: &DeploymentSets, replicas: i64) -> Value {
    let deployment = sets.deployment;
    let template = &deployment["spec"]["template"];
    let hash = template_hash(template);
    let mut replica_set =
        from_template(template, deployment, &format!("{}-{hash}", name(deployment)));
    let next = sets.old.iter().map(|(_, set)| revision(set)).max().unwrap_or(0) + 1;
    copy_annotations(deployment, &mut replica_set);
    set_entries(&mut replica_set, "annotations", &[(REVISION, &next.to_string())]);
    rollout::annotate_desired_replicas(&mut replica_set, sets);
    set_entries(&mut replica_set, "labels", &[(HASH, &hash)]);
    remove(&mut replica_set, &["metadata", "finalizers"]);
    let mut template = template.clone();
    set_entries(&mut template, "labels", &[(HASH, &hash)]);
    let mut selector = deployment["spec"]["selector"].clone();
    set(&mut selector, &["matchLabels", HASH], json!(hash));
    set(&mut replica_set, &["apiVersion"], json!("apps/v1"));
    set(&mut replica_set, &["kind"], json!("ReplicaSet"));
    let spec = json!({
        "replicas": replicas,
        "minReadySeconds": count_at(deployment, &["spec", "minReadySeconds"], 0),
        "selector": selector,
        "template": template,
    });
    set(&mut replica_set, &["spec"], spec);
    replica_set
}

/// Copies the annotations of a Deployment to its ReplicaSet, among them the change cause.
fn copy_annotations(deployment: &Value, replica_set: &mut Value) {
    for (key, value) in string_entries(deployment, &["metadata", "annotations"]) {
        if !OWN_ANNOTATIONS.contains(&key) {
            set_entries(replica_set, "annotations", &[(key, value)]);
        }
    }
}

/// Gives a reused ReplicaSet a new revision, and copies the current revision to the Deployment.
fn sync_revision(sets: &DeploymentSets) -> Option<ApiRequest> {
    let (key, new) = sets.new?;
    let newest = sets.old.iter().map(|(_, set)| revision(set)).max().unwrap_or(0);
    let mut annotated = Value::clone(new);
    copy_annotations(sets.deployment, &mut annotated);
    if revision(new) <= newest {
        let before = [annotation(new, REVISION_HISTORY), annotation(new, REVISION)];
        let before = before.into_iter().flatten().collect::<Vec<_>>().join(",");
        let next = (newest + 1).to_string();
        set_entries(
            &mut annotated,
            "annotations",
            &[(REVISION, &next), (REVISION_HISTORY, &before)],
        );
    }
    if annotated != **new {
        return Some(ApiRequest::update(key, annotated));
    }
    let current = annotation(new, REVISION).unwrap_or_default();
    if annotation(sets.deployment, REVISION) == Some(current) {
        return None;
    }
    let mut deployment = Value::clone(sets.deployment);
    set_entries(&mut deployment, "annotations", &[(REVISION, current)]);
    // A status update does not increase the Deployment's generation.
    Some(ApiRequest::full_status_update(sets.key, deployment))
}

/// Deletes old ReplicaSets beyond the history limit.
fn clean_up_old_sets(sets: &DeploymentSets) -> Vec<ApiRequest> {
    let keep =
        super::workload::to_size(count_at(sets.deployment, &["spec", "revisionHistoryLimit"], 10));
    let empty = sets.old.iter().filter(|(_, set)| {
        count_at(set, &["spec", "replicas"], 0) == 0
            && count_at(set, &["status", "replicas"], 0) == 0
    });
    let empty: Vec<_> = empty.collect();
    let surplus = empty.len().saturating_sub(keep);
    empty.into_iter().take(surplus).map(|(key, set)| ApiRequest::delete(key, set)).collect()
}

fn scaled_event(
    set: &Value,
    from: i64,
    to: i64,
    sets: &DeploymentSets,
    ctx: &Context,
) -> ApiRequest {
    let direction = if to > from { "up" } else { "down" };
    let message = format!("Scaled {direction} replica set {} from {from} to {to}", name(set));
    EventSpec { component: COMPONENT, kind: "Normal", reason: "ScalingReplicaSet", message }
        .record(sets.deployment, ctx)
}

/// Whether a ReplicaSet still has pods that have not ended.
fn has_pods(set: &Value, ctx: &Context) -> bool {
    let hash = label(set, HASH).unwrap_or_default();
    let mut pods = ctx.cache.controlled(uid(set), &PODS);
    !hash.is_empty()
        && pods.any(|(_, pod)| !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed"))
}
