//! Running pods that were taken away, as far as nobody but the tested scheduler had a reason to.
//! What was announced for all to hear is for the view to tell, and what steps took away by their
//! own hand for the world.
//!
//! It is cautious: wherever a controller may have had a reason, it had one. Left out are pods of
//! controllers of which the log does not tell; on a real cluster it tells of Jobs and PyTorchJobs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use schedlab_emulator::object::{is_deleting, list, text, uid};
use schedlab_emulator::store::{EventKind, LogEntry, Object};
use schedlab_json::Value;

use super::parts::reserves;
use crate::happenings::asked_to_leave;

/// How long after it took a pod a controller may say why: a Job that fails ends its pods first, and
/// watches of different kinds lag.
const AFTERTHOUGHT: SignedDuration = SignedDuration::from_secs(10);

/// Who wrote where nobody said who, as a scheduler in this process with a DELETE.
const NAMELESS: &str = "unknown";

/// Who made a change on a real cluster that nobody of ours made. Behind it may be anybody.
const ANYBODY: &str = "kube-controller-manager";

/// Reasons of the condition `DisruptionTarget` by which Kubernetes itself takes a pod away.
const KUBERNETES: [&str; 4] = [
    "DeletionByTaintManager",
    "DeletionByDeviceTaintManager",
    "DeletionByPodGC",
    "TerminationByKubelet",
];

/// Conditions of controllers that are no reason to end a pod.
const HARMLESS: [&str; 2] = ["Created", "Running"];

/// A pod that was taken away while it ran.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    /// The pod as it was last before that.
    pub(crate) pod: Object,
    /// When it was marked, in the API's form.
    pub(crate) marked: String,
    time: Timestamp,
    /// At which revision the pod came to be.
    born: u64,
    /// The scheduler did it, whoever else had a reason.
    certain: bool,
}

/// A node by its name or a controller by its uid.
type Concern = String;

/// What is known of departures until now.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// At which revision each pod that is there came to be, by uid.
    born: BTreeMap<String, u64>,
    /// Nodes on which pods may stay, and controllers that are there and not leaving.
    stand: BTreeSet<Concern>,
    /// When something happened to one of these for which pods may have to go.
    reasons: BTreeMap<Concern, Vec<(u64, Timestamp)>>,
    left: Vec<Departure>,
}

impl Departures {
    /// One write; `scheduler` is the name under which the tested one writes.
    pub(super) fn observe(&mut self, entry: &LogEntry, scheduler: &str) {
        match &*entry.key.resource.plural {
            "pods" => self.pod(entry, scheduler),
            "nodes" => self.stands(entry, &entry.key.name, may_keep_pods),
            "jobs" | "pytorchjobs" | "replicasets" | "statefulsets" => {
                self.stands(entry, uid(&entry.object), |owner| !is_deleting(owner));
                let before = entry.previous.as_deref();
                if before.is_some_and(|before| matter(before) != matter(&entry.object)) {
                    self.reason(uid(&entry.object), entry);
                }
            }
            _ => {}
        }
    }

    /// Pods that the scheduler took, and those that went without a reason though there was time to
    /// tell it.
    pub(super) fn unexplained(&self, now: Timestamp) -> impl Iterator<Item = &Departure> {
        let told = now.checked_sub(AFTERTHOUGHT).unwrap_or(Timestamp::MIN);
        self.left.iter().filter(move |departure| {
            departure.certain || (departure.time <= told && !self.is_explained(departure))
        })
    }

    fn pod(&mut self, entry: &LogEntry, scheduler: &str) {
        let pod = &*entry.object;
        let born = *self.born.entry(uid(pod).to_owned()).or_insert(entry.revision);
        let before = entry.previous.as_ref();
        if let Some(before) = before.filter(|before| is_running(before)) {
            // A pod that leaves and ends is no news; one that ends may be the end of others.
            if !is_running(pod)
                && !is_deleting(before)
                && let Some(owner) = owner(pod)
            {
                self.reason(owner, entry);
            }
            let certain = *entry.manager == *scheduler || *entry.manager == *NAMELESS;
            let may_be = certain || (*entry.manager == *ANYBODY && self.is_settled(before));
            if may_be && asked_to_leave(entry) && !reserves(pod) && !is_kubernetes_own(pod) {
                let (pod, time) = (before.clone(), entry.time);
                let marked = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                self.left.push(Departure { pod, marked, time, born, certain });
            }
        }
        if entry.kind == EventKind::Deleted {
            self.born.remove(uid(pod));
        }
    }

    /// Whether a pod's node and its controller, if it has one, are there and let it be.
    fn is_settled(&self, pod: &Value) -> bool {
        concerns(pod).all(|concern| self.stand.contains(concern))
    }

    /// Whether something happened while it lived, or soon after, for which it had to go.
    fn is_explained(&self, departure: &Departure) -> bool {
        let last = departure.time.checked_add(AFTERTHOUGHT).unwrap_or(Timestamp::MAX);
        let reasons = concerns(&departure.pod).filter_map(|concern| self.reasons.get(concern));
        reasons.flatten().any(|(revision, time)| *revision > departure.born && *time <= last)
    }

