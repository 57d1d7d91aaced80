//! What a page shows of a cluster at one revision: nodes with their GPUs, queues with their use,
//! and pending workloads with their reasons. [`StateBuilder`] computes it from writes, one at a
//! time, and says which parts a write changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schedlab_conformance::world::observed::Phase;
use schedlab_emulator::store::LogEntry;

use crate::records::{
    ClaimRecord, DeviceName, GroupRecord, NodeRecord, PodRecord, QueueRecord, RecordKind,
    SliceRecord,
};

pub use crate::records::{MilliGpus, ObjectName, RecordChange};

/// What a page shows of a cluster at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The nodes, ordered by name.
    pub nodes: Vec<NodeState>,
    /// The queues as a tree in preorder: parents before their children.
    pub queues: Vec<QueueState>,
    /// The workloads with pending pods, ordered by namespace and name.
    pub pending: Vec<PendingWorkload>,
    /// GPUs of all nodes.
    pub gpus: usize,
    /// GPUs that at least one pod uses.
    pub gpus_in_use: usize,
}

/// A node with GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Name of the node.
    pub name: String,
    /// Why the node takes no pods, such as `not ready`; `None` if it does.
    pub problem: Option<&'static str>,
    /// The GPUs, ordered by index.
    pub gpus: Vec<GpuState>,
    /// MIG slices and DRA devices, which pods request by themselves.
    pub parts: Vec<PartState>,
    /// Pods on the node that use none of these.
    pub other_pods: usize,
}

/// One GPU of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuState {
    /// The pods that use the GPU; more than one if they share it.
    pub users: Vec<GpuUser>,
}

/// A MIG slice or a DRA device of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// The MIG profile, such as `1g.5gb`, or the DRA driver.
    pub group: String,
    /// The number of the slice in its profile, or the name of the device.
    pub name: String,
    /// The pods that use it.
    pub users: Vec<GpuUser>,
}

/// A pod that uses a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuUser {
    /// Namespace and name of the pod, with a slash between them.
    pub pod: Arc<str>,
    /// Name of the pod's queue; empty without one.
    pub queue: Arc<str>,
    /// Whether the pod is being deleted.
    pub is_terminating: bool,
    /// The part of the GPU that the pod uses, in thousandths; 0 is unknown.
    pub portion: MilliGpus,
}

/// A queue with its use of GPUs. Amounts are thousandths of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// Name of the queue.
    pub name: String,
    /// Number of ancestors.
    pub depth: usize,
    /// Deserved quota; `None` is unlimited.
    pub quota: Option<MilliGpus>,
    /// Upper limit; `None` is unlimited.
    pub limit: Option<MilliGpus>,
    /// Fair share, if the scheduler reported one.
    pub fair_share: Option<MilliGpus>,
    /// GPUs of the running pods of the queue and its descendants.
    pub used: MilliGpus,
    /// GPUs that the pending pods of the queue and its descendants request.
    pub pending: MilliGpus,
    /// Whether the queue has children.
    pub has_children: bool,
}

impl QueueState {
    /// GPUs that the queue uses beyond its quota.
    pub fn borrowed(&self) -> MilliGpus {
        self.quota.map_or(0, |quota| (self.used - quota).max(0))
    }
}

/// A workload with pending pods: a pod group, or a pod without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingWorkload {
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the pod group, or of the pod.
    pub name: String,
    /// The name by which a user knows the workload: that of the owner of the pod group.
    pub title: String,
    /// Name of the queue; empty if the workload has none.
    pub queue: String,
    /// Number of pending pods.
    pub pods: usize,
    /// Number of pods with a node.
    pub running: usize,
    /// GPUs that the pending pods request, in thousandths.
    pub gpus: MilliGpus,
    /// Why the pods are pending, as the scheduler reported it; empty before its first report.
    pub reason: String,
}

/// The parts of the state that a write changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateChange {
    /// Names of nodes that changed, appeared or are gone.
    pub nodes: BTreeSet<Arc<str>>,
    /// Workloads of which pods changed.
    pub workloads: BTreeSet<ObjectName>,
    /// Whether a queue or the use of a queue changed.
    pub has_queue_change: bool,
}

