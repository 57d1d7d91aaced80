//! Resource claims in the cache: which nodes and pods a change of a claim affects.

use schedlab_scheduler_core::model::Name;

use super::ClusterCache;
use crate::{
    config::Flavor,
    dra::ClaimRecord,
    records::{ObjectKey, PodRecord},
};

impl ClusterCache {
    /// Sets how GPUs that are published as devices are accounted.
    pub(crate) fn with_flavor(mut self, flavor: Flavor) -> Self {
        self.flavor = flavor;
        self.resource_claims.set_flavor(flavor);
        self
    }

    pub(crate) fn upsert_claim(&mut self, key: &ObjectKey, record: ClaimRecord) {
        if let Some(known) = self.resource_claims.claims.get_mut(key) {
            if known.version > record.version {
                return;
            }
            known.version = record.version;
            if *known == record {
                return;
            }
        }
        let nodes = self.resource_claims.insert_claim(key, record);
        if self.resource_claims.is_stale() {
            self.mark_everything_changed();
        }
        for node in nodes {
            self.node_changed(node);
        }
        self.claim_changed(key);
    }

    pub(super) fn remove_claim(&mut self, key: &ObjectKey, version: u64) {
        if self.resource_claims.claims.get(key).is_some_and(|is| is.version <= version) {
            let nodes = self.resource_claims.forget_claim(key);
            for node in nodes {
                self.node_changed(node);
            }
            self.claim_changed(key);
        }
    }

    fn claim_changed(&mut self, key: &ObjectKey) {
        self.revision += 1;
        let pods = self.resource_claims.pods_of_claim(key, &self.pods);
        self.changes.pods.extend(pods);
    }

    /// Updates the claims that are reserved for the pod: whether a shared claim is left over
    /// depends on all pods that it is reserved for.
    pub(super) fn refresh_claims_of(&mut self, key: &ObjectKey, pod: &PodRecord) {
        for name in pod.claims.iter().filter_map(|one| one.claim.as_ref()) {
            let claim =
                ObjectKey { namespace: Name::clone(&key.namespace), name: Name::clone(name) };
            let is_shared = self
                .resource_claims
                .claims
                .get(&claim)
                .is_some_and(|claim| !claim.is_owned_by(&pod.uid));
            if is_shared {
                self.claim_changed(&claim);
            }
        }
    }

    /// Recomputes unused claims. Marks the nodes whose unused claims changed, and all nodes if the
    /// usage of multi-node devices changed.
    pub(crate) fn refresh_unused_claims(&mut self) {
        self.changes.nodes.extend(self.resource_claims.refresh_unused_claims(&self.pods));
        if self.resource_claims.refresh_multi_node_usage(&self.pods) {
            self.changes.nodes.extend(self.nodes.keys().cloned());
        }
    }
}
