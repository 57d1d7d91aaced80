//! Pods as steps refer to them, read from the raw objects.

use std::fmt;

use schedlab_api::{Value, annotations, labels, object, pointer as fields, resources};
use schedlab_audit::{pod_requests, unschedulable_message};

use super::{ObservedCluster, WatchedKind};

/// Label of the workload that a table row created.
pub(crate) const WORKLOAD_LABEL: &str = "schedlab.dev/workload";

/// Prefix of the scheduling gates with which Kueue queues pods. To the user, such a pod is pending
/// like any other.
const KUEUE_GATE_PREFIX: &str = "kueue.x-k8s.io/";

/// A pod, as the API returns it.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Value);

/// The phase of a pod, in the words of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Waits for a node.
    Pending,
    /// Waits for its scheduling gates.
    Gated,
    /// Has a node and has not started, or none of its containers runs until it is restarted.
    Starting,
    /// Runs.
    Running,
    /// Is being deleted.
    Terminating,
    /// Succeeded.
    Succeeded,
    /// Failed.
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
    pub fn uid(self) -> &'a str {
        self.text("/metadata/uid")
    }

    /// The path of the pod in the API.
    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace(), self.name())
    }

    /// `spec.nodeName`; empty before the pod is bound.
    pub fn node(self) -> &'a str {
        self.text("/spec/nodeName")
    }

    /// The pod's phase.
    pub fn phase(self) -> Phase {
        match self.text("/status/phase") {
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ if self.is_terminating() => Phase::Terminating,
            "Running" if !self.waits_for_restart() => Phase::Running,
            _ if !self.node().is_empty() => Phase::Starting,
            _ if self.is_gated() => Phase::Gated,
            _ => Phase::Pending,
        }
    }

    /// Whether it has started, and none of its containers runs: the kubelet will restart them.
    pub fn waits_for_restart(self) -> bool {
        let containers = fields::list(self.0, "/status/containerStatuses");
        self.text("/status/phase") == "Running"
            && !containers.is_empty()
            && containers.iter().all(|container| fields::at(container, "/state/running").is_none())
    }

    /// When its first container started to run, in the API's format; empty if it does not run.
    pub fn run_start(self) -> &'a str {
        self.text("/status/containerStatuses/0/state/running/startedAt")
    }

    /// How often the kubelet has restarted its containers.
    pub fn restart_count(self) -> u64 {
        let containers = fields::list(self.0, "/status/containerStatuses").iter();
        containers.filter_map(|container| container["restartCount"].as_u64()).sum()
    }

    /// Whether it has a scheduling gate that is not the queueing system's.
    fn is_gated(self) -> bool {
        let gates = fields::list(self.0, "/spec/schedulingGates");
        let name = |gate: &Value| gate["name"].as_str().unwrap_or_default().to_owned();
        gates.iter().any(|gate| !name(gate).starts_with(KUEUE_GATE_PREFIX))
    }

    /// Whether it occupies resources of its node.
    pub(crate) fn holds_resources(self) -> bool {
        !self.node().is_empty() && !matches!(self.phase(), Phase::Succeeded | Phase::Failed)
    }

    /// Whether its deletion was requested.
    pub(crate) fn is_terminating(self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// Requested GPUs, in thousandths.
    pub fn gpu_milli(self) -> i128 {
        self.requested(resources::GPU)
    }

    /// The effective request for a resource as Kubernetes computes it, in thousandths of the unit.
    pub fn requested(self, resource: &str) -> i128 {
        pod_requests(self.0).get(resource).copied().unwrap_or(0)
    }

    /// Why the scheduler reported it as unschedulable.
    pub fn unschedulable_message(self) -> Option<&'a str> {
        unschedulable_message(self.0)
    }

    /// The queue that is charged for it: that of its pod group, else that of its label.
    pub fn queue(self, view: &'a ObservedCluster) -> Option<&'a str> {
        let of_group = self.pod_group(view).and_then(|group| fields::text(group, "/spec/queue"));
        of_group.or_else(|| self.label(labels::QUEUE))
    }

    /// Its pod group, in the current or last state.
    pub fn pod_group(self, view: &'a ObservedCluster) -> Option<&'a Value> {
        let name = object::annotation(self.0, annotations::POD_GROUP_NAME)?;
        view.get_ever_seen(WatchedKind::PodGroups, self.namespace(), name)
    }

    /// Names with which schedulers refer to it: its own, its pod group's, its uid and its owners'
    /// uids.
    pub(crate) fn known_names(self) -> impl Iterator<Item = &'a str> {
        let owners = fields::list(self.0, "/metadata/ownerReferences").iter();
        let made_by = owners.filter_map(|owner| fields::text(owner, "/uid"));
        let group = object::annotation(self.0, annotations::POD_GROUP_NAME);
        let own = [Some(self.name()), group, fields::text(self.0, "/metadata/uid")];
        own.into_iter().flatten().chain(made_by)
    }

    /// Whether the pod belongs to the workload of this name and kind (`workload` is any kind): by
    /// the workload label, else by the owner's name, else by its own name.
    pub(crate) fn belongs_to(self, kind: &str, workload: &str) -> bool {
        let owner = fields::list(self.0, "/metadata/ownerReferences").first();
        let text = |field: &str| owner.and_then(|owner| fields::text(owner, field));
        let owner = text("/kind").zip(text("/name"));
        let makers: &[&str] = match kind {
            "job" | "jobset" | "trainjob" => &["Job"],
            "deployment" => &["ReplicaSet"],
            "statefulset" => &["StatefulSet"],
            "pytorchjob" => &["PyTorchJob"],
            "raycluster" => &["RayCluster"],
            "rayjob" => &["RayCluster", "Job"],
            // A leader owns its workers, through a StatefulSet with the original controller.
            "leaderworkerset" => &["LeaderWorkerSet", "Pod", "StatefulSet"],
            _ => &[],
        };
        let is_kind =
            makers.is_empty() || owner.is_some_and(|(owner_kind, _)| makers.contains(&owner_kind));
        let is_named = || match (self.label(WORKLOAD_LABEL), owner) {
            (Some(label), _) => label == workload,
            (None, Some((kind, name))) => {
                self.name() == workload || self.is_owned_through(kind, name, workload)
            }
            (None, None) => self.name() == workload,
        };
        is_kind && is_named()
    }

    /// The PodGroup of Kubernetes that it names.
    pub(crate) fn scheduling_group(self) -> Option<&'a str> {
        fields::text(self.0, "/spec/schedulingGroup/podGroupName")
    }

    /// Whether the owner is the workload of this name or was created for it.
    fn is_owned_through(self, kind: &str, name: &str, workload: &str) -> bool {
        let rest = name.strip_prefix(workload);
        let suffix = rest.and_then(|rest| rest.strip_prefix('-'));
        let of_set = || self.label(labels::JOB_SET_NAME) == Some(workload);
        let is_made = match kind {
            "ReplicaSet" => suffix.is_some_and(|hash| !hash.contains('-')),
            "Job" => suffix.is_some_and(|time| time.parse::<u64>().is_ok()) || of_set(),
            "StatefulSet" | "PyTorchJob" => false,
            _ => suffix.is_some(),
        };
        is_made || rest == Some("")
    }

    /// A label's value.
    pub(crate) fn label(self, key: &str) -> Option<&'a str> {
        object::label(self.0, key)
    }

    /// `status.startTime`, in the API's format, which sorts chronologically.
    pub(crate) fn start_time(self) -> &'a str {
        self.text("/status/startTime")
    }

    fn text(self, at: &str) -> &'a str {
        fields::text(self.0, at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    #[test]
    fn a_deleted_pod_is_terminating_until_it_ends() {
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
    fn a_pod_whose_containers_wait_for_a_restart_is_not_running() {
        let phase = |state: Value| {
            let containers = json!([{"restartCount": 1, "state": state}]);
            Pod(&json!({"spec": {"nodeName": "n"},
                        "status": {"phase": "Running", "containerStatuses": containers}}))
            .phase()
        };
        assert_eq!(phase(json!({"running": {}})), Phase::Running);
        assert_eq!(phase(json!({"waiting": {"reason": "CrashLoopBackOff"}})), Phase::Starting);
        assert_eq!(phase(json!({"terminated": {"exitCode": 1}})), Phase::Starting);
    }

    #[test]
    fn a_pod_gated_by_kueue_is_pending() {
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
    fn a_pod_belongs_to_the_workload_of_its_label_or_owner() {
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
        let labelled =
            json!({"metadata": {"name": "train-2-0", "labels": {WORKLOAD_LABEL: "train-2"}}});
        assert!(!Pod(&labelled).belongs_to("workload", "train"));
        assert!(!Pod(&labelled).belongs_to("workload", "train-2-0"));
        assert!(Pod(&labelled).belongs_to("workload", "train-2"));
    }

    #[test]
    fn a_pod_is_known_by_its_name_group_uid_and_owners() {
        let pod = json!({"metadata": {"name": "p", "uid": "u",
            "annotations": {"pod-group-name": "g"}, "ownerReferences": [{"uid": "o"}]}});
        assert_eq!(Pod(&pod).known_names().collect::<Vec<_>>(), ["p", "g", "u", "o"]);
    }
}