/// Computes the state of a cluster from its writes. A clone is independent and shares the records.
#[derive(Clone, Debug, Default)]
pub struct StateBuilder {
    nodes: BTreeMap<Arc<str>, Arc<NodeRecord>>,
    pods: BTreeMap<ObjectName, Arc<PodRecord>>,
    groups: BTreeMap<ObjectName, Arc<GroupRecord>>,
    queues: BTreeMap<Arc<str>, Arc<QueueRecord>>,
    slices: BTreeMap<Arc<str>, Arc<SliceRecord>>,
    claims: BTreeMap<ObjectName, Arc<ClaimRecord>>,
    pods_by_node: BTreeMap<Arc<str>, BTreeSet<ObjectName>>,
    pods_by_workload: BTreeMap<ObjectName, BTreeSet<ObjectName>>,
    own_use: BTreeMap<Arc<str>, QueueUse>,
}

/// GPUs of the pods of a queue, without those of its descendants.
#[derive(Clone, Copy, Debug, Default)]
struct QueueUse {
    used: MilliGpus,
    pending: MilliGpus,
}

impl StateBuilder {
    /// Applies one write. Returns what it changed.
    pub fn apply_entry(&mut self, entry: &LogEntry) -> StateChange {
        self.apply_change(&RecordChange::from_entry(entry))
    }

    /// Applies what a write changes. Returns which parts of the state are different.
    pub fn apply_change(&mut self, change: &RecordChange) -> StateChange {
        let mut changed = StateChange::default();
        match &change.0 {
            RecordKind::Pod(name, record) => self.set_pod(name, record.as_ref(), &mut changed),
            RecordKind::Node(name, record) => {
                if set_record(&mut self.nodes, name, record.as_ref()) {
                    changed.nodes.insert(Arc::clone(name));
                }
            }
            RecordKind::Group(name, record) => self.set_group(name, record.as_ref(), &mut changed),
            RecordKind::Queue(name, record) => {
                changed.has_queue_change = set_record(&mut self.queues, name, record.as_ref());
            }
            RecordKind::Slice(name, record) => {
                let old = self.slices.get(name).map(|slice| Arc::clone(&slice.node));
                if set_record(&mut self.slices, name, record.as_ref()) {
                    let new = record.as_ref().map(|slice| Arc::clone(&slice.node));
                    changed
                        .nodes
                        .extend(old.into_iter().chain(new).filter(|node| !node.is_empty()));
                }
            }
            RecordKind::Claim(name, record) => {
                let old = self.claims.get(name).cloned();
                if set_record(&mut self.claims, name, record.as_ref()) {
                    let claims = old.iter().chain(record);
                    changed.nodes.extend(claims.flat_map(|claim| self.nodes_of_claim(claim)));
                }
            }
            RecordKind::Other => {}
        }
        changed
    }

    /// The whole state.
    pub fn state(&self) -> ClusterState {
        let nodes: Vec<NodeState> =
            self.nodes.keys().filter_map(|name| self.node_state(name)).collect();
        let gpus = nodes.iter().flat_map(|node| &node.gpus);
        ClusterState {
            gpus: gpus.clone().count(),
            gpus_in_use: gpus.filter(|gpu| !gpu.users.is_empty()).count(),
            queues: self.queue_states(),
            pending: self
                .pods_by_workload
                .keys()
                .filter_map(|name| self.pending_workload(name))
                .collect(),
            nodes,
        }
    }

    /// The state of a node; `None` if it does not exist.
    pub fn node_state(&self, name: &str) -> Option<NodeState> {
        let record = self.nodes.get(name)?;
        let mut gpus = vec![GpuState::default(); record.gpus];
        let mut other_pods = 0;
        for pod_name in self.pods_by_node.get(name).into_iter().flatten() {
            let Some(pod) = self.pods.get(pod_name) else { continue };
            let is_placed = self.add_gpu_user(pod, &mut gpus);
            let has_part = !pod.mig.is_empty() || self.uses_device(name, pod_name);
            other_pods += usize::from(!is_placed && !has_part);
        }
        let mut parts = self.mig_slices(name, record);
        parts.extend(self.devices(name));
        Some(NodeState { name: name.to_owned(), problem: record.problem, gpus, parts, other_pods })
    }