    /// Notes whether a node or a controller stands; that it does no more is a reason.
    fn stands(&mut self, entry: &LogEntry, concern: &str, stands: impl Fn(&Value) -> bool) {
        if entry.kind != EventKind::Deleted && stands(&entry.object) {
            self.stand.insert(concern.to_owned());
        } else if self.stand.remove(concern) {
            self.reason(concern, entry);
        }
    }

    fn reason(&mut self, concern: &str, entry: &LogEntry) {
        let reasons = self.reasons.entry(concern.to_owned()).or_default();
        reasons.push((entry.revision, entry.time));
    }
}

fn is_running(pod: &Value) -> bool {
    text(pod, &["status", "phase"]) == "Running" && !text(pod, &["spec", "nodeName"]).is_empty()
}

/// The uid of what made it.
fn owner(pod: &Value) -> Option<&str> {
    list(pod, &["metadata", "ownerReferences"]).first().map(|owner| text(owner, &["uid"]))
}

fn concerns(pod: &Value) -> impl Iterator<Item = &str> {
    owner(pod).into_iter().chain([text(pod, &["spec", "nodeName"])])
}

fn may_keep_pods(node: &Value) -> bool {
    !list(node, &["spec", "taints"]).iter().any(|taint| text(taint, &["effect"]) == "NoExecute")
}

/// What of a controller decides how many pods it wants. How many have ended is not of it: a Job
/// counts those that were deleted.
fn matter(owner: &Value) -> (&Value, Vec<&str>) {
    let status = owner.get("status").unwrap_or(&Value::Null);
    let holds = |condition: &&Value| text(condition, &["status"]) == "True";
    let conditions = list(status, &["conditions"]).iter().filter(holds);
    let names = conditions.map(|condition| text(condition, &["type"]));
    let names = names.filter(|name| !HARMLESS.contains(name)).collect();
    (owner.get("spec").unwrap_or(&Value::Null), names)
}

