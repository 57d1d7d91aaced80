//! The state of a cluster computed at once from its objects: slow, and independent of the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedlab_api::{Value, annotations, labels, object, pointer, quantity, resources};
use schedlab_conformance::world::observed::{Phase, Pod};
use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_view::state::{
    ClusterState, GpuState, GpuUser, MilliGpus, NodeState, PartState, PendingWorkload, QueueState,
};

/// Namespace and name of an object. Objects of the cluster have an empty namespace.
pub(crate) type ObjectName = (Arc<str>, Arc<str>);

/// The objects that the page shows, by kind and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectSet {
    /// The nodes.
    pub nodes: BTreeMap<ObjectName, Arc<Value>>,
    /// The pods.
    pub pods: BTreeMap<ObjectName, Arc<Value>>,
    /// The `PodGroup`s of KAI.
    pub pod_groups: BTreeMap<ObjectName, Arc<Value>>,
    /// The `Queue`s of KAI.
    pub queues: BTreeMap<ObjectName, Arc<Value>>,
    /// The `ResourceSlice`s.
    pub slices: BTreeMap<ObjectName, Arc<Value>>,
    /// The `ResourceClaim`s.
    pub claims: BTreeMap<ObjectName, Arc<Value>>,
}

impl ObjectSet {
    /// Applies one write.
    pub(crate) fn apply_entry(&mut self, entry: &LogEntry) {
        let Some(kind) = self.kind_mut(&entry.key.resource.group, &entry.key.resource.plural)
        else {
            return;
        };
        let name = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
        match entry.kind {
            EventKind::Added | EventKind::Modified => {
                kind.insert(name, Arc::clone(&entry.object));
            }
            EventKind::Deleted => {
                kind.remove(&name);
            }
        }
    }

    fn kind_mut(
        &mut self,
        group: &str,
        plural: &str,
    ) -> Option<&mut BTreeMap<ObjectName, Arc<Value>>> {
        match (group, plural) {
            ("", "nodes") => Some(&mut self.nodes),
            ("", "pods") => Some(&mut self.pods),
            ("scheduling.run.ai", "podgroups") => Some(&mut self.pod_groups),
            ("scheduling.run.ai", "queues") => Some(&mut self.queues),
            ("resource.k8s.io", "resourceslices") => Some(&mut self.slices),
            ("resource.k8s.io", "resourceclaims") => Some(&mut self.claims),
            _ => None,
        }
    }
}

/// The state that a set of objects shows.
pub(crate) fn state_of_objects(objects: &ObjectSet) -> ClusterState {
    let mut queues = queue_tree(objects);
    let mut nodes = empty_nodes(objects);
    let mut pending: BTreeMap<(String, String), PendingWorkload> = BTreeMap::new();
    for value in objects.pods.values() {
        let pod = Pod(value);
        let queue = queue_of(value, objects);
        let milli = i64::try_from(pod.gpu_milli()).unwrap_or(i64::MAX) + fraction_milli(value);
        match pod.current_phase() {
            Phase::Succeeded | Phase::Failed => {}
            Phase::Pending | Phase::Gated => {
                charge(&mut queues, objects, queue, |queue| queue.pending += milli);
                add_pod(pending_workload(&mut pending, value, queue, objects), pod, milli);
            }
            Phase::Starting | Phase::Running | Phase::Terminating => {
                charge(&mut queues, objects, queue, |queue| queue.used += milli);
                place(&mut nodes, pod, queue.unwrap_or_default(), objects);
            }
        }
    }
    count_running(&mut pending, objects);
    let nodes: Vec<NodeState> = nodes.into_values().collect();
    let gpus = nodes.iter().flat_map(|node| &node.gpus);
    ClusterState {
        gpus: gpus.clone().count(),
        gpus_in_use: gpus.filter(|gpu| !gpu.users.is_empty()).count(),
        nodes,
        queues,
        pending: pending.into_values().collect(),
    }
}

/// Adds a pending pod and the GPUs that it requests.
fn add_pod(workload: &mut PendingWorkload, pod: Pod<'_>, gpus: MilliGpus) {
    workload.pods += 1;
    workload.gpus += gpus;
    if workload.reason.is_empty() {
        pod.unschedulable_message().unwrap_or_default().clone_into(&mut workload.reason);
    }
}

/// Name of the pod's group; the pod's own name without one.
fn workload_name(pod: &Value) -> &str {
    object::annotation(pod, annotations::POD_GROUP_NAME).unwrap_or_else(|| object::name(pod))
}

fn pending_workload<'m>(
    pending: &'m mut BTreeMap<(String, String), PendingWorkload>,
    pod: &Value,
    queue: Option<&str>,
    objects: &ObjectSet,
) -> &'m mut PendingWorkload {
    let (namespace, name) = (object::namespace(pod).to_owned(), workload_name(pod).to_owned());
    let group = objects.pod_groups.get(&(namespace.as_str().into(), name.as_str().into()));
    let owner = group.and_then(|group| pointer::text(group, "/metadata/ownerReferences/0/name"));
    let title = owner.unwrap_or(&name).to_owned();
    pending.entry((namespace.clone(), name.clone())).or_insert_with(|| PendingWorkload {
        namespace,
        name,
        title,
        queue: queue.unwrap_or_default().to_owned(),
        pods: 0,
        running: 0,
        gpus: 0,
        reason: String::new(),
    })
}

