//! What a person does to a cluster with kubectl, as steps of a feature: objects that are created,
//! deleted, scaled and changed, with the time between. Writes of controllers and schedulers are not
//! steps, as they happen again.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use jiff::Timestamp;
use schedlab_api::{Map, Value, annotations::LAST_APPLIED_CONFIGURATION, json, labels, object};

use crate::{doc_string::doc_string, pod_spec::is_default_toleration};

/// A write of a person.
#[derive(Clone, Debug)]
pub struct SessionWrite {
    /// When it was made.
    pub time: Timestamp,
    /// The object before; `None` if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; `None` if it was removed.
    pub after: Option<Arc<Value>>,
}

/// The steps of a session, in the order of the writes.
#[derive(Debug, Default)]
pub struct Session {
    steps: Vec<SessionStep>,
    last: Option<Timestamp>,
    /// Workloads that were submitted and not deleted: kind as a step writes it, and name.
    workloads: BTreeSet<(&'static str, String)>,
    /// What no step says.
    notes: Vec<String>,
}

#[derive(Debug)]
enum SessionStep {
    /// Objects that are applied together.
    Manifest(Vec<Value>),
    /// A step of one line.
    Line(String),
    /// So many seconds without a step.
    Pause(i64),
}

/// Kinds of workloads, as steps write them.
const WORKLOAD_KINDS: [(&str, &str); 11] = [
    ("Pod", "pod"),
    ("Job", "job"),
    ("Deployment", "deployment"),
    ("StatefulSet", "statefulset"),
    ("JobSet", "jobset"),
    ("TrainJob", "trainjob"),
    ("PyTorchJob", "pytorchjob"),
    ("RayCluster", "raycluster"),
    ("RayJob", "rayjob"),
    ("LeaderWorkerSet", "leaderworkerset"),
    ("PodGroup", "podgroup"),
];

/// Fields of a queue that a step changes, with their unit.
const QUEUE_FIELDS: [(&str, &str, f64); 9] = [
    ("quota", "/spec/resources/gpu/quota", 1.0),
    ("weight", "/spec/resources/gpu/overQuotaWeight", 1.0),
    ("limit", "/spec/resources/gpu/limit", 1.0),
    ("priority", "/spec/priority", 1.0),
    ("cpu quota", "/spec/resources/cpu/quota", 1000.0),
    ("cpu weight", "/spec/resources/cpu/overQuotaWeight", 1.0),
    ("cpu limit", "/spec/resources/cpu/limit", 1000.0),
    ("memory quota", "/spec/resources/memory/quota", 1000.0),
    ("memory limit", "/spec/resources/memory/limit", 1000.0),
];

/// Fields that the API server fills in, with the values that it gives them; null: any value.
const DEFAULTED: [(&str, &str); 27] = [
    ("backoffLimit", "6"),
    ("completionMode", "\"NonIndexed\""),
    ("dnsPolicy", "\"ClusterFirst\""),
    ("enableServiceLinks", "true"),
    ("imagePullPolicy", "null"),
    ("manualSelector", "false"),
    ("nodeName", "null"),
    ("podManagementPolicy", "\"OrderedReady\""),
    ("podReplacementPolicy", "null"),
    ("preemptionPolicy", "\"PreemptLowerPriority\""),
    ("priority", "null"),
    ("progressDeadlineSeconds", "600"),
    ("resources", "{}"),
    ("revisionHistoryLimit", "10"),
    ("securityContext", "{}"),
    ("serviceAccount", "\"default\""),
    ("serviceAccountName", "\"default\""),
    ("suspend", "false"),
    ("terminationGracePeriodSeconds", "30"),
    ("terminationMessagePath", "\"/dev/termination-log\""),
    ("terminationMessagePolicy", "\"File\""),
    ("creationTimestamp", "null"),
    ("strategy", "null"),
    ("updateStrategy", "null"),
    ("schedulerName", "\"default-scheduler\""),
    ("persistentVolumeClaimRetentionPolicy", "null"),
    ("restartPolicy", "\"Always\""),
];

impl Session {
    /// Adds the step that a write is.
    pub fn observe(&mut self, write: &SessionWrite) {
        match (&write.before, &write.after) {
            (None, None) => {}
            (None, Some(after)) => self.add_created(write.time, after),
            (Some(before), Some(after)) => self.add_changed(write.time, before, after),
            (Some(before), None) => {
                // A graceful deletion was a step when it was requested.
                if !object::is_deleting(before) {
                    self.add_deleted(write.time, before);
                }
            }
        }
    }

