//! Running pods that were deleted although only the scheduler under test had a reason to. Announced
//! evictions are found elsewhere (`observed`), and steps exclude the deletions that they request
//! themselves (`world`).
//!
//! The check is conservative: a deletion counts as explained wherever a controller may have had a
//! reason. Pods of controllers that the log does not contain are left out; on a real cluster it
//! contains Jobs and PyTorchJobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use schedlab_api::{
    Value, conditions,
    object::{is_deleting, list, text, uid},
};

use crate::{
    change::requests_deletion,
    views::is_reservation_pod,
    write::{Object, Write, WriteKind},
};

/// How long after a deletion a controller may still write its reason: a failing Job deletes its
/// pods first, and watches of different kinds lag.
const EXPLANATION_WINDOW: SignedDuration = SignedDuration::from_secs(10);

/// The field manager that is assumed for a write without one, for example a DELETE request of a
/// scheduler in this process.
const UNKNOWN_MANAGER: &str = "unknown";

/// The field manager that is assumed for changes on a real cluster that no client of this program
/// made. The true writer is unknown.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

/// Reasons of the condition `DisruptionTarget` with which Kubernetes itself deletes a pod.
const KUBERNETES_REASONS: [&str; 4] = [
    conditions::DELETION_BY_TAINT_MANAGER,
    "DeletionByDeviceTaintManager",
    conditions::DELETION_BY_POD_GC,
    "TerminationByKubelet",
];

/// Pod conditions set by controllers that are no reason to delete a pod.
const HARMLESS_CONDITIONS: [&str; 2] = ["Created", "Running"];

/// The deletion of a running pod.
#[derive(Clone, Debug)]
pub struct PodDeletion {
    /// The pod in its last state before the deletion was requested.
    pub pod: Object,
    /// Time at which the deletion was requested, in the format of the Kubernetes API.
    pub requested_at: String,
    time: Timestamp,
    /// The revision at which the pod was created.
    created_revision: u64,
    /// Whether the scheduler requested the deletion.
    is_by_scheduler: bool,
}

/// The name of a node, or the uid of a controller, on which pods depend.
type DependencyKey = String;

/// The pod deletions observed so far, and possible reasons for them.
#[derive(Debug, Default)]
pub(super) struct PodDeletions {
    /// The revision at which each existing pod was created, by uid.
    created_revisions: BTreeMap<String, u64>,
    /// Nodes on which pods may stay, and controllers that exist and are not being deleted; pods
    /// that depend on these need not be deleted.
    stable: BTreeSet<DependencyKey>,
    /// By node or controller: revision and time of each change that may require the deletion of its
    /// pods.
    explanations: BTreeMap<DependencyKey, Vec<(u64, Timestamp)>>,
    deletions: Vec<PodDeletion>,
}

impl PodDeletions {
    /// Observes one write; `scheduler` is the field manager of the scheduler under test.
    pub(super) fn observe_write(&mut self, write: &Write, scheduler: &str) {
        match &*write.key.plural {
            "pods" => self.observe_pod(write, scheduler),
            "nodes" => self.track_stability(write, &write.key.name, node_may_keep_pods),
            "jobs" | "pytorchjobs" | "replicasets" | "statefulsets" => {
                self.track_stability(write, uid(&write.object), |owner| !is_deleting(owner));
                let before = write.previous.as_deref();
                if before
                    .is_some_and(|before| desired_state(before) != desired_state(&write.object))
                {
                    self.record_explanation(uid(&write.object), write);
                }
            }
            _ => {}
        }
    }

    /// Deletions that the scheduler requested, and those for which no reason appeared in time.
    pub(super) fn unexplained_deletions(
        &self,
        now: Timestamp,
    ) -> impl Iterator<Item = &PodDeletion> {
        let deadline = now.checked_sub(EXPLANATION_WINDOW).unwrap_or(Timestamp::MIN);
        self.deletions.iter().filter(move |deletion| {
            deletion.is_by_scheduler || (deletion.time <= deadline && !self.is_explained(deletion))
        })
    }

