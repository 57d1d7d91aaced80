//! What the API shows at one moment, as far as an upgrade may not change it.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_json::Value;

use crate::fields::{at, list, text};
use crate::view::{Kind, Phase, Pod, View};
use schedlab_emulator::quantity::thousandths;

/// A moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// By `namespace/name`.
    pub(super) pods: BTreeMap<String, PodState>,
    pub(super) queues: BTreeMap<String, QueueState>,
    /// By `namespace/name`.
    pub(super) groups: BTreeMap<String, GroupState>,
    /// GPUs by node.
    pub(super) nodes: BTreeMap<String, i128>,
    /// By node: labels, and what keeps pods away.
    pub(super) fleet: BTreeMap<String, Marks>,
}

/// What others read of an object beside its spec: `label app`, `finalizers` and the like.
pub(super) type Marks = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodState {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) phase: Phase,
    pub(super) group: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) gpu_milli: i128,
    pub(super) devices: Vec<String>,
    pub(super) marks: Marks,
    pub(super) restarts: i64,
    /// Why it failed.
    pub(super) reason: String,
    pub(super) waits: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupState {
    pub(super) uid: String,
    /// Smallest number of members.
    pub(super) least: usize,
    pub(super) spec: Value,
    pub(super) marks: Marks,
    /// The parts of its status in which something is said.
    pub(super) told: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueState {
    pub(super) uid: String,
    pub(super) spec: Value,
    pub(super) parent: String,
    /// `allocated`, `requested` and the like, without times.
    pub(super) status: BTreeMap<String, Value>,
}

impl PodState {
    pub(super) fn holds_room(&self) -> bool {
        !self.node.is_empty() && !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether it is told why it waits.
    pub(super) fn is_told(&self) -> bool {
        self.waits.as_ref().is_some_and(|why| !why.trim().is_empty())
    }
}

impl State {
    pub(super) fn of(view: &View) -> Self {
        let pods = view.pods().map(|pod| (format!("{}/{}", pod.namespace(), pod.name()), pod));
        let said = |object: &Value, at: &str| text(object, at).unwrap_or_default().to_owned();
        let named = |object: &Value| said(object, "/metadata/name");
        let group = |object: &Value| {
            let namespace = text(object, "/metadata/namespace").unwrap_or_default();
            (format!("{namespace}/{}", named(object)), group_state(object))
        };
        let node = |object: &Value| {
            let gpus = thousandths(&object["status"]["allocatable"]["nvidia.com/gpu"]);
            (named(object), gpus.unwrap_or(0))
        };
        Self {
            pods: pods.map(|(name, pod)| (name, pod_state(pod, view))).collect(),
            queues: view
                .all(Kind::Queues)
                .map(|queue| (named(queue), queue_state(queue)))
                .collect(),
            groups: view.all(Kind::PodGroups).map(group).collect(),
            nodes: view.all(Kind::Nodes).map(node).collect(),
            fleet: view.all(Kind::Nodes).map(|node| (named(node), node_marks(node))).collect(),
        }
    }

    /// Pods of a group.
    pub(super) fn members(&self, group: &str) -> impl Iterator<Item = &PodState> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group))
    }

    /// GPUs in thousandths that pods hold on a node.
    pub(super) fn held(&self, node: &str) -> i128 {
        let here = self.pods.values().filter(|pod| pod.node == node && pod.holds_room());
        here.map(|pod| pod.gpu_milli).sum()
    }

    /// Groups of more than one, and how many of them have to run.
    pub(super) fn gangs(&self) -> impl Iterator<Item = (&String, usize)> {
        let least = self.groups.iter().map(|(name, group)| (name, group.least));
        least.filter(|(_, least)| *least > 1)
    }

    /// How many pods of a group have a node.
    pub(super) fn bound(&self, group: &str) -> usize {
        self.members(group).filter(|pod| pod.holds_room()).count()
    }

    /// Nodes and GPUs that were given to more pods than they are enough for, pods for which there
    /// was no room, and why.
    pub(super) fn bound_twice(&self) -> Vec<(String, String)> {
        let full = self.nodes.iter().filter_map(|(node, has)| {
            let held = self.held(node);
            let (gpus, needed) = (has / 1000, held / 1000);
            let why = format!("{node} has {gpus} GPUs and pods that need {needed} are bound to it");
            (held > *has).then(|| (node.clone(), why))
        });
        let mut twice: Vec<_> = full.collect();
        let holders = self.pods.iter().filter(|(_, pod)| pod.holds_room());
        let held =
            holders.flat_map(|(name, pod)| pod.devices.iter().map(move |one| (name, pod, one)));
        let mut devices: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        twice.extend(held.filter_map(|(name, pod, device)| {
            let (node, other) = (&pod.node, devices.insert((&pod.node, device), name)?);
            let why = format!("GPU {device} of {node} is {other}'s and {name}'s");
            Some((format!("{node}/{device}"), why))
        }));
        // The kubelet refuses what does not fit.
        let refused = self.pods.iter().filter(|(_, pod)| {
            pod.phase == Phase::Failed
                && (pod.reason.starts_with("OutOf") || pod.reason.contains("Admission"))
        });
        twice.extend(refused.map(|(name, pod)| {
            (name.clone(), format!("{name} was bound without room: {}", words(pod)))
        }));
        twice
    }

    /// GPUs in thousandths that pods of a queue and of the queues below it hold.
    pub(super) fn charged(&self, queue: &str) -> i128 {
        let own = self.pods.values().filter(|pod| pod.queue.as_deref() == Some(queue));
        let own: i128 = own.filter(|pod| pod.holds_room()).map(|pod| pod.gpu_milli).sum();
        let below = self.queues.iter().filter(|(_, one)| one.parent == queue);
        own + below.map(|(name, _)| self.charged(name)).sum::<i128>()
    }

    /// Queues that use more than their limits, and how much.
    pub(super) fn over_limit(&self) -> Vec<(String, String)> {
        let mut over = Vec::new();
        for (name, queue) in &self.queues {
            let limit = at(&queue.spec, "/resources/gpu/limit").and_then(thousandths);
            let used = self.charged(name);
            // Below zero there is none.
            if let Some(limit) = limit.filter(|limit| 0 <= *limit && *limit < used) {
                let (limit, used) = (limit / 1000, used / 1000);
                let why = format!("queue {name} has a limit of {limit} GPUs and used {used}");
                over.push((name.clone(), why));
            }
        }
        over
    }
}