    /// What the steps do not say.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn add_created(&mut self, time: Timestamp, object: &Value) {
        if !is_recorded(object) {
            return;
        }
        self.add_pause(time);
        if let Some(kind) = workload_kind(object) {
            self.workloads.insert((kind, object::name(object).to_owned()));
        }
        self.add_manifest(submitted(object));
    }

    fn add_manifest(&mut self, manifest: Value) {
        match self.steps.last_mut() {
            Some(SessionStep::Manifest(all)) => all.push(manifest),
            _ => self.steps.push(SessionStep::Manifest(vec![manifest])),
        }
    }

    fn add_line(&mut self, time: Timestamp, line: String) {
        self.add_pause(time);
        self.steps.push(SessionStep::Line(line));
    }

    fn add_pause(&mut self, time: Timestamp) {
        let last = self.last.replace(time);
        let seconds = last.map_or(0, |last| time.as_second() - last.as_second());
        if seconds > 0 {
            self.steps.push(SessionStep::Pause(seconds));
        }
    }

    fn add_deleted(&mut self, time: Timestamp, object: &Value) {
        let name = object::name(object).to_owned();
        let kind = object::text(object, &["kind"]);
        let owner = object::list(object, &["metadata", "ownerReferences"]).first();
        match (workload_kind(object), kind, owner) {
            (Some("pod"), _, Some(owner)) => match owner_workload(owner) {
                Some(owner) => self.add_line(time, format!("1 pod of {owner} is deleted")),
                None => self.notes.push(format!("no step says that pod {name} is deleted")),
            },
            (Some(word), _, _) => {
                self.workloads.remove(&(word, name.clone()));
                self.add_line(time, format!("{word} \"{name}\" is deleted"));
            }
            (None, "Queue", _) => self.add_line(time, format!("queue \"{name}\" is deleted")),
            (None, "Node", _) => self.add_line(time, format!("node \"{name}\" is deleted")),
            (None, _, _) if is_recorded(object) => {
                self.notes.push(format!("no step says that {kind} {name} is deleted"));
            }
            (None, _, _) => {}
        }
    }

    fn add_changed(&mut self, time: Timestamp, before: &Value, after: &Value) {
        if object::is_deleting(after) {
            if !object::is_deleting(before) {
                self.add_deleted(time, before);
            }
            return;
        }
        if !is_recorded(after) {
            return;
        }
        let lines = lines_of_change(before, after);
        if !lines.is_empty() {
            for line in lines {
                self.add_line(time, line);
            }
            return;
        }
        let mut change = Map::new();
        for field in ["spec", "data", "value"] {
            if let Some(part) = difference(before.get(field), after.get(field)) {
                change.insert(field, part);
            }
        }
        let mut metadata = Map::new();
        for field in ["labels", "annotations"] {
            let part = |object: &Value| {
                let mut found =
                    object.pointer(&format!("/metadata/{field}")).cloned().unwrap_or(json!({}));
                object::remove(&mut found, &[LAST_APPLIED_CONFIGURATION]);
                found
            };
            if let Some(part) = difference(Some(&part(before)), Some(&part(after))) {
                metadata.insert(field, part);
            }
        }
        if change.is_empty() && metadata.is_empty() {
            return;
        }
        self.add_pause(time);
        let mut manifest = named(after);
        for (field, part) in &metadata {
            manifest["metadata"][field.as_str()] = part.clone();
        }
        for (field, part) in &change {
            manifest[field.as_str()] = part.clone();
        }
        self.add_manifest(manifest);
    }

