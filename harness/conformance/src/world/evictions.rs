//! Evictions: those that the scheduler announced in an event, and running pods deleted without an
//! event.

use std::collections::BTreeSet;

use schedlab_api::{
    Value,
    object::{name, namespace, uid},
};
use schedlab_audit::PodDeletion;

use super::World;

impl World {
    /// Running pods that were deleted although no event announced it, no step deleted them and no
    /// controller did.
    pub(crate) fn unannounced_evictions(&self) -> Vec<PodDeletion> {
        let unexplained = self
            .audit
            .iter()
            .flat_map(|audit| audit.unexplained_deletions(self.cluster.cluster_time()));
        let mut found: Vec<PodDeletion> =
            unexplained.filter(|departure| !self.was_deleted_by_step(&departure.pod)).collect();
        if !found.is_empty() {
            let announced = self.view.all_evictions(&[]);
            let announced: BTreeSet<&str> = announced.iter().map(|eviction| eviction.uid).collect();
            found.retain(|departure| !announced.contains(uid(&departure.pod)));
        }
        found
    }

    /// Records that a step deletes or evicts the object at this API path.
    pub(crate) fn record_deletion_by_step(&mut self, path: &str) {
        self.deleted.insert(path.to_owned());
    }

    /// Whether a step deleted this pod or its namespace. A step that deletes an owner need not be
    /// recorded, because that deletion is visible in the log.
    fn was_deleted_by_step(&self, pod: &Value) -> bool {
        let home = format!("/api/v1/namespaces/{}", namespace(pod));
        let path = format!("{home}/pods/{}", name(pod));
        self.deleted.contains(&home) || self.deleted.contains(&path)
    }
}
