//! The facts that the rules need: nodes, queues, groups, pods and claims by name. Anything else is
//! left out.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Labels, Name, NodeSelectorTerm, Taint, Time, Toleration};

/// Amounts by resource name, in thousandths of the unit of the resource (GPU, core, byte, pod).
/// `i128` holds every quantity of the API.
pub type Amounts = BTreeMap<Name, i128>;

/// The known state of the cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView {
    pub(super) nodes: BTreeMap<Name, RecentValue<NodeView>>,
    pub(super) queues: BTreeMap<Name, RecentValue<QueueView>>,
    pub(super) groups: BTreeMap<Name, RecentValue<GroupView>>,
    pub(super) pods: BTreeMap<Name, PodView>,
    pub(super) claims: BTreeMap<Name, ClaimView>,
}

impl ClusterView {
    /// The group of a pod, if known.
    pub(super) fn group_of(&self, pod: &PodView) -> Option<&GroupView> {
        self.groups.get(pod.group.as_ref()?)?.now.as_ref()
    }

    /// A queue and its ancestors, leaf first; stops at a missing queue or a cycle.
    pub(super) fn lineage(&self, leaf: &Name) -> Vec<Name> {
        let mut lineage = Vec::new();
        let mut next = Some(leaf.clone());
        while let Some(name) = next.filter(|name| !lineage.contains(name)) {
            let queue = self.queues.get(&name).and_then(|queue| queue.now.as_ref());
            next = queue.and_then(|queue| queue.parent.clone());
            lineage.push(name);
        }
        lineage
    }
}

/// A time span, both ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSpan {
    pub(super) from: Time,
    pub(super) until: Time,
}

/// A value and, until the scheduler has seen the change, the previous value.
#[derive(Clone, Debug)]
pub(super) struct RecentValue<T> {
    pub(super) now: Option<T>,
    before: Option<T>,
    unseen_until: Time,
}

impl<T> Default for RecentValue<T> {
    fn default() -> Self {
        Self { now: None, before: None, unseen_until: Time(i64::MIN) }
    }
}

impl<T> RecentValue<T> {
    pub(super) fn set(&mut self, value: Option<T>, span: TimeSpan) {
        let old = std::mem::replace(&mut self.now, value);
        if self.unseen_until < span.from {
            self.before = old;
            self.unseen_until = span.until;
        }
    }

    /// The values that the scheduler may have seen at this time.
    pub(super) fn visible_at(&self, at: Time) -> impl Iterator<Item = &T> {
        let before = self.before.as_ref().filter(|_| at <= self.unseen_until);
        self.now.iter().chain(before)
    }
}

/// The audited facts of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Allocatable resources.
    pub allocatable: Amounts,
    /// Node labels.
    pub labels: Labels,
    /// Node taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Condition `Ready` is `True`.
    pub ready: bool,
    /// Allocatable resources of its NUMA zones by name, if published.
    pub numa_zones: BTreeMap<Name, Amounts>,
    /// Whether its kubelet rejects pods that do not fit into one NUMA zone.
    pub is_single_numa_node: bool,
}

/// The audited facts of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The parent queue.
    pub parent: Option<Name>,
    /// Maximum use of non-preemptible pods. Resources that are absent are unlimited.
    pub quota: Amounts,
    /// Maximum use. Resources that are absent are unlimited.
    pub limit: Amounts,
}

