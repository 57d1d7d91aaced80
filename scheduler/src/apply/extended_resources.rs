//! Claims for extended resources that devices serve: created, and named in the status of the pod,
//! when the pod gets a node without a device plugin for them. The next cycle allocates them like
//! other claims of the pod, and binds it.

use std::collections::BTreeSet;

use schedlab_api::{json, labels};
use schedlab_scheduler_core::{
    Decision,
    model::{PodGroupId, PodId},
};

use super::{
    Applier, Cycle, fnv1a_hash,
    writes::{OnSuccess, Request, Write, WriteSequence},
};
use crate::{
    api::{PatchKind, object_path},
    cache::ClusterCache,
    dra::ExtendedResourceClaim,
    records::ObjectKey,
    watch::Kind,
};

/// Marks the claim of a pod for its extended resources.
const EXTENDED_RESOURCE_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// Maximum length of a generated name without its suffix.
const GENERATED_BASE_MAX: usize = 58;

impl Applier {
    /// Creates the claims. Returns the groups of their pods, which are not bound now.
    pub(super) async fn create_extended_resource_claims(
        &mut self,
        cache: &mut ClusterCache,
        cycle: &Cycle<'_>,
    ) -> BTreeSet<Option<PodGroupId>> {
        let mut groups = BTreeSet::new();
        let mut chains = Vec::new();
        for decision in &cycle.plan.decisions {
            let Decision::Bind { pod, node } = decision else { continue };
            let Some(record) = cache.pods.get(&cycle.key(*pod)) else { continue };
            let node = &cycle.snapshot.nodes[node.0 as usize];
            let Some(claim) = cache.resource_claims.extended_resource_claim(record, node) else {
                continue;
            };
            groups.insert(cycle.group(*pod));
            chains.push(creation(cache, cycle, *pod, &claim));
        }
        self.write(cache, chains).await;
        self.outcome.retry |= !groups.is_empty();
        groups
    }
}

/// Creates the claim, unless that was done, and names it in the status of the pod.
fn creation(
    cache: &ClusterCache,
    cycle: &Cycle<'_>,
    pod: PodId,
    claim: &ExtendedResourceClaim,
) -> WriteSequence {
    let key = cycle.key(pod);
    let uid = &cycle.snapshot.pods[pod.0 as usize].uid;
    let base: String =
        format!("{}-extended-resources-", key.name).chars().take(GENERATED_BASE_MAX).collect();
    let name = format!("{base}{:05x}", fnv1a_hash(&[uid]) & 0xf_ffff);
    let mut metadata = json!({
        "name": name, "namespace": &*key.namespace,
        "annotations": { (EXTENDED_RESOURCE_CLAIM): "true" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": &*key.name,
                              "uid": &**uid, "controller": true }],
    });
    let queue = cache.pods.get(&key).and_then(|pod| pod.labels.get(labels::QUEUE));
    if let Some(queue) = queue {
        metadata["labels"] = json!({ (labels::QUEUE): &**queue });
    }
    let object = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": { "devices": { "requests": claim.requests } },
    });
    let status = json!({ "status": { "extendedResourceClaimStatus": {
        "requestMappings": claim.mappings, "resourceClaimName": name,
    } } });
    let claim_key = ObjectKey { namespace: key.namespace.clone(), name: name.into() };
    let is_there = cache.resource_claims.claims.contains_key(&claim_key);
    let create = (!is_there).then(|| Write {
        request: Request::Create {
            path: object_path("resource.k8s.io/v1", &key.namespace, "resourceclaims", ""),
            object,
        },
        on_success: OnSuccess::Observed(Kind::ResourceClaim),
    });
    let of_pod = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
    let named = Write::patch(Kind::Pod, of_pod, PatchKind::Merge, status);
    create.into_iter().chain([named]).collect()
}