    /// The MIG slices of a node. The pods get them in the order of their names: no API says which
    /// slice of a profile a pod has.
    fn mig_slices(&self, node: &str, record: &NodeRecord) -> Vec<PartState> {
        let mut slices = Vec::new();
        for (profile, count) in &record.mig {
            let pods = self.pods_by_node.get(node).into_iter().flatten();
            let pods = pods.filter_map(|pod| self.pods.get(pod));
            let mut users = pods.flat_map(|pod| {
                std::iter::repeat_n(pod, pod.mig.get(profile).copied().unwrap_or(0))
            });
            slices.extend((0..*count).map(|index| PartState {
                group: profile.clone(),
                name: index.to_string(),
                users: users.next().map(|pod| self.user_of(pod)).into_iter().collect(),
            }));
        }
        slices
    }

    /// The DRA devices of a node.
    fn devices(&self, node: &str) -> Vec<PartState> {
        let slices = self.slices.values().filter(|slice| &*slice.node == node);
        let devices = slices.flat_map(|slice| &slice.devices);
        let users = |device: &DeviceName| {
            let claims = self.claims.values().filter(|claim| claim.devices.contains(device));
            let pods = claims.flat_map(|claim| &claim.pods).filter_map(|pod| self.pods.get(pod));
            pods.filter(|pod| pod.holds_gpus()).map(|pod| self.user_of(pod)).collect()
        };
        let part = |device: &DeviceName| PartState {
            group: device.driver.clone(),
            name: device.device.clone(),
            users: users(device),
        };
        devices.map(part).collect()
    }

    /// Whether a pod has a device of a node by a claim.
    fn uses_device(&self, node: &str, pod: &ObjectName) -> bool {
        let claims = self.claims.values().filter(|claim| claim.pods.contains(pod));
        let mut nodes = claims.flat_map(|claim| self.nodes_of_claim(claim));
        nodes.any(|of_claim| &*of_claim == node)
    }

    /// The nodes whose devices a claim got.
    fn nodes_of_claim(&self, claim: &ClaimRecord) -> BTreeSet<Arc<str>> {
        let slices = self.slices.values().filter(|slice| !slice.node.is_empty());
        let used = slices
            .filter(|slice| slice.devices.iter().any(|device| claim.devices.contains(device)));
        used.map(|slice| Arc::clone(&slice.node)).collect()
    }

    fn user_of(&self, pod: &PodRecord) -> GpuUser {
        GpuUser {
            pod: Arc::clone(&pod.title),
            queue: self.queue_of(pod),
            is_terminating: pod.phase == Phase::Terminating,
            portion: pod.portion,
        }
    }

    /// Adds the pod to the users of its GPUs. Returns whether it uses any.
    fn add_gpu_user(&self, pod: &PodRecord, gpus: &mut [GpuState]) -> bool {
        let mut is_placed = false;
        for index in &pod.devices {
            let Some(gpu) = gpus.get_mut(*index) else { continue };
            is_placed = true;
            gpu.users.push(self.user_of(pod));
        }
        is_placed
    }

    /// The queues as a tree in preorder: parents before their children. Queues whose parents form a
    /// cycle come last.
    pub fn queue_states(&self) -> Vec<QueueState> {
        let tree = QueueTree::new(&self.queues);
        let mut uses: BTreeMap<Arc<str>, QueueUse> = BTreeMap::new();
        for (name, own) in &self.own_use {
            for queue in tree.with_ancestors(name) {
                let sum = uses.entry(queue).or_default();
                sum.used += own.used;
                sum.pending += own.pending;
            }
        }
        let state = |(name, depth): (Arc<str>, usize)| {
            let record = self.queues.get(&name)?;
            let sum = uses.get(&name).copied().unwrap_or_default();
            Some(QueueState {
                name: name.to_string(),
                depth,
                quota: record.quota,
                limit: record.limit,
                fair_share: record.fair_share,
                used: sum.used,
                pending: sum.pending,
                has_children: tree.children.contains_key(&name),
            })
        };
        tree.preorder().into_iter().filter_map(state).collect()
    }