fn pod_state(pod: Pod<'_>, view: &View) -> PodState {
    let devices = text(pod.0, "/metadata/annotations/schedlab.dev~1gpu-devices");
    let devices =
        devices.into_iter().flat_map(|one| one.split(',')).map(|one| one.trim().to_owned());
    let restarts = list(pod.0, "/status/containerStatuses").iter();
    let restarts = restarts.filter_map(|one| one["restartCount"].as_i64()).sum();
    let group = pod.group(view).and_then(|group| text(group, "/metadata/name"));
    PodState {
        uid: text(pod.0, "/metadata/uid").unwrap_or_default().to_owned(),
        node: pod.node().to_owned(),
        phase: pod.phase(),
        group: group.map(|name| format!("{}/{name}", pod.namespace())),
        queue: pod.queue(view).map(str::to_owned),
        gpu_milli: pod.gpu_milli(),
        devices: devices.filter(|one| !one.is_empty()).collect(),
        marks: marks(pod.0),
        restarts,
        reason: text(pod.0, "/status/reason").unwrap_or_default().to_owned(),
        waits: pod.waiting_reason().map(str::to_owned),
    }
}

fn group_state(group: &Value) -> GroupState {
    let least = at(group, "/spec/minMember").and_then(Value::as_u64).unwrap_or(1);
    let told = at(group, "/status").and_then(Value::as_object);
    let told = told.into_iter().flat_map(|status| status.iter());
    let says = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    GroupState {
        uid: text(group, "/metadata/uid").unwrap_or_default().to_owned(),
        least: usize::try_from(least).unwrap_or(usize::MAX),
        spec: group["spec"].clone(),
        marks: marks(group),
        told: told.filter(|(_, value)| says(value)).map(|(part, _)| part.to_string()).collect(),
    }
}

