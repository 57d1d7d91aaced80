//! The facts that the rules need: nodes, queues, groups, pods and claims by name. Anything else is
//! left out.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::{Labels, Name, NodeSelectorTerm, Taint, Time, Toleration};

/// Amounts by resource name, in thousandths of the unit of the resource (GPU, core, byte, pod).
/// `i128` holds every quantity of the API.
pub type Amounts = BTreeMap<Name, i128>;

/// The state of the cluster that the auditor has observed.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterView {
    pub(super) nodes: BTreeMap<Name, RecentValue<NodeView>>,
    pub(super) queues: BTreeMap<Name, RecentValue<QueueView>>,
    pub(super) groups: BTreeMap<Name, RecentValue<GroupView>>,
    pub(super) pods: BTreeMap<Name, PodView>,
    pub(super) claims: BTreeMap<Name, ClaimView>,
}

impl ClusterView {
    /// The pod group of a pod, if it was observed.
    pub(super) fn group_of(&self, pod: &PodView) -> Option<&GroupView> {
        self.groups.get(pod.group.as_ref()?)?.now.as_ref()
    }

    /// A queue and its ancestors, leaf first; stops at a missing queue or a cycle.
    pub(super) fn queue_and_ancestors(&self, leaf: &Name) -> Vec<Name> {
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

/// A time span; both ends belong to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeSpan {
    pub(super) from: Time,
    pub(super) until: Time,
}

/// A value and, until the scheduler has seen its last change, the previous value.
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
    pub(super) fn set_current(&mut self, value: Option<T>, span: TimeSpan) {
        let old = std::mem::replace(&mut self.now, value);
        if self.unseen_until < span.from {
            self.before = old;
            self.unseen_until = span.until;
        }
    }

    /// The values that the scheduler may have known at time `at`.
    pub(super) fn visible_at(&self, at: Time) -> impl Iterator<Item = &T> {
        let before = self.before.as_ref().filter(|_| at <= self.unseen_until);
        self.now.iter().chain(before)
    }
}

/// The facts of a node that the audit checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Allocatable resources.
    pub allocatable: Amounts,
    /// Node labels.
    pub labels: Labels,
    /// Node taints.
    pub taints: Vec<Taint>,
    /// The node is cordoned (`spec.unschedulable`).
    pub cordoned: bool,
    /// The node's condition `Ready` is `True`.
    pub ready: bool,
    /// Allocatable resources of the node's NUMA zones, by zone name. Empty if they are not
    /// published.
    pub numa_zones: BTreeMap<Name, Amounts>,
    /// Whether the node's kubelet rejects pods that do not fit into one NUMA zone.
    pub is_single_numa_node: bool,
}

/// The facts of a queue that the audit checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The parent queue.
    pub parent: Option<Name>,
    /// Quota: maximum usage of non-preemptible pods. Resources that are absent are unlimited.
    pub quota: Amounts,
    /// Limit: maximum usage of all pods. Resources that are absent are unlimited.
    pub limit: Amounts,
}