/// Whether Kubernetes itself said in the pod that it takes it away.
fn is_kubernetes_own(pod: &Value) -> bool {
    let conditions = list(pod, &["status", "conditions"]).iter();
    let mut disrupted = conditions.filter(|one| text(one, &["type"]) == "DisruptionTarget");
    disrupted.any(|one| KUBERNETES.contains(&text(one, &["reason"])))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use schedlab_emulator::store::{Key, Resource, Subresource};
    use schedlab_json::json;

    use super::*;

    const STEPS: &str = "schedlab";

    /// A log, told write by write, one a second.
    #[derive(Default)]
    struct Log {
        departures: Departures,
        objects: BTreeMap<Key, Object>,
        revision: u64,
    }

    impl Log {
        /// A cluster with node `n` and a job `j` on which pods `a` and `b` of it run, and `lone`.
        fn of_running_pods() -> Self {
            let mut log = Self::default();
            log.write(STEPS, "nodes", "n", json!({"spec": {"taints": []}}));
            log.write(STEPS, "jobs", "j", json!({"spec": {"parallelism": 2}}));
            for (name, owners) in [("a", json!([{"uid": "j"}])), ("b", json!([{"uid": "j"}]))] {
                log.write(ANYBODY, "pods", name, running(&owners));
            }
            log.write(STEPS, "pods", "lone", running(&json!([])));
            log
        }

        /// An object is so now, but for its name; `null`: it is gone.
        fn write(&mut self, by: &str, plural: &str, name: &str, mut object: Value) {
            self.revision += 1;
            let (namespace, name) = ("".into(), name.into());
            let key = Key { resource: Resource::new("", plural), namespace, name };
            let previous = self.objects.remove(&key);
            let kind = match (&previous, object.is_null()) {
                (_, true) => EventKind::Deleted,
                (None, false) => EventKind::Added,
                (Some(_), false) => EventKind::Modified,
            };
            if kind == EventKind::Deleted {
                object = Value::clone(previous.as_ref().expect("it was there"));
            }
            object["metadata"]["uid"] = json!(&*key.name);
            let object = Arc::new(object);
            if kind != EventKind::Deleted {
                self.objects.insert(key.clone(), object.clone());
            }
            let (revision, manager, part) = (self.revision, by.into(), Subresource::None);
            let time = self.now();
            let entry = LogEntry { revision, time, kind, key, object, previous, manager, part };
            self.departures.observe(&entry, "kai-scheduler");
        }

        /// A pod is asked to leave.
        fn delete(&mut self, by: &str, name: &str) {
            let pod = self.objects.iter().find(|(key, _)| *key.name == *name);
            let mut pod = Value::clone(pod.expect("it is there").1);
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.write(by, "pods", name, pod);
        }

        fn now(&self) -> Timestamp {
            Timestamp::from_second(i64::try_from(self.revision).unwrap()).unwrap()
        }

        /// Who went without a reason, a minute later.
        fn unexplained(&self) -> String {
            let later = self.now() + SignedDuration::from_mins(1);
            let names = self.departures.unexplained(later).map(|departure| uid(&departure.pod));
            names.collect::<Vec<_>>().join(" ")
        }
    }

    fn running(owners: &Value) -> Value {
        json!({"metadata": {"ownerReferences": owners}, "spec": {"nodeName": "n"},
               "status": {"phase": "Running"}})
    }

    /// Who is told of when pods `a`, of a job, and `lone` are deleted after this happened.
    fn told_after(what: impl Fn(&mut Log)) -> String {
        let mut log = Log::of_running_pods();
        what(&mut log);
        log.delete(ANYBODY, "a");
        log.delete(ANYBODY, "lone");
        log.unexplained()
    }

    #[test]
    fn who_is_deleted_while_nothing_happened_to_node_and_controller_went_without_a_reason() {
        assert_eq!(told_after(|_| {}), "a lone");
    }

    #[test]
    fn what_steps_and_known_controllers_delete_is_their_own_affair() {
        let mut log = Log::of_running_pods();
        log.delete(STEPS, "lone");
        log.delete("pytorchjob-controller", "a");
        assert_eq!(log.unexplained(), "");
    }

    #[test]
    fn what_the_scheduler_deletes_needs_no_other_reason_to_be_ruled_out() {
        let mut log = Log::of_running_pods();
        log.write(STEPS, "jobs", "j", Value::Null);
        log.delete("kai-scheduler", "a");
        log.delete(NAMELESS, "lone");
        assert_eq!(log.unexplained(), "a lone");
    }

    #[test]
    fn a_controller_that_goes_shrinks_or_ends_had_a_reason() {
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
            let change = |log: &mut Log| log.write(ANYBODY, "jobs", "j", now.clone());
            assert_eq!(told_after(change), "lone", "{now}");
        }
        let counted = job(same(), json!({"failed": 1, "active": 2}));
        assert_eq!(told_after(|log| log.write(ANYBODY, "jobs", "j", counted.clone())), "a lone");
    }

    #[test]
    fn a_pod_of_the_same_controller_that_failed_may_be_the_reason() {
        let mut failed = running(&json!([{"uid": "j"}]));
        failed["status"]["phase"] = json!("Failed");
        assert_eq!(told_after(|log| log.write("kubelet", "pods", "b", failed.clone())), "lone");
    }

    #[test]
    fn a_controller_may_say_why_after_it_has_deleted_and_not_much_later() {
        let say = |writes_between: u64| {
            let mut log = Log::of_running_pods();
            log.delete(ANYBODY, "a");
            log.revision += writes_between;
            log.write(ANYBODY, "jobs", "j", json!({"spec": {"parallelism": 1}}));
            log.unexplained()
        };
        assert_eq!(say(1), "");
        assert_eq!(say(30), "a");
    }

    #[test]
    fn a_node_that_is_gone_or_drives_pods_away_is_a_reason() {
        let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
        assert_eq!(told_after(|log| log.write(STEPS, "nodes", "n", tainted.clone())), "");
        assert_eq!(told_after(|log| log.write(STEPS, "nodes", "n", Value::Null)), "");
        let cordoned = json!({"spec": {"unschedulable": true}});
        assert_eq!(told_after(|log| log.write(STEPS, "nodes", "n", cordoned.clone())), "a lone");
    }

    #[test]
    fn what_happened_before_a_pod_was_born_does_not_concern_it() {
        let mut log = Log::of_running_pods();
        log.write(STEPS, "jobs", "j", json!({"spec": {"parallelism": 3}}));
        log.write(ANYBODY, "pods", "c", running(&json!([{"uid": "j"}])));
        log.delete(ANYBODY, "c");
        assert_eq!(log.unexplained(), "c");
    }

    #[test]
    fn who_did_not_run_was_not_taken_away() {
        let mut log = Log::of_running_pods();
        let mut pending = running(&json!([]));
        pending["status"]["phase"] = json!("Pending");
        log.write(STEPS, "pods", "waits", pending);
        log.delete("kai-scheduler", "waits");
        log.delete("kai-scheduler", "lone");
        log.write("kubelet", "pods", "lone", Value::Null);
        assert_eq!(log.unexplained(), "lone", "once, though it was marked and then went");
    }

    #[test]
    fn pods_of_unknown_controllers_and_those_that_kubernetes_disrupts_are_left_out() {
        let mut log = Log::of_running_pods();
        log.write(ANYBODY, "pods", "strange", running(&json!([{"uid": "nobody"}])));
        let mut drained = running(&json!([]));
        let why = json!({"type": "DisruptionTarget", "reason": "DeletionByPodGC"});
        drained["status"]["conditions"] = json!([why]);
        log.write(STEPS, "pods", "drained", drained);
        log.delete(ANYBODY, "strange");
        log.delete(ANYBODY, "drained");
        assert_eq!(log.unexplained(), "");
    }
}