/// What every write changes, and what names an object.
const OF_EVERY_WRITE: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "name", "namespace"];

/// All metadata that others read: each label and each annotation by itself.
fn marks(object: &Value) -> Marks {
    let all = object["metadata"].as_object().into_iter().flat_map(|all| all.iter());
    let mut marks = Marks::new();
    for (field, value) in all.filter(|(field, _)| !OF_EVERY_WRITE.contains(&field.as_str())) {
        let Some(word) = ["label", "annotation"].into_iter().find(|word| field.starts_with(word))
        else {
            marks.insert(field.to_string(), value.to_string());
            continue;
        };
        let each = value.as_object().into_iter().flat_map(|each| each.iter());
        marks.extend(each.map(|(key, value)| (format!("{word} {key}"), value.to_string())));
    }
    marks
}

/// What of a node decides who may be there. Annotations are heartbeats of those who run it, and
/// taints of this prefix tell how it is.
fn node_marks(node: &Value) -> Marks {
    let mut marks = marks(node);
    marks.retain(|mark, _| mark.starts_with("label "));
    let is_closed = at(node, "/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    if is_closed {
        marks.insert("unschedulable".to_owned(), "true".to_owned());
    }
    for taint in list(node, "/spec/taints") {
        let (key, effect) = (&taint["key"], &taint["effect"]);
        let (Some(key), Some(effect)) = (key.as_str(), effect.as_str()) else { continue };
        if !key.starts_with("node.kubernetes.io/") {
            let value = taint["value"].as_str().unwrap_or_default();
            marks.insert(format!("taint {key}:{effect}"), format!("{value:?}"));
        }
    }
    marks
}

fn queue_state(queue: &Value) -> QueueState {
    let counted = ["allocated", "allocatedNonPreemptible", "requested", "childQueues"];
    let status = counted.into_iter().filter_map(|field| {
        let value = at(queue, "/status")?.get(field)?.clone();
        Some((field.to_owned(), value))
    });
    QueueState {
        uid: text(queue, "/metadata/uid").unwrap_or_default().to_owned(),
        spec: queue["spec"].clone(),
        parent: text(queue, "/spec/parentQueue").unwrap_or_default().to_owned(),
        status: status.collect(),
    }
}

/// What is different, a line each: `-` before, `+` after.
pub(super) fn diff(before: &State, after: &State) -> Vec<String> {
    let pods = |state: &State| -> BTreeMap<String, String> {
        state.pods.iter().map(|(name, pod)| (format!("pod {name}"), words(pod))).collect()
    };
    let queues = |state: &State| -> BTreeMap<String, String> {
        let queue = |(name, queue): (&String, &QueueState)| {
            let gpus = |field: &str| {
                let amount = queue.status.get(field).map(|all| &all["nvidia.com/gpu"]);
                amount.and_then(Value::as_str).unwrap_or("0").to_owned()
            };
            let words =
                format!("{} GPUs allocated, {} requested", gpus("allocated"), gpus("requested"));
            (format!("queue {name}"), words)
        };
        state.queues.iter().map(queue).collect()
    };
    let mut lines = changed(&pods(before), &pods(after));
    lines.extend(changed(&queues(before), &queues(after)));
    lines
}

fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, was) in before {
        if after.get(name) != Some(was) {
            lines.push(format!("- {name}: {was}"));
            lines.extend(after.get(name).map(|is| format!("+ {name}: {is}")));
        }
    }
    let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
    lines.extend(new.map(|(name, is)| format!("+ {name}: {is}")));
    lines
}

pub(super) fn words(pod: &PodState) -> String {
    let place = if pod.node.is_empty() { String::new() } else { format!(" on {}", pod.node) };
    let why = if pod.reason.is_empty() { String::new() } else { format!(" ({})", pod.reason) };
    format!("{}{place}{why}", pod.phase)
}