    fn observe_pod(&mut self, write: &Write, scheduler: &str) {
        let pod = &*write.object;
        let created_revision =
            *self.created_revisions.entry(uid(pod).to_owned()).or_insert(write.revision);
        let before = write.previous.as_ref();
        if let Some(before) = before.filter(|before| is_running(before)) {
            // A pod that ends while it is being deleted explains nothing; one that ends by itself
            // may require the end of its siblings.
            if !is_running(pod)
                && !is_deleting(before)
                && let Some(owner) = controller_uid(pod)
            {
                self.record_explanation(owner, write);
            }
            let is_by_scheduler =
                *write.manager == *scheduler || *write.manager == *UNKNOWN_MANAGER;
            let is_possible = is_by_scheduler
                || (*write.manager == *CONTROLLER_MANAGER && self.is_undisturbed(before));
            if is_possible
                && requests_deletion(write)
                && !is_reservation_pod(pod)
                && !is_kubernetes_disruption(pod)
            {
                let (pod, time) = (before.clone(), write.time);
                let requested_at = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                self.deletions.push(PodDeletion {
                    pod,
                    requested_at,
                    time,
                    created_revision,
                    is_by_scheduler,
                });
            }
        }
        if write.kind == WriteKind::Delete {
            self.created_revisions.remove(uid(pod));
        }
    }

    /// Whether the pod's node and its controller (if any) exist and let the pod run.
    fn is_undisturbed(&self, pod: &Value) -> bool {
        node_and_controller(pod).all(|concern| self.stable.contains(concern))
    }

    /// Whether the node or controller of the pod changed, during the pod's life or soon after, so
    /// that the pod had to be deleted.
    fn is_explained(&self, deletion: &PodDeletion) -> bool {
        let last = deletion.time.checked_add(EXPLANATION_WINDOW).unwrap_or(Timestamp::MAX);
        let reasons =
            node_and_controller(&deletion.pod).filter_map(|concern| self.explanations.get(concern));
        reasons
            .flatten()
            .any(|(revision, time)| *revision > deletion.created_revision && *time <= last)
    }

    /// Records whether a node or controller (`dependency`) is stable; losing stability is a reason
    /// for deletions of its pods.
    fn track_stability(
        &mut self,
        write: &Write,
        dependency: &str,
        is_stable: impl Fn(&Value) -> bool,
    ) {
        if write.kind != WriteKind::Delete && is_stable(&write.object) {
            self.stable.insert(dependency.to_owned());
        } else if self.stable.remove(dependency) {
            self.record_explanation(dependency, write);
        }
    }

    fn record_explanation(&mut self, dependency: &str, write: &Write) {
        let reasons = self.explanations.entry(dependency.to_owned()).or_default();
        reasons.push((write.revision, write.time));
    }
}

fn is_running(pod: &Value) -> bool {
    text(pod, &["status", "phase"]) == "Running" && !text(pod, &["spec", "nodeName"]).is_empty()
}

/// The uid of the pod's controller.
fn controller_uid(pod: &Value) -> Option<&str> {
    list(pod, &["metadata", "ownerReferences"]).first().map(|owner| text(owner, &["uid"]))
}

fn node_and_controller(pod: &Value) -> impl Iterator<Item = &str> {
    controller_uid(pod).into_iter().chain([text(pod, &["spec", "nodeName"])])
}

fn node_may_keep_pods(node: &Value) -> bool {
    !list(node, &["spec", "taints"]).iter().any(|taint| text(taint, &["effect"]) == "NoExecute")
}

/// The part of a controller's object that determines how many pods the controller needs. The number
/// of ended pods is not part of it: a Job also counts deleted pods.
fn desired_state(controller: &Value) -> (&Value, Vec<&str>) {
    let status = controller.get("status").unwrap_or(&Value::Null);
    let holds = |condition: &&Value| text(condition, &["status"]) == "True";
    let conditions = list(status, &["conditions"]).iter().filter(holds);
    let names = conditions.map(|condition| text(condition, &["type"]));
    let names = names.filter(|name| !HARMLESS_CONDITIONS.contains(name)).collect();
    (controller.get("spec").unwrap_or(&Value::Null), names)
}

