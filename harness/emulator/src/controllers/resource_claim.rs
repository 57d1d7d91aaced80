//! The resource claim controller: creates claims from templates for pods and pod groups, and
//! deallocates unused claims. The scheduler allocates them.

use super::workload::{controller_references, free_object_name};
use crate::reconcile::cache::controller_reference;
use crate::reconcile::pod_status::{
    bound_group, claim_entry_name, group_key, group_members, is_finished, pod_claims,
};
use crate::reconcile::resources::{POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object, Resource};
use schedlab_api::{
    Value, finalizers, json,
    object::{
        annotation, at, finalizers, is_deleting, list, name, namespace, remove, set, text, uid,
    },
};

const COMPONENT: &str = "resource_claim";
const GROUP_CLAIMS_GATE: &str = "DRAWorkloadResourceClaims";
/// The annotation of a claim created for a pod or a pod group: the name of the claim in its owner.
const POD_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";

/// The resource claim controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[
        &PODS,
        &POD_GROUPS,
        &RESOURCE_CLAIMS,
        &RESOURCE_CLAIM_TEMPLATES,
    ]),
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let resource = &change.key.resource;
    if *resource == *PODS {
        let claims = change.states().flat_map(|pod| claims_used_by(pod));
        let mut keys: Vec<Key> = claims.collect();
        keys.dedup();
        let uses = change.after.iter().any(|pod| !pod_claims(pod).is_empty());
        return keys.into_iter().chain(uses.then(|| change.key.clone())).collect();
    }
    if *resource == *POD_GROUPS {
        let claims = change.states().flat_map(|group| claims_used_by(group));
        let members = group_members(&change.key, cache).map(|(key, _)| key.clone());
        let mut keys: Vec<Key> = claims.chain([change.key.clone()]).chain(members).collect();
        keys.dedup();
        return keys;
    }
    if *resource == *RESOURCE_CLAIMS {
        let owners =
            change.states().filter_map(|claim| cache.key_of_uid(controller_reference(claim)?.uid));
        return owners.cloned().chain([change.key.clone()]).collect();
    }
    if *resource == *RESOURCE_CLAIM_TEMPLATES {
        let pods = cache.objects_in_namespace(&PODS, &change.key.namespace);
        let groups = cache.objects_in_namespace(&POD_GROUPS, &change.key.namespace);
        let waiting = pods.chain(groups).filter(|(_, owner)| !pod_claims(owner).is_empty());
        return waiting.map(|(key, _)| key.clone()).collect();
    }
    Vec::new()
}

/// The claims of a pod or a pod group whose names are known.
fn claims_used_by(pod: &Value) -> impl Iterator<Item = Key> + '_ {
    let made = list(pod, &["status", "resourceClaimStatuses"]).iter();
    let names = pod_claims(pod).iter().chain(made).map(|one| text(one, &["resourceClaimName"]));
    names.filter(|name| !name.is_empty()).map(|name| Key {
        resource: RESOURCE_CLAIMS.clone(),
        namespace: namespace(pod).into(),
        name: name.into(),
    })
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(object) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    if key.resource == *PODS {
        create_missing_claims(key, object, ctx)
    } else if key.resource == *POD_GROUPS {
        create_missing_group_claims(key, object, ctx)
    } else {
        release_claim(key, object, ctx)
    }
}

/// Creates the missing claims of a pod from their templates.
fn create_missing_claims(key: &Key, pod: &Object, ctx: &Context) -> ReconcileResult {
    let has_group_claims = ctx.feature_gates.is_enabled(GROUP_CLAIMS_GATE);
    let waits_for_group =
        has_group_claims && group_key(pod).is_some_and(|group| ctx.cache.get(&group).is_none());
    if is_deleting(pod) || is_finished(pod) || waits_for_group {
        return ReconcileResult::nothing_to_do();
    }
    record_claims(key, pod, |entry, writes| {
        match bound_group(pod, entry, ctx.cache).filter(|_| has_group_claims) {
            // The claim of a group is created for the group.
            Some(group) => unrecorded_claim(group, claim_entry_name(entry), ctx),
            None => find_or_create_claim(entry, pod, writes, ctx),
        }
    })
}

