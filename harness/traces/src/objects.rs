//! Recorded pods from Kubernetes objects: pods as `kubectl get` prints them, what a capture saw of
//! them, and events.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schedlab_api::{Value, annotations, labels, object, quantity, resources};
use smol_str::SmolStr;

use crate::{
    numbers::{to_count, to_f64},
    pods::PodRecord,
};

/// Labels of the queue of a pod: KAI's, and that of older versions.
pub(crate) const QUEUE_LABELS: [&str; 2] = [labels::QUEUE, "runai/queue"];
/// Labels of the user of a pod.
pub(crate) const USER_LABELS: [&str; 2] = ["user", "kai.scheduler/user"];

/// The pods of a cluster, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct RecordedPods {
    by_key: BTreeMap<PodKey, PodRecord>,
    /// Pods of which only events are known.
    unknown: BTreeSet<PodKey>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PodKey {
    namespace: SmolStr,
    name: SmolStr,
    /// Two pods may have had the same name one after the other.
    uid: SmolStr,
}

impl RecordedPods {
    /// Adds a pod, or replaces what is known about it.
    pub fn add_pod(&mut self, pod: &Value) {
        let mut record = pod_record(pod);
        if let Some(known) = self.by_key.get(&key(pod)) {
            record.started = known.started.or(record.started);
            record.ended = record.ended.or(known.ended);
        }
        self.by_key.insert(key(pod), record);
    }

    /// Notes that a pod was gone at a time, in RFC 3339 format.
    pub fn end_pod(&mut self, pod: &Value, at: &str) {
        self.add_pod(pod);
        if let Some(record) = self.by_key.get_mut(&key(pod)) {
            record.ended = record.ended.or(seconds(at));
        }
    }

    /// Takes the times of an event of a pod: when it was bound, killed or evicted.
    pub fn add_event(&mut self, event: &Value) {
        let about = ["involvedObject", "regarding"];
        let Some(about) = about.iter().find_map(|field| object::field(event, field)) else {
            return;
        };
        if object::text(about, &["kind"]) != "Pod" {
            return;
        }
        let text = |field: &str| object::text(about, &[field]).into();
        let key = PodKey { namespace: text("namespace"), name: text("name"), uid: text("uid") };
        let times = ["eventTime", "lastTimestamp", "firstTimestamp"];
        let at = times.iter().find_map(|field| seconds(object::text(event, &[field])));
        let found = self.by_key.iter_mut().find(|(known, _)| {
            let is_same = known.namespace == key.namespace && known.name == key.name;
            is_same && (key.uid.is_empty() || known.uid.is_empty() || known.uid == key.uid)
        });
        let Some((_, pod)) = found else {
            self.unknown.insert(key);
            return;
        };
        match object::text(event, &["reason"]) {
            "Scheduled" | "Started" => pod.started = pod.started.or(at),
            "Killing" | "Evict" | "Evicted" | "Preempted" | "Completed" => {
                pod.ended = pod.ended.or(at);
            }
            _ => {}
        }
    }

    /// The pods, and how many pods are known by events only.
    pub fn finish(self) -> FinishedPods {
        FinishedPods {
            pods: self.by_key.into_values().collect(),
            known_by_events_only: self.unknown.len(),
        }
    }
}

/// Recorded pods.
#[derive(Clone, Debug)]
pub struct FinishedPods {
    /// The pods.
    pub pods: Vec<PodRecord>,
    /// Pods that only events name: their requests are not known.
    pub known_by_events_only: usize,
}

fn key(pod: &Value) -> PodKey {
    PodKey {
        namespace: object::namespace(pod).into(),
        name: object::name(pod).into(),
        uid: object::uid(pod).into(),
    }
}

fn seconds(text: &str) -> Option<f64> {
    let at: Timestamp = text.parse().ok()?;
    Some(to_f64(u64::try_from(at.as_millisecond()).ok()?) / 1000.0)
}

