//! What is asked of the binder, as a BindRequest says it.

use schedlab_scheduler_core::model::{GpuGroup, Labels, Name};
use serde_json::Value;

use crate::parse::{int32, list, name, strings, text, version};

/// A BindRequest.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) uid: Name,
    pub(super) version: u64,
    pub(super) pod: Name,
    /// Where the owner reference names it.
    pub(super) pod_uid: Option<Name>,
    pub(super) node: Name,
    /// `Regular` or `Fraction`.
    pub(super) resource_type: Name,
    /// The devices that the pod shares.
    pub(super) gpu_groups: Vec<GpuGroup>,
    /// Which part of each, with two decimals.
    pub(super) portion: Name,
    /// What the pod gets besides.
    pub(super) labels: Labels,
    /// It leaves resource claims to the binder.
    claims: usize,
    /// How many have failed.
    pub(super) attempts: i32,
    /// How many may be made.
    attempts_max: i32,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Succeeded,
    Failed,
}

impl Order {
    pub(super) fn read(object: &Value) -> Self {
        let part = |pointer| name(object, pointer).unwrap_or_else(|| "".into());
        let owners = list(object, "/metadata/ownerReferences").iter();
        let mut pods = owners.filter(|owner| owner["kind"] == "Pod");
        let groups = list(object, "/spec/selectedGPUGroups").iter().filter_map(Value::as_str);
        Self {
            uid: part("/metadata/uid"),
            version: version(object),
            pod: part("/spec/podName"),
            pod_uid: pods.find_map(|owner| name(owner, "/uid")),
            node: part("/spec/selectedNode"),
            resource_type: part("/spec/receivedResourceType"),
            gpu_groups: groups.map(GpuGroup::from).collect(),
            portion: part("/spec/receivedGPU/portion"),
            labels: strings(object, "/spec/labels"),
            claims: list(object, "/spec/resourceClaimAllocations").len(),
            attempts: int32(object, "/status/failedAttempts").unwrap_or(0),
            attempts_max: int32(object, "/spec/backoffLimit").unwrap_or(0),
            phase: match text(object, "/status/phase") {
                Some("Succeeded") => Phase::Succeeded,
                Some("Failed") => Phase::Failed,
                Some(_) | None => Phase::Pending,
            },
        }
    }

    /// There is something left to do.
    pub(super) fn is_open(&self) -> bool {
        match self.phase {
            Phase::Pending => true,
            Phase::Succeeded => false,
            Phase::Failed => self.attempts < self.attempts_max,
        }
    }

    /// What in it cannot be carried out, whatever the cluster looks like.
    pub(super) fn problem(&self, request: &str) -> Option<String> {
        let wrong =
            |field, found: &str, allowed| format!("{field}: found {found:?}, allowed: {allowed}");
        if *self.pod != *request {
            return Some(wrong("spec.podName", &self.pod, "the name of the request"));
        }
        if self.claims > 0 {
            let found = self.claims.to_string();
            let allowed = "none: a scheduler allocates claims before it asks for the binding";
            return Some(wrong("spec.resourceClaimAllocations", &found, allowed));
        }
        self.node.is_empty().then(|| wrong("spec.selectedNode", "", "the name of a node"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn open(limit: Option<i32>, phase: &str, attempts: i32) -> bool {
        let spec = json!({ "podName": "p", "selectedNode": "n", "backoffLimit": limit });
        let status = json!({ "phase": phase, "failedAttempts": attempts });
        Order::read(&json!({ "spec": spec, "status": status })).is_open()
    }

    #[test]
    fn a_request_is_open_until_it_succeeded_or_used_up_its_attempts() {
        assert!(open(None, "", 0) && open(None, "Pending", 0) && open(Some(3), "Failed", 2));
        assert!(!open(None, "Failed", 1) && !open(Some(3), "Failed", 3));
        assert!(!open(Some(3), "Succeeded", 0));
    }

    #[test]
    fn what_can_never_be_carried_out_is_told() {
        let problem = |spec| Order::read(&json!({ "spec": spec })).problem("p");
        assert_eq!(problem(json!({ "podName": "p", "selectedNode": "n" })), None);
        assert_eq!(
            problem(json!({ "podName": "q", "selectedNode": "n" })).unwrap(),
            "spec.podName: found \"q\", allowed: the name of the request"
        );
        assert_eq!(
            problem(json!({ "podName": "p", "resourceClaimAllocations": [{}] })).unwrap(),
            "spec.resourceClaimAllocations: found \"1\", allowed: none: a scheduler allocates claims before it asks for the binding"
        );
        assert_eq!(
            problem(json!({ "podName": "p" })).unwrap(),
            "spec.selectedNode: found \"\", allowed: the name of a node"
        );
    }
}