/// The audited facts of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Its leaf queue.
    pub queue: Name,
    /// The value of its priority class.
    pub priority: i32,
    /// Whether it may be evicted for others, and may exceed the quota of its queue.
    pub preemptible: bool,
    /// Its sub-groups; at least one. Pods without a sub-group name belong to the first.
    pub sub_groups: Vec<SubGroupView>,
    /// Number of top-level sub-groups that must be whole; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// A sub-group of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubGroupView {
    /// Name of the sub-group.
    pub name: Name,
    /// Index of the parent sub-group.
    pub parent: Option<usize>,
    /// Minimum number of pods (leaf sub-groups).
    pub min_member: usize,
    /// Of an inner sub-group: number of children that must be whole; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// The audited facts of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Distinguishes pods with the same name.
    pub uid: Name,
    /// Its pod group, as `namespace/name`.
    pub group: Option<Name>,
    /// Its sub-group.
    pub sub_group: Option<Name>,
    /// Its requests, including one `pods`.
    pub requests: Amounts,
    /// The node to which it is bound.
    pub node: Option<Name>,
    /// Its phase.
    pub phase: Phase,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// The priority of the pod.
    pub priority: i32,
    /// Its node selector.
    pub node_selector: Labels,
    /// Its required node affinity (any term suffices). `None`: it has none.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// Its tolerations.
    pub tolerations: Vec<Toleration>,
    /// Indices of the GPUs that it was given, if known.
    pub devices: Option<Vec<u32>>,
    /// Whether its `QoS` class is Guaranteed, so that CPUs and memory are aligned.
    pub guaranteed: bool,
    /// Its amounts by NUMA zone of the node.
    pub numa_zones: BTreeMap<Name, Amounts>,
    /// The devices that it shares with others, and its share of each.
    pub device_shares: Vec<DeviceShare>,
    /// The devices of its claims, by claim; a node provides them once for all users of a claim.
    pub claims: BTreeMap<Name, Amounts>,
    /// Queue charges in addition to its requests: GPU fractions, and MIG instances as GPUs.
    pub extra_charges: Amounts,
}

/// The audited facts of a device claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// The node on which it is allocated, if node-local.
    pub node: Option<Name>,
    /// The nodes that can use its devices (any term suffices). `None`: all nodes.
    pub terms: Option<Vec<NodeSelectorTerm>>,
    /// Its allocated devices, by cluster-wide unique names.
    pub devices: BTreeSet<Name>,
    /// UIDs of the pods for which it is reserved.
    pub users: BTreeSet<Name>,
    /// It is reserved for a PodGroup of Kubernetes, that is, for all pods of it. Which pods those are
    /// is not checked.
    pub is_of_pod_group: bool,
}

/// A share of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceShare {
    /// The name of the shared device on the node.
    pub device: Name,
    /// Thousandths of the device, rounded down, at least one. 0: a reservation pod holds the whole
    /// device for the pods that share it.
    pub milli: i64,
}

/// The phase of a pod, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Has scheduling gates.
    Gated,
    /// Not finished.
    Alive,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
}

/// The author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The audited scheduler.
    Scheduler,
    /// Any other client.
    Other,
}

impl PodView {
    /// Whether it uses capacity of a node.
    pub(super) fn holds_room(&self) -> bool {
        self.node.is_some() && self.is_alive()
    }

    /// Whether it uses capacity and is not being deleted.
    pub(super) fn stays(&self) -> bool {
        self.holds_room() && !self.leaving
    }

    /// Queue charges without claims; queues are charged once for all users of a claim.
    pub(super) fn charged(&self) -> impl Iterator<Item = (&Name, &i128)> {
        self.requests.iter().chain(&self.extra_charges)
    }

    /// All requests on its node, shared claims included.
    pub(super) fn requests_of_node(&self) -> impl Iterator<Item = (&Name, &i128)> {
        self.requests.iter().chain(self.claims.values().flatten())
    }

    pub(super) fn is_alive(&self) -> bool {
        match self.phase {
            Phase::Gated | Phase::Alive => true,
            Phase::Succeeded | Phase::Failed => false,
        }
    }
}

/// Adds `amounts` times `factor` to `total`.
pub(super) fn add<'a>(
    total: &mut Amounts,
    amounts: impl IntoIterator<Item = (&'a Name, &'a i128)>,
    factor: i128,
) {
    for (resource, amount) in amounts {
        *total.entry(resource.clone()).or_default() += amount * factor;
    }
}
