//! The facts that the rules are about: nodes, queues, groups and pods, under their names. It
//! leaves out everything that no rule asks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Labels, Name, NodeSelectorTerm, Taint, Time, Toleration};

/// Amounts by resource name, all in thousandths of the resource's own unit (GPU, core, byte,
/// pod): one unit, wide enough for everything that an API can carry.
pub type Amounts = BTreeMap<Name, i128>;

/// What is known now.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) nodes: BTreeMap<Name, Recent<NodeView>>,
    pub(super) queues: BTreeMap<Name, Recent<QueueView>>,
    pub(super) groups: BTreeMap<Name, Recent<GroupView>>,
    pub(super) pods: BTreeMap<Name, PodView>,
    pub(super) claims: BTreeMap<Name, ClaimView>,
}

impl View {
    /// The group of a pod, when both are known.
    pub(super) fn group_of(&self, pod: &PodView) -> Option<&GroupView> {
        self.groups.get(pod.group.as_ref()?)?.now.as_ref()
    }

    /// A queue and everything above it, lowest first. Ends where the tree is broken.
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

/// A stretch of time, both ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Time,
    pub(super) until: Time,
}

/// A value and, until the scheduler has seen that it changed, the one before it.
#[derive(Clone, Debug)]
pub(super) struct Recent<T> {
    pub(super) now: Option<T>,
    before: Option<T>,
    unseen_until: Time,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { now: None, before: None, unseen_until: Time(i64::MIN) }
    }
}

impl<T> Recent<T> {
    pub(super) fn set(&mut self, value: Option<T>, span: Span) {
        let old = std::mem::replace(&mut self.now, value);
        if self.unseen_until < span.from {
            self.before = old;
            self.unseen_until = span.until;
        }
    }

    /// What the scheduler may have seen at this time.
    pub(super) fn seen(&self, at: Time) -> impl Iterator<Item = &T> {
        let before = self.before.as_ref().filter(|_| at <= self.unseen_until);
        self.now.iter().chain(before)
    }
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// What it can give to pods.
    pub allocatable: Amounts,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub cordoned: bool,
    /// Condition `Ready` is `True`.
    pub ready: bool,
    /// What its zones can give, by their names, where they are published.
    pub zones: BTreeMap<Name, Amounts>,
    /// Its kubelet refuses pods that it cannot serve from one zone as a whole.
    pub one_zone: bool,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// The queue above it.
    pub parent: Option<Name>,
    /// Most that non-preemptible work may use. A resource that is not named has no bound.
    pub quota: Amounts,
    /// Most that may be used at all. A resource that is not named has no bound.
    pub limit: Amounts,
}

/// A pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// The queue it is charged to.
    pub queue: Name,
    /// Value of its priority class.
    pub priority: i32,
    /// May be evicted for others, and may use more than its queue's quota.
    pub preemptible: bool,
    /// Its parts; at least one. A pod that names none belongs to the first.
    pub sub_groups: Vec<SubGroupView>,
    /// How many parts without a parent must be complete; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// A part of a pod group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubGroupView {
    /// Its name.
    pub name: Name,
    /// Position of the part it belongs to.
    pub parent: Option<usize>,
    /// Pods that must be there together.
    pub min_member: usize,
    /// Of an inner part: how many of its own parts must be complete; `None`: all.
    pub min_sub_groups: Option<usize>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Tells pods of one name apart.
    pub uid: Name,
    /// Namespace and name of its group, as `namespace/name`.
    pub group: Option<Name>,
    /// The part of the group it belongs to.
    pub sub_group: Option<Name>,
    /// What it asks for, one `pods` included.
    pub requests: Amounts,
    /// Where it was put.
    pub node: Option<Name>,
    /// Where it is in its life.
    pub phase: Phase,
    /// It has been asked to leave.
    pub leaving: bool,
    /// Its own priority.
    pub priority: i32,
    /// Node labels it insists on.
    pub node_selector: Labels,
    /// Node affinity it insists on: any term suffices. `None`: it has none.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// What it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Indices of the GPUs it was given.
    pub devices: Option<Vec<u32>>,
    /// Its kubelet gives it CPUs and memory of its own.
    pub guaranteed: bool,
    /// What it has of its node's zones, by their names.
    pub zones: BTreeMap<Name, Amounts>,
    /// The devices that it shares with others, and the part that it takes of each.
    pub parts: Vec<Part>,
    /// The devices of its claims, by claim; a node gives them once to all who share a claim.
    pub claims: BTreeMap<Name, Amounts>,
    /// What its queues pay beside its requests: parts of GPUs, and MIG instances as GPUs.
    pub paid_besides: Amounts,
}

/// A claim on devices, as the API has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimView {
    /// Where it is allocated, if it says so.
    pub node: Option<Name>,
    /// From which nodes its devices can be used: any term suffices. `None`: from all.
    pub terms: Option<Vec<NodeSelectorTerm>>,
    /// The devices that it has got, under names that are unique in the cluster.
    pub devices: BTreeSet<Name>,
    /// Uids of the pods for which it is reserved.
    pub users: BTreeSet<Name>,
}

/// A part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name under which pods of the node share it.
    pub device: Name,
    /// Thousandths of the device, rounded down, but at least one. 0: it holds the device as a
    /// whole one, for those that share it.
    pub milli: i64,
}

/// The life of a pod, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its scheduling gates to go.
    Gated,
    /// Not finished.
    Alive,
    /// Finished well.
    Succeeded,
    /// Finished badly.
    Failed,
}

/// Who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The scheduler that is judged.
    Scheduler,
    /// Anybody else.
    Other,
}

impl PodView {
    /// It takes room on a node.
    pub(super) fn holds_room(&self) -> bool {
        self.node.is_some() && self.alive()
    }

    /// It takes room and is there to stay.
    pub(super) fn stays(&self) -> bool {
        self.holds_room() && !self.leaving
    }

    /// What its queues pay besides its claims, which they pay once for all who share one.
    pub(super) fn paid(&self) -> impl Iterator<Item = (&Name, &i128)> {
        self.requests.iter().chain(&self.paid_besides)
    }

    /// What it has of its node, alone or with others.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&Name, &i128)> {
        self.requests.iter().chain(self.claims.values().flatten())
    }

    pub(super) fn alive(&self) -> bool {
        match self.phase {
            Phase::Gated | Phase::Alive => true,
            Phase::Succeeded | Phase::Failed => false,
        }
    }
}

/// Adds `amounts` to `total`, or takes them away.
pub(super) fn add<'a>(
    total: &mut Amounts,
    amounts: impl IntoIterator<Item = (&'a Name, &'a i128)>,
    factor: i128,
) {
    for (resource, amount) in amounts {
        *total.entry(resource.clone()).or_default() += amount * factor;
    }
}