    /// The feature: the background is `background`, and the claims are what the cluster shows now.
    pub fn feature(&self, title: &str, background: &str, now: &SessionEnd<'_>) -> String {
        let mut text = format!("Feature: {title}\n\n  Background:\n{background}\n");
        text.push_str("  Scenario: What was done with kubectl\n");
        let mut keyword = "When";
        for step in &self.steps {
            match step {
                SessionStep::Line(line) => {
                    let _ = writeln!(text, "    {keyword} {line}");
                }
                SessionStep::Pause(1) => {
                    let _ = writeln!(text, "    {keyword} 1 second passes");
                }
                SessionStep::Pause(seconds) => {
                    let _ = writeln!(text, "    {keyword} {seconds} seconds pass");
                }
                SessionStep::Manifest(objects) => {
                    let _ = writeln!(text, "    {keyword} this manifest is applied:");
                    text.push_str(&doc_string(objects));
                }
            }
            keyword = "And";
        }
        let mut keyword = "Then";
        let claims = self.workloads.iter().filter_map(|(kind, name)| now.claim(kind, name));
        for claim in claims {
            let _ = writeln!(text, "    {keyword} eventually within 10 minutes {claim}");
            keyword = "And";
        }
        text
    }
}

/// The nodes of a cluster as a step of a background.
pub fn nodes_step<'n>(nodes: impl Iterator<Item = &'n Value>) -> String {
    let manifests: Vec<Value> = nodes.map(plain_node).collect();
    if manifests.is_empty() {
        return String::new();
    }
    format!("    Given this manifest is applied:\n{}", doc_string(&manifests))
}

fn plain_node(node: &Value) -> Value {
    let mut plain = named(node);
    let own = object::map(node, &["metadata", "labels"]).into_iter().flatten();
    let own = own.filter(|(key, _)| key.as_str() != labels::HOSTNAME);
    plain["metadata"]["labels"] = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if let Some(taints) = node.pointer("/spec/taints") {
        plain["spec"]["taints"] = taints.clone();
    }
    let allocatable = object::at(node, &["status", "allocatable"]).cloned().unwrap_or_default();
    plain["status"] = json!({ "allocatable": allocatable, "capacity": allocatable });
    plain
}

/// The objects of a cluster at the end of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionEnd<'o> {
    /// All pods.
    pub pods: &'o [Arc<Value>],
    /// Objects that own pods and are owned themselves, such as replica sets.
    pub owners: &'o [Arc<Value>],
}

impl SessionEnd<'_> {
    /// How many pods of a workload run and wait, in the words of a step.
    fn claim(&self, kind: &str, name: &str) -> Option<String> {
        let pods = self.pods.iter().filter(|pod| {
            if kind == "pod" {
                object::name(pod) == name
            } else {
                self.is_owned(pod, kind, name, 4)
            }
        });
        let states: Vec<&str> = pods.filter_map(|pod| state(pod)).collect();
        let count_of = |state: &str| states.iter().filter(|it| **it == state).count();
        // In the order of the steps' words.
        let counts = ["running", "pending", "succeeded"].map(|state| (count_of(state), state));
        let parts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, state)| format!("{count} {state}")).collect();
        let total = states.len();
        let noun = if total == 1 { "pod" } else { "pods" };
        (total > 0).then(|| format!("{kind} \"{name}\" has {} {noun}", parts.join(" and ")))
    }

    fn is_owned(&self, object: &Value, kind: &str, name: &str, depth: usize) -> bool {
        object::list(object, &["metadata", "ownerReferences"]).iter().any(|owner| {
            let (of_kind, of_name) =
                (object::text(owner, &["kind"]), object::text(owner, &["name"]));
            let is_it = of_name == name && of_kind.eq_ignore_ascii_case(kind);
            let next = self.owners.iter().find(|it| {
                object::name(it) == of_name
                    && object::text(it, &["kind"]) == of_kind
                    && object::namespace(it) == object::namespace(object)
            });
            is_it
                || (depth > 0
                    && next.is_some_and(|next| self.is_owned(next, kind, name, depth - 1)))
        })
    }
}

/// The state of a pod, in the words of a step; `None` if it will change soon.
fn state(pod: &Value) -> Option<&'static str> {
    let is_waiting = object::text(pod, &["spec", "nodeName"]).is_empty();
    match object::text(pod, &["status", "phase"]) {
        "Running" => Some("running"),
        "Succeeded" => Some("succeeded"),
        "Pending" if is_waiting => Some("pending"),
        _ => None,
    }
}

fn workload_kind(object: &Value) -> Option<&'static str> {
    let kind = object::text(object, &["kind"]);
    WORKLOAD_KINDS.iter().find(|(known, _)| *known == kind).map(|(_, word)| *word)
}