    /// A workload with pending pods; `None` if none of its pods is pending.
    pub fn pending_workload(&self, name: &ObjectName) -> Option<PendingWorkload> {
        let members = self.pods_by_workload.get(name)?.iter();
        let members: Vec<&PodRecord> =
            members.filter_map(|pod| self.pods.get(pod).map(|pod| &**pod)).collect();
        let pending: Vec<&PodRecord> =
            members.iter().copied().filter(|pod| pod.is_pending()).collect();
        let first = pending.first()?;
        let owner = self.groups.get(name).and_then(|group| group.owner.as_deref());
        let reason = pending.iter().map(|pod| &pod.reason).find(|reason| !reason.is_empty());
        let is_running = |pod: &&&PodRecord| matches!(pod.phase, Phase::Starting | Phase::Running);
        Some(PendingWorkload {
            namespace: name.0.to_string(),
            name: name.1.to_string(),
            title: owner.unwrap_or(&name.1).to_owned(),
            queue: self.queue_of(first).to_string(),
            pods: pending.len(),
            running: members.iter().filter(is_running).count(),
            gpus: pending.iter().map(|pod| pod.gpus).sum(),
            reason: reason.cloned().unwrap_or_default(),
        })
    }

    /// The pods of a workload, by namespace and name.
    pub fn pods_of_workload(&self, name: &ObjectName) -> impl Iterator<Item = &ObjectName> {
        self.pods_by_workload.get(name).into_iter().flatten()
    }

    /// The GPUs that the pods on a node request.
    pub fn gpus_requested_on(&self, node: &str) -> MilliGpus {
        let pods = self.pods_by_node.get(node).into_iter().flatten();
        pods.filter_map(|pod| self.pods.get(pod)).map(|pod| pod.gpus).sum()
    }

