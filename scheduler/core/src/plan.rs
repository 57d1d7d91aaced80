//! The outcome of a cycle, for the shell to apply.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    decision::{Decision, Reason},
    model::{GpuGroup, PodGroupId, PodId, QueueId, ZoneShare},
    resources::{PerResource, Resources},
};

/// What one cycle decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bindings, evictions and promises, in the order in which they were decided. Decisions of
    /// one transaction (a gang; an eviction set with its preemptor) stand together.
    pub decisions: Vec<Decision>,
    /// The shared devices of pods that were bound or promised room above. A name that no pod
    /// of the snapshot has is a device that nobody shares yet.
    pub gpu_groups: BTreeMap<PodId, Vec<GpuGroup>>,
    /// What pods that were bound or promised room above have of their node's zones, where they
    /// have something.
    pub zones: BTreeMap<PodId, Vec<ZoneShare>>,
    /// Why pod groups with waiting pods wait: one dominant reason each.
    pub waiting: BTreeMap<PodGroupId, Reason>,
    /// Of those that wait for room, or for what their queue may use, those before which others of
    /// their queue are served that do so, too.
    pub behind: BTreeSet<PodGroupId>,
    /// Why single pods wait, where it differs from their group's reason.
    pub waiting_pods: BTreeMap<PodId, Reason>,
    /// Pod groups that are stale now and were not before (`true`), or recovered (`false`).
    pub stale: BTreeMap<PodGroupId, bool>,
    /// What queues share: fair shares are divided from it. What ready nodes have, MIG instances
    /// counted as GPUs, without what pods of other schedulers take there.
    pub shared: PerResource<i64>,
    /// How the cluster was shared, before anything was decided.
    pub queues: BTreeMap<QueueId, QueueUse>,
    /// The same once the decisions are carried out; fair shares are divided anew by the next
    /// cycle only.
    pub queues_after: BTreeMap<QueueId, QueueUse>,
    /// When something will have changed by time alone (a grace or a minimum run time ends), in
    /// milliseconds from now; `None`: nothing.
    pub look_again_in_millis: Option<u64>,
}

/// A queue's accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueUse {
    /// Its fair share, in the units of [`Resources`].
    pub fair_share: PerResource<i64>,
    /// Used by bound pods of it and of its children.
    pub allocated: Resources,
    /// Of that, by non-preemptible pods.
    pub allocated_non_preemptible: Resources,
    /// Allocated, and asked for by pending pods.
    pub requested: Resources,
}