/// The workload that owns a pod, in the words of a step.
fn owner_workload(owner: &Value) -> Option<String> {
    let (kind, name) = (object::text(owner, &["kind"]), object::text(owner, &["name"]));
    // A replica set of a deployment has its name and a hash.
    let (kind, name) = match name.rsplit_once('-') {
        Some((deployment, _)) if kind == "ReplicaSet" => ("Deployment", deployment),
        _ => (kind, name),
    };
    let word = WORKLOAD_KINDS.iter().find(|(known, _)| *known == kind).map(|(_, word)| *word)?;
    Some(format!("{word} \"{name}\""))
}

/// Whether a person's write of this kind is a step: events and leases are not.
fn is_recorded(object: &Value) -> bool {
    let kind = object::text(object, &["kind"]);
    !["Event", "Lease", "SelfSubjectAccessReview", "SelfSubjectReview"].contains(&kind)
}

/// Steps of one line that say a change; empty if there is none.
fn lines_of_change(before: &Value, after: &Value) -> Vec<String> {
    let name = object::name(after);
    let kind = object::text(after, &["kind"]);
    let changed = |pointer: &str| {
        let now = after.pointer(pointer);
        now.filter(|now| before.pointer(pointer) != Some(*now))
    };
    if kind == "Node"
        && before.pointer("/spec/unschedulable") != after.pointer("/spec/unschedulable")
    {
        let is_cordoned = after.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
        let verb = if is_cordoned { "cordoned" } else { "uncordoned" };
        return vec![format!("node \"{name}\" is {verb}")];
    }
    if kind == "Queue" {
        return queue_lines(name, &changed);
    }
    let Some(word) = workload_kind(after) else { return Vec::new() };
    let pointer = if kind == "Job" { "/spec/parallelism" } else { "/spec/replicas" };
    if let Some(count) = changed(pointer).and_then(Value::as_u64) {
        return vec![format!("{word} \"{name}\" is scaled to {count}")];
    }
    match changed("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => vec![format!("{word} \"{name}\" is suspended")],
        Some(false) => vec![format!("{word} \"{name}\" is resumed")],
        None => Vec::new(),
    }
}

fn queue_lines<'v>(name: &str, changed: &dyn Fn(&str) -> Option<&'v Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (field, pointer, unit) in QUEUE_FIELDS {
        if let Some(amount) = changed(pointer).and_then(Value::as_f64) {
            let amount =
                if amount < 0.0 { "unlimited".to_owned() } else { (amount / unit).to_string() };
            lines.push(format!("the {field} of queue \"{name}\" becomes {amount}"));
        }
    }
    if let Some(parent) = changed("/spec/parentQueue").and_then(Value::as_str) {
        lines.push(format!("queue \"{name}\" moves under \"{parent}\""));
    }
    lines
}

/// The parts of `after` that differ, as a merge patch; `None` if nothing does.
fn difference(before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    match (before, after) {
        (None, None) => None,
        (Some(_), None) => Some(Value::Null),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut changed = Map::new();
            for (field, value) in new {
                if let Some(part) = difference(old.get(field), Some(value)) {
                    changed.insert(field.clone(), part);
                }
            }
            for field in old.keys().filter(|field| !new.contains_key(field)) {
                changed.insert(field.clone(), Value::Null);
            }
            (!changed.is_empty()).then_some(Value::Object(changed))
        }
        (before, Some(after)) => (before != Some(after)).then(|| after.clone()),
    }
}

/// Kind, name and namespace of an object.
fn named(object: &Value) -> Value {
    let text = |field| object::text(object, &[field]);
    let mut named = json!({ "apiVersion": text("apiVersion"), "kind": text("kind"),
                            "metadata": { "name": object::name(object) } });
    let namespace = object::namespace(object);
    if !["", "default"].contains(&namespace) {
        named["metadata"]["namespace"] = json!(namespace);
    }
    named
}