    /// Number of pods on a node.
    pub fn pods_on(&self, node: &str) -> usize {
        self.pods_by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// Number of objects that the state is computed from.
    pub fn object_count(&self) -> usize {
        self.nodes.len() + self.pods.len() + self.groups.len() + self.queues.len()
    }

    /// The name of the queue of a pod: that of its pod group, else that of its label.
    fn queue_of(&self, pod: &PodRecord) -> Arc<str> {
        let group = self.groups.get(&pod.workload).filter(|_| pod.has_group);
        let queue = group.and_then(|group| group.queue.as_ref());
        Arc::clone(queue.unwrap_or(&pod.queue_label))
    }

    fn set_pod(
        &mut self,
        name: &ObjectName,
        new: Option<&Arc<PodRecord>>,
        change: &mut StateChange,
    ) {
        let old = self.pods.get(name).cloned();
        if old.as_ref() == new {
            return;
        }
        if let Some(old) = &old {
            self.charge(old, -1);
            change.note_pod(old);
            remove_from(&mut self.pods_by_workload, &old.workload, name);
            if old.holds_gpus() {
                remove_from(&mut self.pods_by_node, &old.node, name);
            }
            self.pods.remove(name);
        }
        if let Some(new) = new {
            self.charge(new, 1);
            change.note_pod(new);
            self.pods_by_workload.entry(new.workload.clone()).or_default().insert(name.clone());
            if new.holds_gpus() {
                let node = self.pods_by_node.entry(Arc::clone(&new.node)).or_default();
                node.insert(name.clone());
            }
            self.pods.insert(name.clone(), Arc::clone(new));
        }
        change.has_queue_change = true;
    }

    /// Replaces a pod group. Its pods are charged anew, because it names their queue.
    fn set_group(
        &mut self,
        name: &ObjectName,
        new: Option<&Arc<GroupRecord>>,
        change: &mut StateChange,
    ) {
        if self.groups.get(name) == new {
            return;
        }
        let members: Vec<Arc<PodRecord>> =
            self.pods_of_workload(name).filter_map(|pod| self.pods.get(pod).cloned()).collect();
        for pod in &members {
            self.charge(pod, -1);
        }
        set_record(&mut self.groups, name, new);
        for pod in &members {
            self.charge(pod, 1);
            change.note_pod(pod);
        }
        change.workloads.insert(name.clone());
        change.has_queue_change |= !members.is_empty();
    }

    /// Adds the GPUs of a pod to its queue, or with -1 takes them away.
    fn charge(&mut self, pod: &PodRecord, sign: MilliGpus) {
        let queue = self.own_use.entry(self.queue_of(pod)).or_default();
        if pod.is_pending() {
            queue.pending += sign * pod.gpus;
        } else if pod.holds_gpus() {
            queue.used += sign * pod.gpus;
        }
    }
}

impl StateChange {
    fn note_pod(&mut self, pod: &PodRecord) {
        if pod.holds_gpus() {
            self.nodes.insert(Arc::clone(&pod.node));
        }
        self.workloads.insert(pod.workload.clone());
    }
}

/// Sets or removes a record. Returns whether that changed anything.
fn set_record<K: Ord + Clone, R: PartialEq>(
    records: &mut BTreeMap<K, Arc<R>>,
    name: &K,
    new: Option<&Arc<R>>,
) -> bool {
    if records.get(name) == new {
        return false;
    }
    match new {
        Some(record) => records.insert(name.clone(), Arc::clone(record)),
        None => records.remove(name),
    };
    true
}

fn remove_from<K: Ord>(
    index: &mut BTreeMap<K, BTreeSet<ObjectName>>,
    key: &K,
    member: &ObjectName,
) {
    if let Some(members) = index.get_mut(key) {
        members.remove(member);
        if members.is_empty() {
            index.remove(key);
        }
    }
}

/// The queues by parent.
struct QueueTree<'b> {
    queues: &'b BTreeMap<Arc<str>, Arc<QueueRecord>>,
    children: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

impl<'b> QueueTree<'b> {
    fn new(queues: &'b BTreeMap<Arc<str>, Arc<QueueRecord>>) -> Self {
        let mut children: BTreeMap<Arc<str>, Vec<Arc<str>>> = BTreeMap::new();
        for (name, record) in queues {
            let parent = record.parent.clone().filter(|parent| queues.contains_key(parent));
            children.entry(parent.unwrap_or_default()).or_default().push(Arc::clone(name));
        }
        Self { queues, children }
    }

    /// The queue and all its ancestors.
    fn with_ancestors(&self, queue: &Arc<str>) -> BTreeSet<Arc<str>> {
        let mut seen = BTreeSet::new();
        let mut next = Some(Arc::clone(queue));
        while let Some(name) = next.filter(|name| !seen.contains(name)) {
            next = self.queues.get(&name).and_then(|record| record.parent.clone());
            seen.insert(name);
        }
        seen
    }

    /// All queues with their depths.
    fn preorder(&self) -> Vec<(Arc<str>, usize)> {
        let below = |parent: &str, depth: usize| {
            let children = self.children.get(parent).into_iter().flatten().rev();
            children.map(move |name| (Arc::clone(name), depth)).collect::<Vec<_>>()
        };
        let mut ordered: Vec<(Arc<str>, usize)> = Vec::new();
        let mut stack = below("", 0);
        while let Some((name, depth)) = stack.pop() {
            stack.extend(below(&name, depth + 1));
            ordered.push((name, depth));
        }
        let listed: BTreeSet<Arc<str>> = ordered.iter().map(|(name, _)| Arc::clone(name)).collect();
        let rest = self.queues.keys().filter(|name| !listed.contains(*name));
        ordered.extend(rest.map(|name| (Arc::clone(name), 0)));
        ordered
    }
}
