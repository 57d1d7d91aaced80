//! The resource claim controller: creates claims from templates for pods, and deallocates unused
//! claims. The scheduler allocates them.

use super::workload::{controller_references, free_object_name};
use crate::reconcile::cache::controller_reference;
use crate::reconcile::pod_status::{claim_entry_name, is_finished, pod_claims};
use crate::reconcile::resources::{PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, finalizers, json,
    object::{
        annotation, at, finalizers, is_deleting, list, name, namespace, remove, set, text, uid,
    },
};

const COMPONENT: &str = "resource_claim";
/// The annotation of a claim that was created for a pod. Its value is the claim's name in the pod
/// spec.
const POD_CLAIM_ANNOTATION: &str = "resource.kubernetes.io/pod-claim-name";

/// The resource claim controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: COMPONENT,
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&PODS, &RESOURCE_CLAIMS, &RESOURCE_CLAIM_TEMPLATES]),
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
    if *resource == *RESOURCE_CLAIMS {
        let owners =
            change.states().filter_map(|claim| cache.key_of_uid(controller_reference(claim)?.uid));
        return owners.cloned().chain([change.key.clone()]).collect();
    }
    if *resource == *RESOURCE_CLAIM_TEMPLATES {
        let pods = cache.objects_in_namespace(&PODS, &change.key.namespace);
        let waiting = pods.filter(|(_, pod)| !pod_claims(pod).is_empty());
        return waiting.map(|(key, _)| key.clone()).collect();
    }
    Vec::new()
}

/// The claims of a pod, as far as their names are known: those of the pod's status and those that
/// the spec names.
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
    } else {
        release_claim(key, object, ctx)
    }
}

/// Creates the missing claims of a pod from their templates.
fn create_missing_claims(key: &Key, pod: &Object, ctx: &Context) -> ReconcileResult {
    if is_deleting(pod) || is_finished(pod) {
        return ReconcileResult::nothing_to_do();
    }
    let mut writes = Vec::new();
    let mut statuses = list(pod, &["status", "resourceClaimStatuses"]).to_vec();
    for entry in pod_claims(pod) {
        let (own, template) =
            (claim_entry_name(entry), text(entry, &["resourceClaimTemplateName"]));
        if template.is_empty() || statuses.iter().any(|status| claim_entry_name(status) == own) {
            continue;
        }
        let made = match unrecorded_claim(pod, own, ctx) {
            Some(made) => made,
            None => match claim_from_template(template, pod, own, ctx) {
                Ok(claim) => {
                    let made = name(&claim).to_owned();
                    writes.push(ApiRequest::create(&RESOURCE_CLAIMS, claim));
                    made
                }
                Err(notice) => {
                    writes.extend(notice.record_once(pod, ctx));
                    continue;
                }
            },
        };
        statuses.push(json!({"name": own, "resourceClaimName": made}));
    }
    let mut seen = Value::clone(pod);
    if !statuses.is_empty() {
        set(&mut seen, &["status", "resourceClaimStatuses"], Value::Array(statuses));
    }
    writes.extend(ApiRequest::status_update(key, pod, seen));
    ReconcileResult::from_writes(writes)
}

/// The name of a claim that was created for the pod but is not in the pod's status yet.
fn unrecorded_claim(pod: &Value, pod_claim_name: &str, ctx: &Context) -> Option<String> {
    let mut made = ctx.cache.controlled_by(uid(pod), &RESOURCE_CLAIMS);
    let found =
        made.find(|(_, claim)| annotation(claim, POD_CLAIM_ANNOTATION) == Some(pod_claim_name));
    found.map(|(_, claim)| name(claim).to_owned())
}

fn claim_from_template<'a>(
    template: &str,
    pod: &Value,
    own: &str,
    ctx: &Context,
) -> Result<Value, EventSpec<'a>> {
    let key = Key {
        resource: RESOURCE_CLAIM_TEMPLATES.clone(),
        namespace: namespace(pod).into(),
        name: template.into(),
    };
    let missing = || EventSpec {
        component: COMPONENT,
        kind: "Warning",
        reason: "FailedResourceClaimCreation",
        message: format!(
            "PodResourceClaim {own}: resource claim template \"{template}\": resourceclaimtemplate.resource.k8s.io \"{template}\" not found"
        ),
    };
    let template = ctx.cache.get(&key).ok_or_else(missing)?;
    let mut claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": at(template, &["spec", "metadata"]).cloned().unwrap_or_else(|| json!({})),
        "spec": at(template, &["spec", "spec"]).cloned().unwrap_or_else(|| json!({})),
    });
    let made = free_object_name(&RESOURCE_CLAIMS, pod, &format!("{}-{own}-", name(pod)), ctx);
    set(&mut claim, &["metadata", "name"], json!(made));
    set(&mut claim, &["metadata", "namespace"], json!(namespace(pod)));
    set(&mut claim, &["metadata", "annotations", POD_CLAIM_ANNOTATION], json!(own));
    set(&mut claim, &["metadata", "ownerReferences"], controller_references(pod));
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

/// Whether the pod of an entry of `status.reservedFor` exists and has not ended.
fn is_consumer_active(consumer: &Value, claim: &Key, ctx: &Context) -> bool {
    let key = Key {
        resource: PODS.clone(),
        namespace: claim.namespace.clone(),
        name: claim_entry_name(consumer).into(),
    };
    let is_pod =
        text(consumer, &["resource"]) == "pods" && text(consumer, &["apiGroup"]).is_empty();
    let pod = ctx.cache.get(&key);
    !is_pod || pod.is_some_and(|pod| uid(pod) == text(consumer, &["uid"]) && !is_finished(pod))
}
