//! What several controllers read from a pod and its node: phase, node, resource claims and taints.

use schedlab_api::{Value, json};

use super::resources::{PODS, RESOURCE_CLAIMS};
use crate::reconcile::{InformerCache, ObjectChange, key_of};
use crate::store::Key;
use schedlab_api::object::{at, list, namespace, text, uid};

/// `spec.nodeName`.
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

/// `spec.resourceClaims`.
pub(crate) fn pod_claims(pod: &Value) -> &[Value] {
    list(pod, &["spec", "resourceClaims"])
}

/// The name of an entry of `spec.resourceClaims` or its status.
pub(crate) fn entry_name(entry: &Value) -> &str {
    text(entry, &["name"])
}

/// Whether all claims of a pod are allocated and reserved for it, so that its containers can start.
pub(crate) fn are_claims_ready(pod: &Value, cache: &InformerCache) -> bool {
    let ready = |entry: &Value| {
        let own = entry_name(entry);
        let made = list(pod, &["status", "resourceClaimStatuses"]);
        let made = made.iter().find(|status| entry_name(status) == own).unwrap_or(entry);
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

/// The pods in `status.reservedFor` of a claim.
pub(crate) fn reserved_pods(change: &ObjectChange) -> impl Iterator<Item = Key> + '_ {
    let reserved = change.after.iter().flat_map(|claim| list(claim, &["status", "reservedFor"]));
    reserved.map(|user| {
        key_of(
            &PODS,
            &json!({
                "metadata": {"namespace": &*change.key.namespace, "name": entry_name(user)},
            }),
        )
    })
}

/// The taints of a node that evict pods.
pub(crate) fn no_execute_taints(node: &Value) -> impl Iterator<Item = &Value> {
    list(node, &["spec", "taints"]).iter().filter(|taint| text(taint, &["effect"]) == "NoExecute")
}
