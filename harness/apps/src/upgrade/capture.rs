//! Captures the API objects that an upgrade must not change.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{
    Value, annotations,
    object::annotation,
    pointer::{at, list, text},
    quantity::thousandths,
    resources,
};

use schedlab_conformance::world::observed::{ObservedCluster, Phase, Pod, WatchedKind};

/// What the checks compare: pods, queues, pod groups and nodes at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterCapture {
    /// Pods by `namespace/name`.
    pub(super) pods: BTreeMap<String, PodState>,
    pub(super) queues: BTreeMap<String, QueueState>,
    /// Pod groups by `namespace/name`.
    pub(super) groups: BTreeMap<String, GroupState>,
    /// Allocatable GPUs by node, in thousandths.
    pub(super) nodes: BTreeMap<String, i128>,
    /// Labels, taints and cordon of each node.
    pub(super) node_metadata: BTreeMap<String, ObjectMetadata>,
}

/// Metadata of an object, keyed by its name, such as `label app` or `finalizers`.
pub(super) type ObjectMetadata = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodState {
    pub(super) uid: String,
    pub(super) node: String,
    pub(super) phase: Phase,
    pub(super) group: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) gpu_milli: i128,
    pub(super) devices: Vec<String>,
    pub(super) metadata: ObjectMetadata,
    pub(super) restarts: i64,
    /// `status.reason` of the pod.
    pub(super) reason: String,
    pub(super) pending_reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupState {
    pub(super) uid: String,
    /// `spec.minMember` of the pod group.
    pub(super) min_members: usize,
    pub(super) spec: Value,
    pub(super) metadata: ObjectMetadata,
    /// Names of the non-empty status fields of the pod group.
    pub(super) status_fields: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueueState {
    pub(super) uid: String,
    pub(super) spec: Value,
    pub(super) parent: String,
    /// The queue's status without timestamps: `allocated`, `requested` and the like.
    pub(super) status: BTreeMap<String, Value>,
}

impl PodState {
    pub(super) fn holds_room(&self) -> bool {
        !self.node.is_empty() && !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Whether the scheduler reported a pending reason for the pod.
    pub(super) fn has_pending_reason(&self) -> bool {
        self.pending_reason.as_ref().is_some_and(|why| !why.trim().is_empty())
    }
}

impl ClusterCapture {
    pub(super) fn from_view(view: &ObservedCluster) -> Self {
        let pods = view
            .current_pods()
            .map(|pod| (format!("{}/{}", pod.pod_namespace(), pod.pod_name()), pod));
        let string_at = |object: &Value, at: &str| text(object, at).unwrap_or_default().to_owned();
        let named = |object: &Value| string_at(object, "/metadata/name");
        let group = |object: &Value| {
            let namespace = text(object, "/metadata/namespace").unwrap_or_default();
            (format!("{namespace}/{}", named(object)), group_state(object))
        };
        let node = |object: &Value| {
            let gpus = thousandths(&object["status"]["allocatable"][resources::GPU]);
            (named(object), gpus.unwrap_or(0))
        };
        Self {
            pods: pods.map(|(name, pod)| (name, pod_state(pod, view))).collect(),
            queues: view
                .objects_of_kind(WatchedKind::Queues)
                .map(|queue| (named(queue), queue_state(queue)))
                .collect(),
            groups: view.objects_of_kind(WatchedKind::PodGroups).map(group).collect(),
            nodes: view.objects_of_kind(WatchedKind::Nodes).map(node).collect(),
            node_metadata: view
                .objects_of_kind(WatchedKind::Nodes)
                .map(|node| (named(node), node_metadata(node)))
                .collect(),
        }
    }

    /// Pods of a pod group.
    pub(super) fn pods_of_group(&self, group: &str) -> impl Iterator<Item = &PodState> {
        self.pods.values().filter(move |pod| pod.group.as_deref() == Some(group))
    }

    /// GPUs that pods hold on a node, in thousandths.
    pub(super) fn held_gpu_milli(&self, node: &str) -> i128 {
        let here = self.pods.values().filter(|pod| pod.node == node && pod.holds_room());
        here.map(|pod| pod.gpu_milli).sum()
    }

    /// Pod groups with a minimum of more than one pod, each with that minimum.
    pub(super) fn gangs_with_min_members(&self) -> impl Iterator<Item = (&String, usize)> {
        let least = self.groups.iter().map(|(name, group)| (name, group.min_members));
        least.filter(|(_, least)| *least > 1)
    }

    /// Number of pods of a pod group that have a node.
    pub(super) fn bound_member_count(&self, group: &str) -> usize {
        self.pods_of_group(group).filter(|pod| pod.holds_room()).count()
    }

    /// Double bindings, each with an explanation: overcommitted nodes, GPUs assigned to two pods,
    /// and pods that the kubelet rejected because their node was full.
    pub(super) fn double_bindings(&self) -> Vec<(String, String)> {
        let full = self.nodes.iter().filter_map(|(node, has)| {
            let held = self.held_gpu_milli(node);
            let (gpus, needed) = (has / 1000, held / 1000);
            let why =
                format!("node {node}: got pods that need {needed} GPUs, expected at most {gpus}");
            (held > *has).then(|| (node.clone(), why))
        });
        let mut twice: Vec<_> = full.collect();
        let holders = self.pods.iter().filter(|(_, pod)| pod.holds_room());
        let held =
            holders.flat_map(|(name, pod)| pod.devices.iter().map(move |one| (name, pod, one)));
        let mut devices: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        twice.extend(held.filter_map(|(name, pod, device)| {
            let (node, other) = (&pod.node, devices.insert((&pod.node, device), name)?);
            let why = format!("GPU {device} of node {node} is assigned to pods {other} and {name}");
            Some((format!("{node}/{device}"), why))
        }));
        // The kubelet rejects pods that do not fit.
        let refused = self.pods.iter().filter(|(_, pod)| {
            pod.phase == Phase::Failed
                && (pod.reason.starts_with("OutOf") || pod.reason.contains("Admission"))
        });
        twice.extend(refused.map(|(name, pod)| {
            (
                name.clone(),
                format!("pod {name} was bound to a node without room: {}", pod_summary(pod)),
            )
        }));
        twice
    }

    /// GPUs that pods of a queue and of its descendants hold, in thousandths.
    pub(super) fn used_gpu_milli_of_queue(&self, queue: &str) -> i128 {
        let own = self.pods.values().filter(|pod| pod.queue.as_deref() == Some(queue));
        let own: i128 = own.filter(|pod| pod.holds_room()).map(|pod| pod.gpu_milli).sum();
        let below = self.queues.iter().filter(|(_, one)| one.parent == queue);
        own + below.map(|(name, _)| self.used_gpu_milli_of_queue(name)).sum::<i128>()
    }

    /// Queues that exceed their limit, each with an explanation.
    pub(super) fn queues_over_limit(&self) -> Vec<(String, String)> {
        let mut over = Vec::new();
        for (name, queue) in &self.queues {
            let limit = at(&queue.spec, "/resources/gpu/limit").and_then(thousandths);
            let used = self.used_gpu_milli_of_queue(name);
            // A negative limit means none.
            if let Some(limit) = limit.filter(|limit| 0 <= *limit && *limit < used) {
                let (limit, used) = (limit / 1000, used / 1000);
                let why = format!("queue {name} has a limit of {limit} GPUs and used {used}");
                over.push((name.clone(), why));
            }
        }
        over
    }
}

fn pod_state(pod: Pod<'_>, view: &ObservedCluster) -> PodState {
    let devices = annotation(pod.0, annotations::GPU_DEVICES);
    let devices =
        devices.into_iter().flat_map(|one| one.split(',')).map(|one| one.trim().to_owned());
    let restarts = list(pod.0, "/status/containerStatuses").iter();
    let restarts = restarts.filter_map(|one| one["restartCount"].as_i64()).sum();
    let group = pod.pod_group(view).and_then(|group| text(group, "/metadata/name"));
    PodState {
        uid: text(pod.0, "/metadata/uid").unwrap_or_default().to_owned(),
        node: pod.node_name().to_owned(),
        phase: pod.current_phase(),
        group: group.map(|name| format!("{}/{name}", pod.pod_namespace())),
        queue: pod.queue_name(view).map(str::to_owned),
        gpu_milli: pod.gpu_milli(),
        devices: devices.filter(|one| !one.is_empty()).collect(),
        metadata: object_metadata(pod.0),
        restarts,
        reason: text(pod.0, "/status/reason").unwrap_or_default().to_owned(),
        pending_reason: pod.unschedulable_message().map(str::to_owned),
    }
}

fn group_state(group: &Value) -> GroupState {
    let least = at(group, "/spec/minMember").and_then(Value::as_u64).unwrap_or(1);
    let status = at(group, "/status").and_then(Value::as_object);
    let fields = status.into_iter().flat_map(|status| status.iter());
    let is_non_empty = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    GroupState {
        uid: text(group, "/metadata/uid").unwrap_or_default().to_owned(),
        min_members: usize::try_from(least).unwrap_or(usize::MAX),
        spec: group["spec"].clone(),
        metadata: object_metadata(group),
        status_fields: fields
            .filter(|(_, value)| is_non_empty(value))
            .map(|(part, _)| part.to_string())
            .collect(),
    }
}

/// Metadata that is not compared: it identifies an object or changes with every write.
const IGNORED_METADATA: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "name", "namespace"];

/// Metadata of an object except [`IGNORED_METADATA`]; each label and annotation is an entry of its
/// own.
fn object_metadata(object: &Value) -> ObjectMetadata {
    let all = object["metadata"].as_object().into_iter().flat_map(|all| all.iter());
    let mut marks = ObjectMetadata::new();
    for (field, value) in all.filter(|(field, _)| !IGNORED_METADATA.contains(&field.as_str())) {
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

/// Metadata of a node that affects scheduling. Annotations are left out because they are
/// heartbeats, and taints with the prefix `node.kubernetes.io/` because they reflect the node's
/// condition.
fn node_metadata(node: &Value) -> ObjectMetadata {
    let mut marks = object_metadata(node);
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

/// Differences between two captures, one per line: `-` before, `+` after.
pub(super) fn capture_differences(before: &ClusterCapture, after: &ClusterCapture) -> Vec<String> {
    let pods = |state: &ClusterCapture| -> BTreeMap<String, String> {
        state.pods.iter().map(|(name, pod)| (format!("pod {name}"), pod_summary(pod))).collect()
    };
    let queues = |state: &ClusterCapture| -> BTreeMap<String, String> {
        let queue = |(name, queue): (&String, &QueueState)| {
            let gpus = |field: &str| {
                let amount = queue.status.get(field).map(|all| &all[resources::GPU]);
                amount.and_then(Value::as_str).unwrap_or("0").to_owned()
            };
            let words =
                format!("{} GPUs allocated, {} requested", gpus("allocated"), gpus("requested"));
            (format!("queue {name}"), words)
        };
        state.queues.iter().map(queue).collect()
    };
    let mut lines = changed_lines(&pods(before), &pods(after));
    lines.extend(changed_lines(&queues(before), &queues(after)));
    lines
}

fn changed_lines(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
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

pub(super) fn pod_summary(pod: &PodState) -> String {
    let on_node = if pod.node.is_empty() { String::new() } else { format!(" on {}", pod.node) };
    let why = if pod.reason.is_empty() { String::new() } else { format!(" ({})", pod.reason) };
    format!("{}{on_node}{why}", pod.phase)
}
