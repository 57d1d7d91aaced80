//! The nouns of scheduling: node, pod and its shape, pod group, queue. Ids are positions in
//! the [`crate::Snapshot`]'s lists, which are sorted by name; names are what people see.

mod claim;
mod disruption_budget;
mod gpu;
mod left_out;
mod node;
mod numa;
mod pod;
mod pod_group;
mod queue;
mod selection;
mod selectors;
mod topology;
mod volume;

use std::sync::Arc;

pub use claim::{DeviceClaim, DeviceReach, DeviceWish, HeldClaim};
pub use disruption_budget::DisruptionBudget;
pub use gpu::{GpuGroup, GpuPart, MIG_ENABLED, MIG_STRATEGY, MigStrategy, SharedGpu, mig_gpus};
pub use left_out::{Lack, LeftOut};
pub use node::{
    CORDONED_TAINT, CPU_WORKER, GPU_WORKER, HOSTNAME, NOT_READY_TAINTS, Node, Taint, TaintEffect,
};
pub use numa::{ContainerRequests, NumaPolicy, NumaScope, NumaTopology, NumaZone, ZoneShare};
pub use pod::{
    HostPort, Inclusion, LabelSelector, Leader, NamespaceSet, NodeSelectorTerm, Operator, Pod,
    PodAffinityTerm, PodShape, PodStatus, PreemptionPolicy, Requirement, Toleration,
    TopologySpread, WhenUnsatisfiable,
};
pub use pod_group::{PodGroup, StalenessGrace, SubGroup, UnusableMember};
pub use queue::{Queue, QueueProblem};
pub use selection::Selection;
pub(crate) use selectors::labels_match;
pub use topology::{Topology, TopologyConstraint, TopologyLevel};
pub(crate) use volume::own_name;
pub use volume::{
    AttachedVolume, Made, Volume, VolumeAccess, VolumeClaim, VolumeProblem, VolumeReach,
};

/// A name or label as Kubernetes writes it, shared rather than copied.
pub type Name = Arc<str>;

/// Labels or node-selector pairs, sorted.
pub type Labels = std::collections::BTreeMap<Name, Name>;

/// A moment, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// How long ago `earlier` was; zero when it lies ahead.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        let millis = self.0.saturating_sub(earlier.0);
        std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// The moment that comes so much later.
    #[must_use]
    pub fn after(self, time: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// Position of a node in [`crate::Snapshot::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Position of a pod in [`crate::Snapshot::pods`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

/// Position of a shape in [`crate::Snapshot::shapes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

/// Position of a pod group in [`crate::Snapshot::pod_groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodGroupId(pub u32);

/// Position of a queue in [`crate::Snapshot::queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u32);
