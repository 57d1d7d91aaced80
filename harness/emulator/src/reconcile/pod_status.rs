//! What several controllers read from a pod and its node: phase, node, resource claims and taints.

use schedlab_api::Value;

use super::resources::{POD_GROUPS, PODS, RESOURCE_CLAIMS};
use crate::reconcile::{InformerCache, ObjectChange};
use crate::store::{Key, Object, Resource};
use schedlab_api::object::{at, list, namespace, text, uid};

/// The node that a pod is bound to (`spec.nodeName`); empty if it is not bound.
pub(crate) fn node_name(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
}

/// The name of the pod group that a pod belongs to.
pub(crate) fn group_name(pod: &Value) -> Option<&str> {
    at(pod, &["spec", "schedulingGroup", "podGroupName"])?.as_str()
}

/// Whether a pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// The entries of a pod's `spec.resourceClaims`.
pub(crate) fn pod_claims(pod: &Value) -> &[Value] {
    list(pod, &["spec", "resourceClaims"])
}

/// The name of an entry of `spec.resourceClaims` or of `status.resourceClaimStatuses`.
pub(crate) fn claim_entry_name(entry: &Value) -> &str {
    text(entry, &["name"])
}

/// The key of the pod group that a pod belongs to.
pub(crate) fn group_key(pod: &Value) -> Option<Key> {
    Some(Key {
        resource: POD_GROUPS.clone(),
        namespace: namespace(pod).into(),
        name: group_name(pod)?.into(),
    })
}

/// The pods of a pod group.
pub(crate) fn group_members<'v>(
    group: &'v Key,
    cache: &'v InformerCache,
) -> impl Iterator<Item = (&'v Key, &'v Object)> {
    let pods = cache.objects_in_namespace(&PODS, &group.namespace);
    pods.filter(move |(_, pod)| group_name(pod) == Some(&*group.name))
}

/// The pod group of which a pod uses a claim: the group has an equal entry.
pub(crate) fn bound_group<'v>(
    pod: &Value,
    claim: &Value,
    cache: &'v InformerCache,
) -> Option<&'v Object> {
    const FIELDS: [&str; 3] = ["name", "resourceClaimName", "resourceClaimTemplateName"];
    let group = cache.get(&group_key(pod)?)?;
    let is_same = |own: &&Value| FIELDS.iter().all(|field| own[*field] == claim[*field]);
    pod_claims(group).iter().find(is_same).map(|_| group)
}

/// Whether all claims of a pod are allocated and reserved for it or its group, so that its
/// containers can start.
pub(crate) fn are_claims_ready(pod: &Value, cache: &InformerCache) -> bool {
    let ready = |entry: &Value| {
        let own = claim_entry_name(entry);
        let made = list(pod, &["status", "resourceClaimStatuses"]);
        let made = made.iter().find(|status| claim_entry_name(status) == own).unwrap_or(entry);
        let key = Key {
            resource: RESOURCE_CLAIMS.clone(),
            namespace: namespace(pod).into(),
            name: text(made, &["resourceClaimName"]).into(),
        };
        cache.get(&key).is_some_and(|claim| {
            let reserved = list(claim, &["status", "reservedFor"]);
            let consumer = bound_group(pod, entry, cache).map_or(uid(pod), |group| uid(group));
            at(claim, &["status", "allocation"]).is_some()
                && reserved.iter().any(|user| text(user, &["uid"]) == consumer)
        })
    };
    pod_claims(pod).iter().all(ready)
}

/// The pods in `status.reservedFor` of a changed claim, and those of the pod groups there.
pub(crate) fn pods_reserving_claim(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let after = change.after.iter();
    after.flat_map(|claim| consumers(&change.key, claim, cache)).collect()
}

/// The pods in `status.reservedFor` of a claim, and those of the pod groups there.
pub(crate) fn consumers(claim: &Key, object: &Value, cache: &InformerCache) -> Vec<Key> {
    let key = |resource: &Resource, user: &Value| Key {
        resource: resource.clone(),
        namespace: claim.namespace.clone(),
        name: claim_entry_name(user).into(),
    };
    let mut pods = Vec::new();
    for user in list(object, &["status", "reservedFor"]) {
        if text(user, &["resource"]) == "podgroups" {
            let group = key(&POD_GROUPS, user);
            pods.extend(group_members(&group, cache).map(|(key, _)| key.clone()));
        } else {
            pods.push(key(&PODS, user));
        }
    }
    pods
}

/// The entries of a pod's claims with the names of the claims, as far as they are known; that of
/// its extended resources has an empty entry.
pub(crate) fn claims_of(pod: &Value) -> Vec<(&str, &str)> {
    let made = list(pod, &["status", "resourceClaimStatuses"]).iter();
    let own = text(pod, &["status", "extendedResourceClaimStatus", "resourceClaimName"]);
    let named = pod_claims(pod).iter().chain(made);
    named
        .map(|claim| (claim_entry_name(claim), text(claim, &["resourceClaimName"])))
        .chain([("", own)])
        .filter(|(_, claim)| !claim.is_empty())
        .collect()
}

/// The taints of a node with the effect `NoExecute`, which evict pods.
pub(crate) fn no_execute_taints(node: &Value) -> impl Iterator<Item = &Value> {
    list(node, &["spec", "taints"]).iter().filter(|taint| text(taint, &["effect"]) == "NoExecute")
}
