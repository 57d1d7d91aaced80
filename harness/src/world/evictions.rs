//! Who was evicted: whom schedulers told of, and who was taken away without a word.

use std::collections::BTreeSet;

use schedlab_emulator::object::{name, namespace, uid};
use schedlab_json::Value;

use super::World;
use crate::audit::Departure;

impl World {
    /// Running pods that were deleted though nothing announced it, no step did it, and no
    /// controller had a reason to.
    pub(crate) fn unannounced(&self) -> Vec<Departure> {
        let unexplained = self.audit.iter().flat_map(|audit| audit.unexplained(self.cluster.now()));
        let mut found: Vec<Departure> =
            unexplained.filter(|departure| !self.was_deleted_by_step(&departure.pod)).collect();
        if !found.is_empty() {
            let told = self.view.evictions(&[]);
            let told: BTreeSet<&str> = told.iter().map(|eviction| eviction.uid).collect();
            found.retain(|departure| !told.contains(uid(&departure.pod)));
        }
        found
    }

    /// A step deletes what is at this path in the API, or has it evicted.
    pub(crate) fn note_deleted(&mut self, path: &str) {
        self.deleted.insert(path.to_owned());
    }

    /// Whether a step deleted a pod of this name, or its namespace. What it deleted else, as an
    /// owner, is in the log.
    fn was_deleted_by_step(&self, pod: &Value) -> bool {
        let home = format!("/api/v1/namespaces/{}", namespace(pod));
        let path = format!("{home}/pods/{}", name(pod));
        self.deleted.contains(&home) || self.deleted.contains(&path)
    }
}