/// Creates the missing claims of a pod group from their templates.
fn create_missing_group_claims(key: &Key, group: &Object, ctx: &Context) -> ReconcileResult {
    if is_deleting(group) || !ctx.feature_gates.is_enabled(GROUP_CLAIMS_GATE) {
        return ReconcileResult::nothing_to_do();
    }
    record_claims(key, group, |entry, writes| find_or_create_claim(entry, group, writes, ctx))
}

/// Records the names of the claims made from templates in the status of their owner, a pod or a pod
/// group. `claim_for` returns the name of the claim for an entry of the spec; `None`: there is none
/// yet.
fn record_claims(
    key: &Key,
    owner: &Object,
    claim_for: impl Fn(&Value, &mut Vec<ApiRequest>) -> Option<String>,
) -> ReconcileResult {
    let mut writes = Vec::new();
    let mut statuses = list(owner, &["status", "resourceClaimStatuses"]).to_vec();
    for entry in pod_claims(owner) {
        let own = claim_entry_name(entry);
        let has_template = !text(entry, &["resourceClaimTemplateName"]).is_empty();
        if !has_template || statuses.iter().any(|status| claim_entry_name(status) == own) {
            continue;
        }
        if let Some(made) = claim_for(entry, &mut writes) {
            statuses.push(json!({"name": own, "resourceClaimName": made}));
        }
    }
    let mut seen = Value::clone(owner);
    if !statuses.is_empty() {
        set(&mut seen, &["status", "resourceClaimStatuses"], Value::Array(statuses));
    }
    writes.extend(ApiRequest::status_update(key, owner, seen));
    ReconcileResult::from_writes(writes)
}

/// The name of the claim for an entry of a pod or a pod group, which is created if it does not exist.
/// `None` if its template is missing.
fn find_or_create_claim(
    entry: &Value,
    owner: &Value,
    writes: &mut Vec<ApiRequest>,
    ctx: &Context,
) -> Option<String> {
    let (own, template) = (claim_entry_name(entry), text(entry, &["resourceClaimTemplateName"]));
    if let Some(made) = unrecorded_claim(owner, own, ctx) {
        return Some(made);
    }
    match claim_from_template(template, owner, own, ctx) {
        Ok(claim) => {
            let made = name(&claim).to_owned();
            writes.push(ApiRequest::create(&RESOURCE_CLAIMS, claim));
            Some(made)
        }
        Err(notice) => {
            writes.extend(notice.record_once(owner, ctx));
            None
        }
    }
}

/// The name of a claim that was created for `owner`, a pod or a pod group, but may not be in its
/// status yet.
fn unrecorded_claim(owner: &Value, pod_claim_name: &str, ctx: &Context) -> Option<String> {
    let mut made = ctx.cache.controlled_by(uid(owner), &RESOURCE_CLAIMS);
    let found =
        made.find(|(_, claim)| annotation(claim, POD_CLAIM_ANNOTATION) == Some(pod_claim_name));
    found.map(|(_, claim)| name(claim).to_owned())
}

