//! Pods as steps speak of them, read from the raw objects.

use std::fmt;

use schedlab_emulator::object;
use schedlab_json::Value;

use super::{Kind, View};
use crate::audit::requests;
use crate::fields;
use crate::happenings::waiting_reason;

/// Label of the workload that a table made.
pub(crate) const WORKLOAD: &str = "schedlab.dev/workload";
/// Label of the queue.
pub(crate) const QUEUE: &str = "kai.scheduler/queue";

/// How the gates begin by which Kueue keeps the scheduler from a pod: to whoever submitted it, it
/// waits as any other.
const QUEUES_GATE: &str = "kueue.x-k8s.io/";

/// A pod.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Value);

/// Where a pod is in its life, in the words of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for a node.
    Pending,
    /// Waits for its scheduling gates.
    Gated,
    /// Has a node and has not started.
    Starting,
    /// Runs.
    Running,
    /// Was asked to leave and is still there.
    Terminating,
    /// Finished well.
    Succeeded,
    /// Finished badly.
    Failed,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Gated => "gated",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Terminating => "terminating",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        })
    }
}

impl<'a> Pod<'a> {
    /// `metadata.name`.
    pub fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    /// `metadata.namespace`.
    pub fn namespace(self) -> &'a str {
        self.text("/metadata/namespace")
    }

    /// `metadata.uid`.
    pub(super) fn uid(self) -> &'a str {
        self.text("/metadata/uid")
    }

    /// Its path in the API.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace(), self.name())
    }

    /// `spec.nodeName`, empty before it is bound.
    pub fn node(self) -> &'a str {
        self.text("/spec/nodeName")
    }

    /// Where it is in its life.
    pub fn phase(self) -> Phase {
        match self.text("/status/phase") {
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ if self.is_leaving() => Phase::Terminating,
            "Running" => Phase::Running,
            _ if !self.node().is_empty() => Phase::Starting,
            _ if self.is_gated() => Phase::Gated,
            _ => Phase::Pending,
        }
    }

    /// Whether somebody holds it back who is no scheduler.
    fn is_gated(self) -> bool {
        let gates = fields::list(self.0, "/spec/schedulingGates");
        let name = |gate: &Value| gate["name"].as_str().unwrap_or_default().to_owned();
        gates.iter().any(|gate| !name(gate).starts_with(QUEUES_GATE))
    }

    /// Whether it holds its node's resources.
    pub fn holds_room(self) -> bool {
        !self.node().is_empty() && !matches!(self.phase(), Phase::Succeeded | Phase::Failed)
    }

    /// Whether it was asked to leave.
    pub fn is_leaving(self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// GPUs that it asks for, in thousandths.
    pub fn gpu_milli(self) -> i128 {
        self.asked("nvidia.com/gpu")
    }

    /// What it asks for of a resource, as Kubernetes adds it up, in thousandths of the unit.
    pub fn asked(self, resource: &str) -> i128 {
        requests(self.0).get(resource).copied().unwrap_or(0)
    }

    /// Why the scheduler did not place it.
    pub fn waiting_reason(self) -> Option<&'a str> {
        waiting_reason(self.0)
    }

    /// The queue it is charged to: its group's, else its label's.
    pub fn queue(self, view: &'a View) -> Option<&'a str> {
        let of_group = self.group(view).and_then(|group| fields::text(group, "/spec/queue"));
        of_group.or_else(|| self.label(QUEUE))
    }

    /// Its pod group, as it is or was.
    pub fn group(self, view: &'a View) -> Option<&'a Value> {
        let name = object::annotation(self.0, "pod-group-name")?;
        view.at_ever(Kind::PodGroups, (self.namespace(), name))
    }

    /// Names by which schedulers speak of it: its own, its group's, and the ids of it and of what
    /// made it.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        let owners = fields::list(self.0, "/metadata/ownerReferences").iter();
        let made_by = owners.filter_map(|owner| fields::text(owner, "/uid"));
        let group = object::annotation(self.0, "pod-group-name");
        let own = [Some(self.name()), group, fields::text(self.0, "/metadata/uid")];
        own.into_iter().flatten().chain(made_by)
    }

    /// Whether it belongs to the workload of that kind (`workload`: of any) and name: by the label
    /// that tables give, else by its owner's name, else by its own.
    pub fn belongs_to(self, kind: &str, workload: &str) -> bool {
        let owner = fields::list(self.0, "/metadata/ownerReferences").first();
        let text = |field: &str| owner.and_then(|owner| fields::text(owner, field));
        let owner = text("/kind").zip(text("/name"));
        let maker = match kind {
            "job" | "jobset" | "trainjob" => Some("Job"),
            "deployment" => Some("ReplicaSet"),
            "statefulset" => Some("StatefulSet"),
            "pytorchjob" => Some("PyTorchJob"),
            _ => None,
        };
        let is_kind =
            maker.is_none_or(|maker| owner.is_some_and(|(owner_kind, _)| owner_kind == maker));
        let is_named = || match (self.label(WORKLOAD), owner) {
            (Some(label), _) => label == workload,
            (None, Some(owner)) => self.name() == workload || self.is_made_for(owner, workload),
            (None, None) => self.name() == workload,
        };
        is_kind && is_named()
    }

    /// Whether its owner is the workload of this name or was made for it.
    fn is_made_for(self, (kind, name): (&str, &str), workload: &str) -> bool {
        let rest = name.strip_prefix(workload);
        let suffix = rest.and_then(|rest| rest.strip_prefix('-'));
        let of_set = || self.label("jobset.sigs.k8s.io/jobset-name") == Some(workload);
        let is_made = match kind {
            "ReplicaSet" => suffix.is_some_and(|hash| !hash.contains('-')),
            "Job" => suffix.is_some_and(|time| time.parse::<u64>().is_ok()) || of_set(),
            "StatefulSet" | "PyTorchJob" => false,
            _ => suffix.is_some(),
        };
        is_made || rest == Some("")
    }

    /// A label's value.
    pub fn label(self, key: &str) -> Option<&'a str> {
        object::label(self.0, key)
    }

    /// When it started, in the API's form, which sorts.
    pub fn started(self) -> &'a str {
        self.text("/status/startTime")
    }

    fn text(self, at: &str) -> &'a str {
        fields::text(self.0, at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use schedlab_json::json;

    use super::*;

    #[test]
    fn a_pod_that_leaves_is_terminating_until_it_is_finished() {
        let pod = |phase: &str, leaving: bool| {
            let time = if leaving { json!("2026-01-01T00:00:00Z") } else { Value::Null };
            let pod = json!({"metadata": {"deletionTimestamp": time}, "spec": {"nodeName": "n"},
                             "status": {"phase": phase}});
            Pod(&pod).phase()
        };
        assert_eq!(pod("Running", true), Phase::Terminating);
        assert_eq!(pod("Running", false), Phase::Running);
        assert_eq!(pod("Pending", false), Phase::Starting);
        assert_eq!(pod("Succeeded", true), Phase::Succeeded);
    }

    #[test]
    fn a_pod_that_its_queue_holds_back_by_a_gate_is_pending() {
        let pod = |gates: &[&str]| {
            let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
            Pod(&json!({"spec": {"schedulingGates": gates}})).phase()
        };
        let both = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"];
        assert_eq!(pod(&both), Phase::Pending);
        assert_eq!(pod(&["kueue.x-k8s.io/admission", "schedlab.dev/gate"]), Phase::Gated);
        assert_eq!(pod(&["schedlab.dev/gate"]), Phase::Gated);
    }

    #[test]
    fn a_workload_owns_what_its_label_or_owner_says() {
        let owned = |kind: &str, owner: &str| {
            json!({"metadata": {"name": "train-2-0",
                "ownerReferences": [{"kind": kind, "name": owner}]}})
        };
        let belongs = |owner: (&str, &str), to: (&str, &str)| {
            Pod(&owned(owner.0, owner.1)).belongs_to(to.0, to.1)
        };
        assert!(belongs(("Job", "train-2"), ("job", "train-2")));
        assert!(belongs(("Job", "cron-29012"), ("workload", "cron")));
        assert!(belongs(("ReplicaSet", "web-5d9f"), ("deployment", "web")));
        assert!(!belongs(("Job", "train-large"), ("job", "train")));
        assert!(!belongs(("StatefulSet", "web-large"), ("workload", "web")));
        assert!(!belongs(("ReplicaSet", "web-5d9f"), ("job", "web")));
        let labelled = json!({"metadata": {"name": "train-2-0", "labels": {WORKLOAD: "train-2"}}});
        assert!(!Pod(&labelled).belongs_to("workload", "train"));
        assert!(!Pod(&labelled).belongs_to("workload", "train-2-0"));
        assert!(Pod(&labelled).belongs_to("workload", "train-2"));
    }

    #[test]
    fn schedulers_name_a_pod_its_group_or_its_owner() {
        let pod = json!({"metadata": {"name": "p", "uid": "u",
            "annotations": {"pod-group-name": "g"}, "ownerReferences": [{"uid": "o"}]}});
        assert_eq!(Pod(&pod).names().collect::<Vec<_>>(), ["p", "g", "u", "o"]);
    }
}