/// The manifest from which an object was created: what `kubectl apply` noted, else the object without
/// what the API server fills in.
fn submitted(object: &Value) -> Value {
    let noted = object::annotation(object, LAST_APPLIED_CONFIGURATION);
    let noted: Option<Value> = noted.and_then(|text| serde_json::from_str(text).ok());
    let mut manifest = noted.unwrap_or_else(|| object.clone());
    let metadata = named(object);
    for field in ["labels", "annotations"] {
        let kept = manifest.pointer(&format!("/metadata/{field}")).cloned();
        manifest[field] = kept.unwrap_or_default();
    }
    let (own_labels, notes) = (manifest["labels"].take(), manifest["annotations"].take());
    object::remove(&mut manifest, &["labels"]);
    object::remove(&mut manifest, &["annotations"]);
    manifest["metadata"] = metadata["metadata"].clone();
    for (field, part) in [("labels", own_labels), ("annotations", notes)] {
        if part.as_object().is_some_and(|map| !map.is_empty()) {
            manifest["metadata"][field] = part;
        }
    }
    object::remove(&mut manifest, &["status"]);
    if object::text(object, &["kind"]) == "Job"
        && manifest
            .pointer("/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid")
            .is_some()
    {
        object::remove(&mut manifest, &["spec", "selector"]);
    }
    remove_defaults(&mut manifest);
    manifest
}

/// Removes fields with the values that the API server gives them.
fn remove_defaults(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|field, value| {
                let default = DEFAULTED.iter().find(|(known, _)| *known == field.as_str());
                let text = value.to_string();
                let is_default =
                    default.is_some_and(|(_, default)| *default == "null" || *default == text);
                let is_own = ["controller-uid", "job-name"]
                    .iter()
                    .any(|end| field.as_str().trim_start_matches("batch.kubernetes.io/") == *end);
                !is_default && !is_own
            });
            map.values_mut().for_each(remove_defaults);
            map.retain(|field, value| {
                !(field.as_str() == "tolerations" && value.as_array().is_some_and(Vec::is_empty))
            });
        }
        Value::Array(items) => {
            items.retain(|item| !is_default_toleration(item));
            items.iter_mut().for_each(remove_defaults);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    fn write(second: i64, before: Option<&Value>, after: Option<&Value>) -> SessionWrite {
        let shared = |value: Option<&Value>| value.cloned().map(Arc::new);
        SessionWrite { time: at(second), before: shared(before), after: shared(after) }
    }

    #[test]
    fn what_was_done_with_kubectl_becomes_steps() {
        let queue = |quota: u32| {
            json!({ "apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": { "name": "team" }, "spec": { "resources": { "gpu": { "quota": quota } } } })
        };
        let deployment = |replicas: u32| {
            json!({ "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "default", "uid": "1" },
            "spec": { "replicas": replicas, "revisionHistoryLimit": 10 }, "status": {} })
        };
        let node = |cordoned: bool| {
            json!({ "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "node-1" }, "spec": { "unschedulable": cordoned } })
        };
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web-7-x",
            "ownerReferences": [{ "kind": "ReplicaSet", "name": "web-7" }] },
            "status": { "phase": "Running" } });
        let set = json!({ "kind": "ReplicaSet", "metadata": { "name": "web-7",
            "ownerReferences": [{ "kind": "Deployment", "name": "web" }] } });
        let mut session = Session::default();
        for write in [
            write(0, None, Some(&queue(4))),
            write(0, None, Some(&deployment(1))),
            write(7, Some(&deployment(1)), Some(&deployment(3))),
            write(8, Some(&queue(4)), Some(&queue(8))),
            write(8, Some(&node(false)), Some(&node(true))),
            write(9, Some(&pod), None),
        ] {
            session.observe(&write);
        }
        let (pods, owners) = ([Arc::new(pod)], [Arc::new(set)]);
        let end = SessionEnd { pods: &pods, owners: &owners };
        let background = "    Given a fleet of 1 node with 8 GPUs each\n";
        let text = session.feature("A session", background, &end);
        let steps: Vec<&str> = text.lines().map(str::trim).collect();
        assert!(
            !steps.contains(&"revisionHistoryLimit: 10") && steps.contains(&"replicas: 1"),
            "{text}"
        );
        let at = steps.iter().position(|step| *step == "And 7 seconds pass");
        let rest = at.and_then(|at| steps.get(at..)).unwrap_or_default();
        assert_eq!(
            rest,
            [
                "And 7 seconds pass",
                "And deployment \"web\" is scaled to 3",
                "And 1 second passes",
                "And the quota of queue \"team\" becomes 8",
                "And node \"node-1\" is cordoned",
                "And 1 second passes",
                "And 1 pod of deployment \"web\" is deleted",
                "Then eventually within 10 minutes deployment \"web\" has 1 running pod",
            ]
        );
        assert!(session.notes().is_empty());
    }
}
