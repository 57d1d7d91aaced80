//! The Deployment controller: one ReplicaSet per pod template, and rollouts between them.
//!
//! Left out: rollback by annotation.

mod proportion;
mod rollout;
mod status;

use super::WriteRefusal;
use super::adoption::{adopt_and_release_objects, adopting_owners};
use super::workload::{
    clamped_count_at, object_from_template, owner_keys, set_metadata_entries, template_hash,
};
use crate::reconcile::fields::string_entries;
use crate::reconcile::resources::{DEPLOYMENTS, PODS, REPLICA_SETS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
    controller_reference,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, annotations, json,
    object::{annotation, is_deleting, label, name, remove, set, text, uid},
};

const COMPONENT: &str = "deployment-controller";
const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
/// The annotation with the earlier revisions of a reused ReplicaSet.
const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
/// The annotations of a Deployment that are not copied to its ReplicaSets.
const OWN_ANNOTATIONS: [&str; 5] = [
    annotations::LAST_APPLIED_CONFIGURATION,
    REVISION_ANNOTATION,
    REVISION_HISTORY_ANNOTATION,
    DESIRED_REPLICAS_ANNOTATION,
    MAX_REPLICAS_ANNOTATION,
];
const TEMPLATE_HASH_LABEL: &str = "pod-template-hash";

/// The Deployment controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&DEPLOYMENTS, &REPLICA_SETS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed Deployment, the owner or adopters of a changed ReplicaSet, and the Deployment of a
/// deleted pod, whose end a `Recreate` rollout waits for.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource != *PODS {
        let mut keys = owner_keys(change, cache, &DEPLOYMENTS, &REPLICA_SETS);
        keys.extend(adopting_owners(change, cache, &DEPLOYMENTS, &REPLICA_SETS));
        return keys;
    }
    let gone = change.before.as_ref().filter(|_| change.after.is_none());
    let parent = |object: &Object| cache.key_of_uid(controller_reference(object)?.uid);
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
    fn all_sets(&self) -> impl Iterator<Item = (&'v Key, &'v Object)> + '_ {
        self.old.iter().copied().chain(self.new)
    }

    fn desired_replicas(&self) -> i64 {
        clamped_count_at(self.deployment, &["spec", "replicas"], 1)
    }
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some((key, deployment)) = ctx.cache.entry(key) else {
        return ReconcileResult::nothing_to_do();
    };
    if is_deleting(deployment) {
        return ReconcileResult::nothing_to_do();
    }
    let claims = adopt_and_release_objects(deployment, &REPLICA_SETS, |_| true, ctx);
    if !claims.is_empty() {
        return ReconcileResult::from_writes(claims);
    }
    let mut old: Vec<_> = ctx.cache.controlled_by(uid(deployment), &REPLICA_SETS).collect();
    old.retain(|(_, set)| !is_deleting(set));
    old.sort_by_key(|(key, set)| age_sort_key(key, set));
    let template = &deployment["spec"]["template"];
    let new = old.iter().position(|(_, set)| template_without_hash(set) == *template);
    let new = new.map(|index| old.remove(index));
    let sets = DeploymentSets { key, deployment, new, old };
    let paused = crate::reconcile::fields::flag_at(deployment, &["spec", "paused"]);
    let is_scaled = paused || proportion::was_deployment_scaled(&sets);
    let mut writes = if is_scaled { proportion::scale_active_sets(&sets, ctx) } else { Vec::new() };
    if writes.is_empty() && !paused {
        writes = match sets.new {
            None => rollout::start_rollout(&sets, ctx),
            Some((key, new)) => rollout::continue_rollout(&sets, key, new, ctx),
        };
    }
    if writes.is_empty() {
        writes.extend(sync_revision_annotations(&sets));
    }
    if writes.is_empty() {
        writes.extend(clean_up_old_sets(&sets));
    }
    if writes.is_empty() {
        return status::sync_status(&sets, ctx);
    }
    ReconcileResult::from_writes(writes)
}

/// The sort key of a ReplicaSet by age, oldest first.
fn age_sort_key<'v>(key: &'v Key, set: &'v Object) -> (&'v str, &'v Key) {
    (text(set, &["metadata", "creationTimestamp"]), key)
}

/// The message for a ReplicaSet that could not be created.
pub(super) fn creation_failure_message(refusal: &WriteRefusal) -> String {
    format!("Failed to create new replica set \"{}\": {}", refusal.name, refusal.error.message)
}