/// The facts of a pod group that the audit checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The leaf queue of the pod group.
    pub queue: Name,
    /// Value of the pod group's priority class.
    pub priority: i32,
    /// Whether the group's pods may be evicted for others, and the group may exceed the quota of
    /// its queue.
    pub preemptible: bool,
    /// The group's sub-groups; at least one. Pods that name no sub-group belong to the first.
    pub sub_groups: Vec<SubGroupView>,
    /// Number of top-level sub-groups that must be whole; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// A sub-group of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubGroupView {
    /// Name of this sub-group.
    pub name: Name,
    /// Index of the parent sub-group.
    pub parent: Option<usize>,
    /// Minimum number of pods of a leaf sub-group.
    pub min_member: usize,
    /// For a sub-group with children: number of children that must be whole; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// The facts of a pod that the audit checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Uid of the pod, which distinguishes pods with the same name.
    pub uid: Name,
    /// The pod's group, as `namespace/name`.
    pub group: Option<Name>,
    /// The pod's PodGroup of Kubernetes (`spec.schedulingGroup`), as `namespace/name`.
    pub scheduling_group: Option<Name>,
    /// Name of the pod's sub-group.
    pub sub_group: Option<Name>,
    /// Resource requests of the pod, including one `pods`.
    pub requests: Amounts,
    /// The node to which it is bound.
    pub node: Option<Name>,
    /// Phase of the pod.
    pub phase: Phase,
    /// Whether the scheduler reported that the API server refuses the binding of the pod.
    pub binding_refused: bool,
    /// Whether the pod is being deleted.
    pub leaving: bool,
    /// The priority of the pod.
    pub priority: i32,
    /// Node selector of the pod.
    pub node_selector: Labels,
    /// Required node affinity of the pod (any term suffices). `None`: the pod has none.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// Tolerations of the pod.
    pub tolerations: Vec<Toleration>,
    /// Indices of the GPUs that the pod was assigned, if known.
    pub devices: Option<Vec<u32>>,
    /// Whether the pod's `QoS` class is Guaranteed, so that the kubelet aligns its CPUs and memory.
    pub guaranteed: bool,
    /// Amounts that the pod takes from the node's NUMA zones, by zone name.
    pub numa_zones: BTreeMap<Name, Amounts>,
    /// The shared devices that the pod uses, with the pod's share of each.
    pub device_shares: Vec<DeviceShare>,
    /// Devices of the pod's claims, by claim; a node provides them once for all users of a claim.
    pub claims: BTreeMap<Name, Amounts>,
    /// Amounts that queues are charged in addition to the pod's requests: GPU fractions, and MIG
    /// instances counted as GPUs.
    pub extra_charges: Amounts,
}

/// The facts of a device claim that the audit checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// The node on which the claim is allocated, if its devices are node-local.
    pub node: Option<Name>,
    /// The nodes that can use the claim's devices (any term suffices). `None`: all nodes.
    pub terms: Option<Vec<NodeSelectorTerm>>,
    /// Devices allocated to the claim, by cluster-wide unique names.
    pub devices: BTreeSet<Name>,
    /// UIDs of the pods for which the claim is reserved.
    pub users: BTreeSet<Name>,
    /// The PodGroups of Kubernetes (`namespace/name`) for all of whose pods the claim is reserved.
    pub pod_groups: BTreeSet<Name>,
}

/// A pod's share of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceShare {
    /// The name of the shared device on the node.
    pub device: Name,
    /// The share in thousandths of the device, rounded down, at least 1. 0: a reservation pod holds
    /// the whole device for the pods that share it.
    pub milli: i64,
}

/// The phase of a pod, as far as the rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The pod has scheduling gates.
    Gated,
    /// The pod has not finished.
    Alive,
    /// The pod succeeded.
    Succeeded,
    /// The pod failed.
    Failed,
}

/// The author of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The scheduler that is audited.
    Scheduler,
    /// Any other client.
    Other,
}

impl PodView {
    /// Whether the pod uses capacity of a node.
    pub(super) fn uses_node_capacity(&self) -> bool {
        self.node.is_some() && self.is_alive()
    }

    /// Whether the pod uses capacity of a node and is not being deleted.
    pub(super) fn is_staying(&self) -> bool {
        self.uses_node_capacity() && !self.leaving
    }

    /// Whether the pod has no node because the API server refuses its binding.
    pub(super) fn waits_for_refused_binding(&self) -> bool {
        self.binding_refused && self.node.is_none() && self.is_alive() && !self.leaving
    }

    /// What queues are charged for the pod, without claims: a queue is charged once for all users
    /// of a claim.
    pub(super) fn queue_charges(&self) -> impl Iterator<Item = (&Name, &i128)> {
        self.requests.iter().chain(&self.extra_charges)
    }

    /// Everything that the pod requests of its node, shared claims included.
    pub(super) fn node_requests(&self) -> impl Iterator<Item = (&Name, &i128)> {
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
pub(super) fn add_scaled<'a>(
    total: &mut Amounts,
    amounts: impl IntoIterator<Item = (&'a Name, &'a i128)>,
    factor: i128,
) {
    for (resource, amount) in amounts {
        *total.entry(resource.clone()).or_default() += amount * factor;
    }
}