fn count_running(pending: &mut BTreeMap<(String, String), PendingWorkload>, objects: &ObjectSet) {
    for pod in objects.pods.values() {
        let name = (object::namespace(pod).to_owned(), workload_name(pod).to_owned());
        if let Some(workload) = pending.get_mut(&name)
            && matches!(Pod(pod).current_phase(), Phase::Starting | Phase::Running)
        {
            workload.running += 1;
        }
    }
}

/// The name of the queue of a pod: that of its pod group, else that of its label.
fn queue_of<'a>(pod: &'a Value, objects: &'a ObjectSet) -> Option<&'a str> {
    let group = object::annotation(pod, annotations::POD_GROUP_NAME);
    let group = group.and_then(|name| {
        objects.pod_groups.get(&(Arc::from(object::namespace(pod)), Arc::from(name)))
    });
    group
        .and_then(|group| pointer::text(group, "/spec/queue"))
        .or_else(|| object::label(pod, labels::QUEUE))
}

/// The portion of a GPU that a pod requests by annotation, in thousandths.
fn fraction_milli(pod: &Value) -> MilliGpus {
    let fraction = object::annotation(pod, annotations::GPU_FRACTION);
    let devices = object::annotation(pod, annotations::GPU_FRACTION_NUM_DEVICES)
        .and_then(|count| count.parse::<i64>().ok());
    let milli = fraction.and_then(|text| quantity::parse(text).ok()).unwrap_or(0);
    i64::try_from(milli).unwrap_or(0).saturating_mul(devices.unwrap_or(1))
}

/// Applies a change to a queue and all its ancestors.
fn charge(
    queues: &mut [QueueState],
    objects: &ObjectSet,
    queue: Option<&str>,
    change: impl Fn(&mut QueueState),
) {
    let mut next = queue.map(str::to_owned);
    let mut seen = BTreeSet::new();
    while let Some(name) = next {
        if !seen.insert(name.clone()) {
            break;
        }
        queues.iter_mut().filter(|queue| queue.name == name).for_each(&change);
        next = parent_of(objects, &name).map(str::to_owned);
    }
}

fn parent_of<'a>(objects: &'a ObjectSet, queue: &str) -> Option<&'a str> {
    let queue = objects.queues.get(&(Arc::from(""), Arc::from(queue)))?;
    pointer::text(queue, "/spec/parentQueue").filter(|parent| !parent.is_empty())
}

/// The queues in preorder. Queues whose parents form a cycle come last.
fn queue_tree(objects: &ObjectSet) -> Vec<QueueState> {
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let names: BTreeSet<&str> = objects.queues.keys().map(|(_, name)| &**name).collect();
    for name in &names {
        let parent = parent_of(objects, name).filter(|parent| names.contains(parent));
        children.entry(parent.unwrap_or_default()).or_default().push(name);
    }
    let mut tree = Vec::new();
    let mut stack: Vec<(&str, usize)> = Vec::new();
    let below = |parent: &str, depth: usize| {
        let list = children.get(parent).into_iter().flatten().rev();
        list.map(move |name| (*name, depth)).collect::<Vec<_>>()
    };
    stack.extend(below("", 0));
    while let Some((name, depth)) = stack.pop() {
        tree.push(queue_state(objects, name, depth));
        let children = below(name, depth + 1);
        if let Some(state) = tree.last_mut() {
            state.has_children = !children.is_empty();
        }
        stack.extend(children);
    }
    let listed: BTreeSet<String> = tree.iter().map(|queue| queue.name.clone()).collect();
    let rest = names.iter().filter(|name| !listed.contains(**name));
    let rest: Vec<QueueState> = rest.map(|name| queue_state(objects, name, 0)).collect();
    tree.extend(rest);
    tree
}

fn queue_state(objects: &ObjectSet, name: &str, depth: usize) -> QueueState {
    let object = objects.queues.get(&(Arc::from(""), Arc::from(name))).map(|queue| &**queue);
    let amount = |field: &str| {
        let path = format!("/spec/resources/gpu/{field}");
        let number = object.and_then(|queue| pointer::at(queue, &path)).and_then(Value::as_f64);
        // The API counts GPUs with decimals; -1 is unlimited.
        #[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
        number.map(|number| (number * 1000.0).round() as i64)
    };
    QueueState {
        name: name.to_owned(),
        depth,
        quota: Some(amount("quota").unwrap_or(0)).filter(|quota| *quota >= 0),
        limit: amount("limit").filter(|limit| *limit >= 0),
        fair_share: object
            .and_then(|queue| pointer::at(queue, "/status/fairShare"))
            .and_then(|share| object::field(share, resources::GPU))
            .and_then(quantity::thousandths)
            .and_then(|milli| i64::try_from(milli).ok()),
        used: 0,
        pending: 0,
        has_children: false,
    }
}

