//! What several controllers read from a pod and its node: phase, node, resource claims and taints.

use schedlab_api::{Value, json};

use super::resources::{PODS, RESOURCE_CLAIMS};
use crate::reconcile::{InformerCache, ObjectChange, key_of};
use crate::store::Key;
use schedlab_api::object::{at, list, namespace, text, uid};

/// The node that a pod is bound to (`spec.nodeName`); empty if it is not bound.
pub(crate) fn node_name(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
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

/// Whether all claims of a pod are allocated and reserved for it, so that its containers can start.
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
            at(claim, &["status", "allocation"]).is_some()
                && reserved.iter().any(|user| text(user, &["uid"]) == uid(pod))
        })
    };
    pod_claims(pod).iter().all(ready)
}

/// The pods in `status.reservedFor` of a changed claim.
pub(crate) fn pods_reserving_claim(change: &ObjectChange) -> impl Iterator<Item = Key> + '_ {
    let reserved = change.after.iter().flat_map(|claim| list(claim, &["status", "reservedFor"]));
    reserved.map(|user| {
        key_of(
            &PODS,
            &json!({
                "metadata": {"namespace": &*change.key.namespace, "name": claim_entry_name(user)},
            }),
        )
    })
}

/// The taints of a node with the effect `NoExecute`, which evict pods.
pub(crate) fn no_execute_taints(node: &Value) -> impl Iterator<Item = &Value> {
    list(node, &["spec", "taints"]).iter().filter(|taint| text(taint, &["effect"]) == "NoExecute")
}
