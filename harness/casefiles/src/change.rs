//! What changed in a cluster while it was captured: how it got where it is.

use std::sync::Arc;

use schedlab_api::{Value, object};
use serde::{Deserialize, Serialize};

/// A change of an object that a capture saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// When the capture saw it, in RFC 3339 format.
    pub at: String,
    /// What happened.
    pub event: ChangeEvent,
    /// Name of the array of the object's kind.
    pub array: String,
    /// The object after the change; of a deleted one the last state.
    pub object: Arc<Value>,
}

/// What happened to an object. A change that is several of these is the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeEvent {
    /// The object was created.
    Created,
    /// The object was removed.
    Removed,
    /// A pod was evicted: it has the condition `DisruptionTarget`.
    Evicted,
    /// The deletion of the object was requested.
    Deleted,
    /// A pod was bound to a node.
    Bound,
    /// A pod started to run.
    Started,
    /// A pod ended with success.
    Succeeded,
    /// A pod failed.
    Failed,
    /// Another field that decisions depend on changed.
    Changed,
}

impl ChangeEvent {
    /// What a change from one state of an object to another is; `None` if decisions do not depend on
    /// it.
    pub fn between(array: &str, before: &Value, after: &Value) -> Option<Self> {
        let differs = |path: &[&str]| object::at(before, path) != object::at(after, path);
        let is_new = |is_it: &dyn Fn(&Value) -> bool| is_it(after) && !is_it(before);
        if array == "pods" {
            let is_evicted =
                |pod: &Value| object::condition(pod, "DisruptionTarget") == Some("True");
            let is_bound = |pod: &Value| !object::text(pod, &["spec", "nodeName"]).is_empty();
            let phase = object::text(after, &["status", "phase"]);
            return if is_new(&is_evicted) {
                Some(Self::Evicted)
            } else if is_new(&object::is_deleting) {
                Some(Self::Deleted)
            } else if is_new(&is_bound) {
                Some(Self::Bound)
            } else if differs(&["status", "phase"]) {
                match phase {
                    "Running" => Some(Self::Started),
                    "Succeeded" => Some(Self::Succeeded),
                    "Failed" => Some(Self::Failed),
                    _ => Some(Self::Changed),
                }
            } else {
                let is_other = differs(&["spec"]) || differs(&["metadata", "annotations"]);
                is_other.then_some(Self::Changed)
            };
        }
        if is_new(&object::is_deleting) {
            return Some(Self::Deleted);
        }
        let metadata = [&["metadata", "labels"][..], &["metadata", "annotations"]];
        // Statuses of queues and pod groups are reports; those of nodes and claims are facts.
        let is_report = ["queues", "podGroups", "bindRequests"].contains(&array);
        let status = if array == "nodes" {
            differs(&["status", "allocatable"])
                || object::condition(before, "Ready") != object::condition(after, "Ready")
        } else {
            !is_report && differs(&["status"])
        };
        let is_other = status
            || metadata.iter().any(|path| differs(path))
            || before.as_object().zip(after.as_object()).is_some_and(|(before, after)| {
                after.iter().any(|(field, value)| {
                    !["metadata", "status"].contains(&field.as_str())
                        && before.get(field.as_str()) != Some(value)
                })
            });
        is_other.then_some(Self::Changed)
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_change_is_told_by_what_decisions_depend_on() {
        let pod = |node: &str, phase: &str, condition: &str| {
            json!({ "spec": { "nodeName": node },
                    "status": { "phase": phase, "conditions": [{ "type": condition, "status": "True" }] } })
        };
        let between = |before: &Value, after: &Value| ChangeEvent::between("pods", before, after);
        let (waiting, bound) = (pod("", "Pending", "x"), pod("n1", "Pending", "x"));
        let (running, evicted) =
            (pod("n1", "Running", "x"), pod("n1", "Running", "DisruptionTarget"));
        assert_eq!(between(&waiting, &bound), Some(ChangeEvent::Bound));
        assert_eq!(between(&bound, &running), Some(ChangeEvent::Started));
        assert_eq!(between(&running, &evicted), Some(ChangeEvent::Evicted));
        assert_eq!(between(&waiting, &pod("", "Pending", "PodScheduled")), None);
        let queue = |quota: u32, used: u32| json!({ "spec": { "quota": quota }, "status": { "used": used } });
        let of_queue = |before, after| ChangeEvent::between("queues", &before, &after);
        assert_eq!(of_queue(queue(1, 0), queue(1, 1)), None);
        assert_eq!(of_queue(queue(1, 0), queue(2, 0)), Some(ChangeEvent::Changed));
    }
}