fn pod_record(pod: &Value) -> PodRecord {
    let label = |keys: &[&str]| -> SmolStr {
        keys.iter().find_map(|key| object::label(pod, key)).unwrap_or_default().into()
    };
    let owners = object::list(pod, &["metadata", "ownerReferences"]);
    let is_controller =
        |owner: &&Value| object::field(owner, "controller") == Some(&Value::Bool(true));
    let owner = owners.iter().find(is_controller).or(owners.first());
    let owner =
        |field: &str| -> SmolStr { owner.map_or("", |owner| object::text(owner, &[field])).into() };
    let class = label(&[labels::PRIORITY_CLASS]);
    let class = if class.is_empty() {
        object::text(pod, &["spec", "priorityClassName"]).into()
    } else {
        class
    };
    let mut record = PodRecord {
        namespace: object::namespace(pod).into(),
        name: object::name(pod).into(),
        created: seconds(object::text(pod, &["metadata", "creationTimestamp"])),
        started: start(pod),
        ended: end(pod),
        owner_kind: owner("kind"),
        owner_name: owner("name"),
        pod_group: object::annotation(pod, annotations::POD_GROUP_NAME).unwrap_or_default().into(),
        queue: label(&QUEUE_LABELS),
        user: label(&USER_LABELS),
        priority_class: class,
        cpu_milli: request(pod, "cpu"),
        memory_mib: request(pod, "memory") / 1000 / (1 << 20),
        gpus: request(pod, resources::GPU) / 1000,
        models: models(pod),
        ..PodRecord::default()
    };
    record.gpu_milli = record.gpus * 1000;
    set_share(&mut record, |name| object::annotation(pod, name));
    record
}

/// Sets the fraction or the memory of GPUs that annotations request.
pub(crate) fn set_share<'a>(
    record: &mut PodRecord,
    annotation: impl Fn(&'static str) -> Option<&'a str>,
) {
    let number = |name| annotation(name).and_then(|text| text.parse::<f64>().ok());
    let devices = number(annotations::GPU_FRACTION_NUM_DEVICES).map_or(1, to_count).max(1);
    if let Some(fraction) = number(annotations::GPU_FRACTION).filter(|part| *part > 0.0) {
        record.gpus = devices;
        record.gpu_milli = to_count(fraction * 1000.0).clamp(1, 1000) * devices;
    } else if let Some(memory) = number(annotations::GPU_MEMORY).filter(|memory| *memory > 0.0) {
        record.gpus = devices;
        record.gpu_milli = devices * 1000;
        record.gpu_memory_mib = to_count(memory);
    }
}

/// The request of all containers for a resource, in thousandths.
fn request(pod: &Value, resource: &str) -> u64 {
    let of_container = |container: &Value| {
        let of = |list| object::at(container, &["resources", list, resource]);
        let amount = of("requests").or(of("limits")).and_then(quantity::thousandths);
        u64::try_from(amount.unwrap_or_default()).unwrap_or_default()
    };
    object::list(pod, &["spec", "containers"]).iter().map(of_container).sum()
}

/// GPU models that the node selector or the required node affinity of a pod accept.
fn models(pod: &Value) -> Vec<SmolStr> {
    let selected = object::at(pod, &["spec", "nodeSelector", labels::GPU_PRODUCT]);
    if let Some(model) = selected.and_then(Value::as_str) {
        return vec![model.into()];
    }
    let required = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let expressions = object::list(pod, &required)
        .iter()
        .flat_map(|term| object::list(term, &["matchExpressions"]));
    let of_model = expressions.filter(|expression| {
        object::text(expression, &["key"]) == labels::GPU_PRODUCT
            && object::text(expression, &["operator"]) == "In"
    });
    let values = of_model.flat_map(|expression| object::list(expression, &["values"]));
    values.filter_map(Value::as_str).map(SmolStr::from).collect()
}

/// When the first container of a pod started; else when the kubelet took the pod.
fn start(pod: &Value) -> Option<f64> {
    let of_container = |container: &Value| {
        let states = ["running", "terminated"]
            .map(|state| seconds(object::text(container, &["state", state, "startedAt"])));
        states.into_iter().flatten().next()
    };
    let statuses = object::list(pod, &["status", "containerStatuses"]);
    let first = statuses.iter().filter_map(of_container).min_by(f64::total_cmp);
    first.or_else(|| seconds(object::text(pod, &["status", "startTime"])))
}

/// When the last container of an ended pod ended.
fn end(pod: &Value) -> Option<f64> {
    if !matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed") {
        return None;
    }
    let of_container = |container: &Value| {
        seconds(object::text(container, &["state", "terminated", "finishedAt"]))
    };
    let statuses = object::list(pod, &["status", "containerStatuses"]);
    let last = statuses.iter().filter_map(of_container).max_by(f64::total_cmp);
    last.or_else(|| {
        let conditions = object::list(pod, &["status", "conditions"]);
        let ready = conditions.iter().find(|found| object::text(found, &["type"]) == "Ready");
        ready.and_then(|ready| seconds(object::text(ready, &["lastTransitionTime"])))
    })
}
