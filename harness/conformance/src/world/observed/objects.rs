//! Pods as steps refer to them, read from the raw objects.

use std::fmt;

use schedlab_api::{Value, annotations, labels, object, pointer as fields, resources};
use schedlab_audit::{pod_requests, unschedulable_message};

use super::{ObservedCluster, WatchedKind};

pub(crate) use crate::schedulers::WORKLOAD_LABEL;

/// Prefix of the scheduling gates with which Kueue holds pods back. For users such a pod is pending
/// like any other.
const KUEUE_GATE_PREFIX: &str = "kueue.x-k8s.io/";

/// Annotation of pods that hold the place of a gang's pods: `YuniKorn` creates them and replaces
/// them. They belong to no workload of a scenario.
const PLACEHOLDER_ANNOTATION: &str = "internal.yunikorn.apache.org/placeholder";

/// A pod, as the API returns it.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a>(pub &'a Value);

/// The phase of a pod, in the words of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The pod waits for a node.
    Pending,
    /// The pod waits for the removal of its scheduling gates.
    Gated,
    /// The pod has a node, and either has not started or none of its containers runs until it is
    /// restarted.
    Starting,
    /// The pod runs.
    Running,
    /// The pod is being deleted.
    Terminating,
    /// The pod has succeeded.
    Succeeded,
    /// The pod has failed.
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
    /// The name of the pod.
    pub fn pod_name(self) -> &'a str {
        self.text_at("/metadata/name")
    }

    /// The namespace of the pod.
    pub fn pod_namespace(self) -> &'a str {
        self.text_at("/metadata/namespace")
    }

    /// The uid of the pod.
    pub fn uid(self) -> &'a str {
        self.text_at("/metadata/uid")
    }

    /// The path of the pod in the API.
    pub fn api_path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.pod_namespace(), self.pod_name())
    }

    /// The name of the pod's node; empty before the pod is bound.
    pub fn node_name(self) -> &'a str {
        self.text_at("/spec/nodeName")
    }

    /// The phase of the pod, in the words of steps.
    pub fn current_phase(self) -> Phase {
        match self.text_at("/status/phase") {
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            _ if self.is_terminating() => Phase::Terminating,
            "Running" if !self.waits_for_restart() => Phase::Running,
            _ if !self.node_name().is_empty() => Phase::Starting,
            _ if self.is_gated() => Phase::Gated,
            _ => Phase::Pending,
        }
    }

    /// Whether the pod has started and none of its containers runs, so that the kubelet will
    /// restart them.
    pub fn waits_for_restart(self) -> bool {
        let containers = fields::list(self.0, "/status/containerStatuses");
        self.text_at("/status/phase") == "Running"
            && !containers.is_empty()
            && containers.iter().all(|container| fields::at(container, "/state/running").is_none())
    }

    /// When the pod's first container started to run, as the API shows it; empty if the container
    /// does not run.
    pub fn first_container_start(self) -> &'a str {
        self.text_at("/status/containerStatuses/0/state/running/startedAt")
    }

    /// Why the pod failed, as the kubelet says in its status; empty if it says nothing.
    pub(crate) fn failure_reason(self) -> &'a str {
        let message = self.text_at("/status/message");
        if message.is_empty() { self.text_at("/status/reason") } else { message }
    }

    /// How often the kubelet has restarted containers of the pod.
    pub fn restart_count(self) -> u64 {
        let containers = fields::list(self.0, "/status/containerStatuses").iter();
        containers.filter_map(|container| container["restartCount"].as_u64()).sum()
    }

    /// Whether the pod has a scheduling gate that is not Kueue's.
    fn is_gated(self) -> bool {
        let gates = fields::list(self.0, "/spec/schedulingGates");
        let name = |gate: &Value| gate["name"].as_str().unwrap_or_default().to_owned();
        gates.iter().any(|gate| !name(gate).starts_with(KUEUE_GATE_PREFIX))
    }

    /// Whether the pod occupies resources of its node.
    pub(crate) fn holds_resources(self) -> bool {
        !self.node_name().is_empty()
            && !matches!(self.current_phase(), Phase::Succeeded | Phase::Failed)
    }

    /// Whether the deletion of the pod was requested.
    pub(crate) fn is_terminating(self) -> bool {
        !self.text_at("/metadata/deletionTimestamp").is_empty()
    }

    /// Whether a scheduler created the pod to hold the place of another.
    pub(crate) fn is_placeholder(self) -> bool {
        object::annotation(self.0, PLACEHOLDER_ANNOTATION) == Some("true")
    }

    /// The GPUs that the pod requests, in thousandths.
    pub fn gpu_milli(self) -> i128 {
        self.requested_milli(resources::GPU)
    }

    /// The effective request for a resource as Kubernetes computes it, in thousandths of the unit.
    pub fn requested_milli(self, resource: &str) -> i128 {
        pod_requests(self.0).get(resource).copied().unwrap_or(0)
    }

    /// Why the pod cannot be scheduled, as the scheduler reported it.
    pub fn unschedulable_message(self) -> Option<&'a str> {
        unschedulable_message(self.0)
    }

    /// The name of the queue that is charged for the pod: that of its pod group, else that of its
    /// label.
    pub fn queue_name(self, view: &'a ObservedCluster) -> Option<&'a str> {
        let of_group = self.pod_group(view).and_then(|group| fields::text(group, "/spec/queue"));
        of_group.or_else(|| self.label_value(labels::QUEUE))
    }

    /// The pod's pod group, in its current or last state.
    pub fn pod_group(self, view: &'a ObservedCluster) -> Option<&'a Value> {
        let name = object::annotation(self.0, annotations::POD_GROUP_NAME)?;
        view.get_ever_seen(WatchedKind::PodGroups, self.pod_namespace(), name)
    }

    /// The names by which schedulers refer to the pod: its own name, that of its pod group, its uid
    /// and the uids of its owners.
    pub(crate) fn known_names(self) -> impl Iterator<Item = &'a str> {
        let owners = fields::list(self.0, "/metadata/ownerReferences").iter();
        let made_by = owners.filter_map(|owner| fields::text(owner, "/uid"));
        let group = object::annotation(self.0, annotations::POD_GROUP_NAME);
        let own = [Some(self.pod_name()), group, fields::text(self.0, "/metadata/uid")];
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
        let is_named = || match (self.label_value(WORKLOAD_LABEL), owner) {
            (Some(label), _) => label == workload,
            (None, Some((kind, name))) => {
                self.pod_name() == workload || self.is_owned_through(kind, name, workload)
            }
            (None, None) => self.pod_name() == workload,
        };
        is_kind && is_named()
    }

    /// The PodGroup of Kubernetes that it names.
    pub(crate) fn scheduling_group(self) -> Option<&'a str> {
        fields::text(self.0, "/spec/schedulingGroup/podGroupName")
    }

    /// Whether the owner with this kind and name is the workload itself or was created for the
    /// workload.
    fn is_owned_through(self, kind: &str, name: &str, workload: &str) -> bool {
        let rest = name.strip_prefix(workload);
        let suffix = rest.and_then(|rest| rest.strip_prefix('-'));
        let of_set = || self.label_value(labels::JOB_SET_NAME) == Some(workload);
        let is_made = match kind {
            "ReplicaSet" => suffix.is_some_and(|hash| !hash.contains('-')),
            "Job" => suffix.is_some_and(|time| time.parse::<u64>().is_ok()) || of_set(),
            "StatefulSet" | "PyTorchJob" => false,
            _ => suffix.is_some(),
        };
        is_made || rest == Some("")
    }

    /// The value of a label of the pod.
    pub(crate) fn label_value(self, key: &str) -> Option<&'a str> {
        object::label(self.0, key)
    }

    /// The pod's `status.startTime`, in a format that sorts chronologically.
    pub(crate) fn start_time(self) -> &'a str {
        self.text_at("/status/startTime")
    }

    fn text_at(self, pointer: &str) -> &'a str {
        fields::text(self.0, pointer).unwrap_or_default()
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
            Pod(&pod).current_phase()
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
            .current_phase()
        };
        assert_eq!(phase(json!({"running": {}})), Phase::Running);
        assert_eq!(phase(json!({"waiting": {"reason": "CrashLoopBackOff"}})), Phase::Starting);
        assert_eq!(phase(json!({"terminated": {"exitCode": 1}})), Phase::Starting);
    }

    #[test]
    fn a_pod_gated_by_kueue_is_pending() {
        let pod = |gates: &[&str]| {
            let gates: Vec<Value> = gates.iter().map(|name| json!({"name": name})).collect();
            Pod(&json!({"spec": {"schedulingGates": gates}})).current_phase()
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