/// Whether a pod condition says that Kubernetes itself requested the deletion.
fn is_kubernetes_disruption(pod: &Value) -> bool {
    let conditions = list(pod, &["status", "conditions"]).iter();
    let mut disrupted =
        conditions.filter(|one| text(one, &["type"]) == conditions::DISRUPTION_TARGET);
    disrupted.any(|one| KUBERNETES_REASONS.contains(&text(one, &["reason"])))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use schedlab_api::json;

    use super::*;
    use crate::write::ObjectKey;

    const STEPS_MANAGER: &str = "schedlab";

    /// A log with one write per second.
    #[derive(Default)]
    struct Log {
        deletions: PodDeletions,
        objects: BTreeMap<ObjectKey, Object>,
        revision: u64,
    }

    impl Log {
        /// A cluster with node `n`, job `j` with its running pods `a` and `b`, and the running pod
        /// `lone`.
        fn with_running_pods() -> Self {
            let mut log = Self::default();
            log.write(STEPS_MANAGER, "nodes", "n", json!({"spec": {"taints": []}}));
            log.write(STEPS_MANAGER, "jobs", "j", json!({"spec": {"parallelism": 2}}));
            for (name, owners) in [("a", json!([{"uid": "j"}])), ("b", json!([{"uid": "j"}]))] {
                log.write(CONTROLLER_MANAGER, "pods", name, running(&owners));
            }
            log.write(STEPS_MANAGER, "pods", "lone", running(&json!([])));
            log
        }

        /// Writes an object under a name; `null` deletes it.
        fn write(&mut self, by: &str, plural: &str, name: &str, mut object: Value) {
            self.revision += 1;
            let (group, plural, namespace) = ("".into(), plural.into(), "".into());
            let key = ObjectKey { group, plural, namespace, name: name.into() };
            let previous = self.objects.remove(&key);
            let kind = match (&previous, object.is_null()) {
                (_, true) => WriteKind::Delete,
                (None, false) => WriteKind::Create,
                (Some(_), false) => WriteKind::Update,
            };
            if kind == WriteKind::Delete {
                object = Value::clone(previous.as_ref().expect("the object exists"));
            }
            object["metadata"]["uid"] = json!(&*key.name);
            let object = Arc::new(object);
            if kind != WriteKind::Delete {
                self.objects.insert(key.clone(), object.clone());
            }
            let (revision, manager) = (self.revision, by.into());
            let time = self.now();
            let write = Write { revision, time, kind, key, object, previous, manager };
            self.deletions.observe_write(&write, "kai-scheduler");
        }

        /// Requests the deletion of a pod.
        fn delete(&mut self, by: &str, name: &str) {
            let pod = self.objects.iter().find(|(key, _)| *key.name == *name);
            let mut pod = Value::clone(pod.expect("the pod exists").1);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.write(by, "pods", name, pod);
        }

        fn now(&self) -> Timestamp {
            Timestamp::from_second(i64::try_from(self.revision).unwrap()).unwrap()
        }

        /// The unexplained deletions a minute later.
        fn unexplained(&self) -> String {
            let later = self.now() + SignedDuration::from_mins(1);
            let names =
                self.deletions.unexplained_deletions(later).map(|deletion| uid(&deletion.pod));
            names.collect::<Vec<_>>().join(" ")
        }
    }

    fn running(owners: &Value) -> Value {
        json!({"metadata": {"ownerReferences": owners}, "spec": {"nodeName": "n"},
               "status": {"phase": "Running"}})
    }

    /// The unexplained deletions if pods `a`, of a job, and `lone` are deleted after this change.
    fn unexplained_after(what: impl Fn(&mut Log)) -> String {
        let mut log = Log::with_running_pods();
        what(&mut log);
        log.delete(CONTROLLER_MANAGER, "a");
        log.delete(CONTROLLER_MANAGER, "lone");
        log.unexplained()
    }

    #[test]
    fn a_deletion_without_changes_of_node_and_controller_is_unexplained() {
        assert_eq!(unexplained_after(|_| {}), "a lone");
    }

    #[test]
    fn deletions_by_steps_and_known_controllers_are_explained() {
        let mut log = Log::with_running_pods();
        log.delete(STEPS_MANAGER, "lone");
        log.delete("pytorchjob-controller", "a");
        assert_eq!(log.unexplained(), "");
    }

    #[test]
    fn deletions_by_the_scheduler_are_always_unexplained() {
        let mut log = Log::with_running_pods();
        log.write(STEPS_MANAGER, "jobs", "j", Value::Null);
        log.delete("kai-scheduler", "a");
        log.delete(UNKNOWN_MANAGER, "lone");
        assert_eq!(log.unexplained(), "a lone");
    }

    #[test]
    fn deletion_scaling_and_failure_of_a_controller_are_reasons() {
        let job = |spec: Value, status: Value| json!({"spec": spec, "status": status});
        let suspended = json!({"parallelism": 2, "suspend": true});
        let failed = json!({"conditions": [{"type": "FailureTarget", "status": "True"}]});
        let same = || json!({"parallelism": 2});
        for now in [
            Value::Null,
            job(json!({"parallelism": 1}), json!({})),
            job(suspended, json!({})),
            job(same(), failed),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": same()}),
        ] {
            let change = |log: &mut Log| log.write(CONTROLLER_MANAGER, "jobs", "j", now.clone());
            assert_eq!(unexplained_after(change), "lone", "{now}");
        }
        let counted = job(same(), json!({"failed": 1, "active": 2}));
        assert_eq!(
            unexplained_after(|log| log.write(CONTROLLER_MANAGER, "jobs", "j", counted.clone())),
            "a lone"
        );
    }

    #[test]
    fn failure_of_a_sibling_is_a_reason() {
        let mut failed = running(&json!([{"uid": "j"}]));
        failed["status"]["phase"] = json!("Failed");
        assert_eq!(
            unexplained_after(|log| log.write("kubelet", "pods", "b", failed.clone())),
            "lone"
        );
    }

    #[test]
    fn a_controller_may_write_the_reason_soon_after_the_deletion() {
        let say = |writes_between: u64| {
            let mut log = Log::with_running_pods();
            log.delete(CONTROLLER_MANAGER, "a");
            log.revision += writes_between;
            log.write(CONTROLLER_MANAGER, "jobs", "j", json!({"spec": {"parallelism": 1}}));
            log.unexplained()
        };
        assert_eq!(say(1), "");
        assert_eq!(say(30), "a");
    }

    #[test]
    fn deletion_and_no_execute_taints_of_a_node_are_reasons() {
        let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        assert_eq!(
            unexplained_after(|log| log.write(STEPS_MANAGER, "nodes", "n", tainted.clone())),
            ""
        );
        assert_eq!(
            unexplained_after(|log| log.write(STEPS_MANAGER, "nodes", "n", Value::Null)),
            ""
        );
        let cordoned = json!({"spec": {"unschedulable": true}});
        assert_eq!(
            unexplained_after(|log| log.write(STEPS_MANAGER, "nodes", "n", cordoned.clone())),
            "a lone"
        );
    }

    #[test]
    fn changes_before_a_pod_was_created_are_no_reason() {
        let mut log = Log::with_running_pods();
        log.write(STEPS_MANAGER, "jobs", "j", json!({"spec": {"parallelism": 3}}));
        log.write(CONTROLLER_MANAGER, "pods", "c", running(&json!([{"uid": "j"}])));
        log.delete(CONTROLLER_MANAGER, "c");
        assert_eq!(log.unexplained(), "c");
    }

    #[test]
    fn deletions_of_pods_that_did_not_run_are_ignored() {
        let mut log = Log::with_running_pods();
        let mut pending = running(&json!([]));
        pending["status"]["phase"] = json!("Pending");
        log.write(STEPS_MANAGER, "pods", "waits", pending);
        log.delete("kai-scheduler", "waits");
        log.delete("kai-scheduler", "lone");
        log.write("kubelet", "pods", "lone", Value::Null);
        assert_eq!(log.unexplained(), "lone", "once, though it was first marked and then deleted");
    }

    #[test]
    fn pods_of_unknown_controllers_and_kubernetes_disruptions_are_ignored() {
        let mut log = Log::with_running_pods();
        log.write(CONTROLLER_MANAGER, "pods", "strange", running(&json!([{"uid": "nobody"}])));
        let mut drained = running(&json!([]));
        let why = json!({"type": "DisruptionTarget", "reason": "DeletionByPodGC"});
        drained["status"]["conditions"] = json!([why]);
        log.write(STEPS_MANAGER, "pods", "drained", drained);
        log.delete(CONTROLLER_MANAGER, "strange");
        log.delete(CONTROLLER_MANAGER, "drained");
        assert_eq!(log.unexplained(), "");
    }
}