fn claim_from_template<'a>(
    template: &str,
    owner: &Value,
    own: &str,
    ctx: &Context,
) -> Result<Value, EventSpec<'a>> {
    let key = Key {
        resource: RESOURCE_CLAIM_TEMPLATES.clone(),
        namespace: namespace(owner).into(),
        name: template.into(),
    };
    let is_group = text(owner, &["kind"]) == "PodGroup";
    let what = if is_group { "PodGroupResourceClaim" } else { "PodResourceClaim" };
    let missing = || EventSpec {
        component: COMPONENT,
        kind: "Warning",
        reason: "FailedResourceClaimCreation",
        message: format!(
            "{what} {own}: resource claim template \"{template}\": resourceclaimtemplate.resource.k8s.io \"{template}\" not found"
        ),
    };
    let template = ctx.cache.get(&key).ok_or_else(missing)?;
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": at(template, &["spec", "metadata"]).cloned().unwrap_or_else(|| json!({})),
        "spec": at(template, &["spec", "spec"]).cloned().unwrap_or_else(|| json!({})),
    });
    let prefix = format!("{}-{own}-", name(owner));
    let made = free_object_name(&RESOURCE_CLAIMS, owner, &prefix, ctx);
    set(&mut claim, &["metadata", "generateName"], json!(prefix));
    set(&mut claim, &["metadata", "name"], json!(made));
    set(&mut claim, &["metadata", "namespace"], json!(namespace(owner)));
    set(&mut claim, &["metadata", "annotations", POD_CLAIM_ANNOTATION], json!(own));
    let mut owners = controller_references(owner);
    if is_group {
        remove(&mut owners[0], &["blockOwnerDeletion"]);
    }
    set(&mut claim, &["metadata", "ownerReferences"], owners);
    Ok(claim)
}

/// Deallocates a claim without consumers, and deletes a claim of a finished pod.
fn release_claim(key: &Key, claim: &Object, ctx: &Context) -> ReconcileResult {
    let reserved = list(claim, &["status", "reservedFor"]);
    let users: Vec<Value> =
        reserved.iter().filter(|user| is_consumer_active(user, key, ctx)).cloned().collect();
    if users.len() < reserved.len() {
        let mut freed = Value::clone(claim);
        if users.is_empty() {
            remove(&mut freed, &["status", "reservedFor"]);
            remove(&mut freed, &["status", "allocation"]);
        } else {
            set(&mut freed, &["status", "reservedFor"], Value::Array(users));
        }
        return ReconcileResult::from_writes(ApiRequest::status_update(key, claim, freed));
    }
    if !users.is_empty() {
        return ReconcileResult::nothing_to_do();
    }
    if is_deleting(claim) {
        return ReconcileResult::from_writes(finish_claim_deletion(key, claim));
    }
    let owner = controller_reference(claim).and_then(|owner| ctx.cache.key_of_uid(owner.uid));
    let owner = owner.filter(|key| key.resource == *PODS).and_then(|key| ctx.cache.get(key));
    let ended = owner.is_some_and(|pod| is_finished(pod));
    ReconcileResult::from_writes(ended.then(|| ApiRequest::delete(key, claim)))
}

/// Deallocates a deleted claim without consumers and removes its finalizer.
fn finish_claim_deletion(key: &Key, claim: &Object) -> Option<ApiRequest> {
    finalizers(claim).find(|one| *one == finalizers::DELETE_PROTECTION)?;
    if at(claim, &["status", "allocation"]).is_none() {
        return Some(ApiRequest::remove_finalizer(key, claim, finalizers::DELETE_PROTECTION));
    }
    let mut freed = Value::clone(claim);
    remove(&mut freed, &["status", "allocation"]);
    ApiRequest::status_update(key, claim, freed)
}

/// Whether the pod of an entry of `status.reservedFor` exists and has not ended, or its pod group
/// exists.
fn is_consumer_active(consumer: &Value, claim: &Key, ctx: &Context) -> bool {
    let find = |resource: &Resource| {
        let key = Key {
            resource: resource.clone(),
            namespace: claim.namespace.clone(),
            name: claim_entry_name(consumer).into(),
        };
        ctx.cache.get(&key).filter(|found| uid(found) == text(consumer, &["uid"]))
    };
    match (text(consumer, &["apiGroup"]), text(consumer, &["resource"])) {
        ("", "pods") => find(&PODS).is_some_and(|pod| !is_finished(pod)),
        ("scheduling.k8s.io", "podgroups") if ctx.feature_gates.is_enabled(GROUP_CLAIMS_GATE) => {
            find(&POD_GROUPS).is_some()
        }
        _ => true,
    }
}
