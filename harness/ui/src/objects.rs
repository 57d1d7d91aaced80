//! The objects of a cluster at a revision, folded from the log of all writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use schedlab_api::Value;
use schedlab_emulator::store::{EventKind, LogEntry};

/// Namespace and name of an object. Objects of the cluster have an empty namespace.
pub type ObjectName = (Arc<str>, Arc<str>);

/// The objects that the page shows, by kind and name.
#[derive(Clone, Debug, Default)]
pub struct ObjectSet {
    /// The nodes.
    pub nodes: BTreeMap<ObjectName, Arc<Value>>,
    /// The pods.
    pub pods: BTreeMap<ObjectName, Arc<Value>>,
    /// The `PodGroup`s of KAI.
    pub pod_groups: BTreeMap<ObjectName, Arc<Value>>,
    /// The `Queue`s of KAI.
    pub queues: BTreeMap<ObjectName, Arc<Value>>,
}

impl ObjectSet {
    /// The objects after the last write whose revision is at most `revision`.
    ///
    /// `log` contains all writes from the first one on.
    pub fn at_revision(log: &[Arc<LogEntry>], revision: u64) -> Self {
        let mut objects = Self::default();
        let until = log.iter().take_while(|entry| entry.revision <= revision);
        until.for_each(|entry| objects.apply_entry(entry));
        objects
    }

    /// Applies one write.
    pub fn apply_entry(&mut self, entry: &LogEntry) {
        let Some(kind) = self.kind_mut(&entry.key.resource.group, &entry.key.resource.plural)
        else {
            return;
        };
        let name = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
        match entry.kind {
            EventKind::Added | EventKind::Modified => {
                kind.insert(name, Arc::clone(&entry.object));
            }
            EventKind::Deleted => {
                kind.remove(&name);
            }
        }
    }

    fn kind_mut(
        &mut self,
        group: &str,
        plural: &str,
    ) -> Option<&mut BTreeMap<ObjectName, Arc<Value>>> {
        match (group, plural) {
            ("", "nodes") => Some(&mut self.nodes),
            ("", "pods") => Some(&mut self.pods),
            ("scheduling.run.ai", "podgroups") => Some(&mut self.pod_groups),
            ("scheduling.run.ai", "queues") => Some(&mut self.queues),
            _ => None,
        }
    }
}