/// The status update that reports the refused creation of a ReplicaSet.
pub(super) fn creation_failure_update(
    key: &Key,
    refusal: &WriteRefusal,
    ctx: &Context,
) -> Option<ApiRequest> {
    let deployment = ctx.cache.get(key).filter(|deployment| !is_deleting(deployment))?;
    ApiRequest::status_update(
        key,
        deployment,
        status::status_with_refused_set(deployment, &creation_failure_message(refusal), ctx.now),
    )
}

/// The revision of a ReplicaSet.
fn revision_number(set: &Value) -> i64 {
    annotation(set, REVISION_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A ReplicaSet's template without the `pod-template-hash` label.
fn template_without_hash(set: &Value) -> Value {
    let mut template = set["spec"]["template"].clone();
    remove(&mut template, &["metadata", "labels", TEMPLATE_HASH_LABEL]);
    template
}

/// A new ReplicaSet for the current template.
fn new_replica_set(sets: &DeploymentSets, replicas: i64) -> Value {
    let deployment = sets.deployment;
    let template = &deployment["spec"]["template"];
    let hash = template_hash(template);
    let mut replica_set =
        object_from_template(template, deployment, &format!("{}-{hash}", name(deployment)));
    let next = sets.old.iter().map(|(_, set)| revision_number(set)).max().unwrap_or(0) + 1;
    copy_annotations(deployment, &mut replica_set);
    set_metadata_entries(
        &mut replica_set,
        "annotations",
        &[(REVISION_ANNOTATION, &next.to_string())],
    );
    rollout::annotate_desired_replicas(&mut replica_set, sets);
    set_metadata_entries(&mut replica_set, "labels", &[(TEMPLATE_HASH_LABEL, &hash)]);
    remove(&mut replica_set, &["metadata", "finalizers"]);
    let mut template = template.clone();
    set_metadata_entries(&mut template, "labels", &[(TEMPLATE_HASH_LABEL, &hash)]);
    let mut selector = deployment["spec"]["selector"].clone();
    set(&mut selector, &["matchLabels", TEMPLATE_HASH_LABEL], json!(hash));
    set(&mut replica_set, &["apiVersion"], json!("apps/v1"));
    set(&mut replica_set, &["kind"], json!("ReplicaSet"));
    let spec = json!({
        "replicas": replicas,
        "minReadySeconds": clamped_count_at(deployment, &["spec", "minReadySeconds"], 0),
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
            set_metadata_entries(replica_set, "annotations", &[(key, value)]);
        }
    }
}

/// Gives a reused ReplicaSet a new revision, and copies the current revision to the Deployment.
fn sync_revision_annotations(sets: &DeploymentSets) -> Option<ApiRequest> {
    let (key, new) = sets.new?;
    let newest = sets.old.iter().map(|(_, set)| revision_number(set)).max().unwrap_or(0);
    let mut annotated = Value::clone(new);
    copy_annotations(sets.deployment, &mut annotated);
    if revision_number(new) <= newest {
        let before =
            [annotation(new, REVISION_HISTORY_ANNOTATION), annotation(new, REVISION_ANNOTATION)];
        let before = before.into_iter().flatten().collect::<Vec<_>>().join(",");
        let next = (newest + 1).to_string();
        set_metadata_entries(
            &mut annotated,
            "annotations",
            &[(REVISION_ANNOTATION, &next), (REVISION_HISTORY_ANNOTATION, &before)],
        );
    }
    if annotated != **new {
        return Some(ApiRequest::update(key, annotated));
    }
    let current = annotation(new, REVISION_ANNOTATION).unwrap_or_default();
    if annotation(sets.deployment, REVISION_ANNOTATION) == Some(current) {
        return None;
    }
    let mut deployment = Value::clone(sets.deployment);
    set_metadata_entries(&mut deployment, "annotations", &[(REVISION_ANNOTATION, current)]);
    // A status update does not increase the Deployment's generation.
    Some(ApiRequest::full_status_update(sets.key, deployment))
}

/// Deletes old ReplicaSets beyond the history limit.
fn clean_up_old_sets(sets: &DeploymentSets) -> Vec<ApiRequest> {
    let keep = super::workload::to_usize(clamped_count_at(
        sets.deployment,
        &["spec", "revisionHistoryLimit"],
        10,
    ));
    let empty = sets.old.iter().filter(|(_, set)| {
        clamped_count_at(set, &["spec", "replicas"], 0) == 0
            && clamped_count_at(set, &["status", "replicas"], 0) == 0
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
    let hash = label(set, TEMPLATE_HASH_LABEL).unwrap_or_default();
    let mut pods = ctx.cache.controlled_by(uid(set), &PODS);
    !hash.is_empty()
        && pods.any(|(_, pod)| !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed"))
}