/// The nodes with GPUs, or with pods, and their GPUs without users.
fn empty_nodes(objects: &ObjectSet) -> BTreeMap<String, NodeState> {
    let nodes = objects.nodes.values().map(|node| {
        let gpus = pointer::at(node, "/status/capacity")
            .and_then(|capacity| object::field(capacity, resources::GPU))
            .and_then(quantity::thousandths)
            .unwrap_or(0)
            / 1000;
        let name = object::name(node).to_owned();
        let state = NodeState {
            name: name.clone(),
            problem: node_problem(node),
            gpus: vec![GpuState::default(); usize::try_from(gpus).unwrap_or(0)],
            parts: empty_parts(node, objects),
            other_pods: 0,
        };
        (name, state)
    });
    nodes.collect()
}

/// The MIG slices and the devices of a node, without users.
fn empty_parts(node: &Value, objects: &ObjectSet) -> Vec<PartState> {
    let part = |group: &str, name: &str| PartState {
        group: group.to_owned(),
        name: name.to_owned(),
        users: Vec::new(),
    };
    let mut parts = Vec::new();
    let capacity = node["status"]["capacity"].as_object();
    for (resource, amount) in capacity.into_iter().flatten() {
        let Some(profile) = resource.strip_prefix("nvidia.com/mig-") else { continue };
        let count = quantity::thousandths(amount).unwrap_or(0) / 1000;
        parts.extend((0..count).map(|index| part(profile, &index.to_string())));
    }
    for slice in objects.slices.values() {
        if slice["spec"]["nodeName"].as_str() == Some(object::name(node)) {
            for device in slice["spec"]["devices"].as_array().into_iter().flatten() {
                let name = device["name"].as_str().unwrap_or_default();
                parts.push(part(slice["spec"]["driver"].as_str().unwrap_or_default(), name));
            }
        }
    }
    parts
}

/// The devices that a pod has by its claims: driver and name.
fn devices_of(pod: &Value, objects: &ObjectSet) -> BTreeSet<(String, String)> {
    let claims = objects.claims.values().filter(|claim| {
        let users = claim["status"]["reservedFor"].as_array();
        object::namespace(claim) == object::namespace(pod)
            && users.into_iter().flatten().any(|user| {
                user["resource"] == "pods" && user["name"].as_str() == Some(object::name(pod))
            })
    });
    let results = claims.flat_map(|claim| {
        let results = claim.pointer("/status/allocation/devices/results");
        results.and_then(Value::as_array).cloned().unwrap_or_default()
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results.map(|result| (text(&result["driver"]), text(&result["device"]))).collect()
}

fn node_problem(node: &Value) -> Option<&'static str> {
    if object::condition(node, "Ready").is_some_and(|ready| ready != "True") {
        Some("not ready")
    } else if pointer::at(node, "/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        Some("cordoned")
    } else {
        None
    }
}

/// Adds a pod to the GPUs of its node, by the indexes that the kubelet assigned. Before the
/// assignment the pod is not on any GPU.
fn place(nodes: &mut BTreeMap<String, NodeState>, pod: Pod<'_>, queue: &str, objects: &ObjectSet) {
    let Some(node) = nodes.get_mut(pod.node_name()) else { return };
    let devices = object::annotation(pod.0, annotations::GPU_DEVICES).unwrap_or_default();
    let indexes = devices.split(',').filter_map(|index| index.trim().parse::<usize>().ok());
    let fraction = object::annotation(pod.0, annotations::GPU_FRACTION);
    let by_memory = object::annotation(pod.0, annotations::GPU_MEMORY).is_some();
    let portion = fraction.and_then(|text| quantity::parse(text).ok());
    let whole = if by_memory { 0 } else { 1000 };
    let user = GpuUser {
        pod: Arc::from(format!("{}/{}", pod.pod_namespace(), pod.pod_name())),
        queue: Arc::from(queue),
        is_terminating: pod.current_phase() == Phase::Terminating,
        portion: portion.and_then(|milli| i64::try_from(milli).ok()).unwrap_or(whole),
    };
    let mut is_placed = false;
    for index in indexes {
        let Some(gpu) = node.gpus.get_mut(index) else { continue };
        is_placed = true;
        gpu.users.push(user.clone());
    }
    let devices = devices_of(pod.0, objects);
    let mut slices: BTreeMap<String, i128> = BTreeMap::new();
    for part in &mut node.parts {
        let is_device = devices.contains(&(part.group.clone(), part.name.clone()));
        let wanted = slices.entry(part.group.clone()).or_insert_with(|| {
            pod.requested_milli(&format!("nvidia.com/mig-{}", part.group)) / 1000
        });
        let is_slice = *wanted > 0 && part.users.is_empty();
        *wanted -= i128::from(is_slice);
        if is_device || is_slice {
            part.users.push(user.clone());
            is_placed = true;
        }
    }
    node.other_pods += usize::from(!is_placed);
}
