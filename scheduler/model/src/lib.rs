//! The objects of scheduling: node, pod and its shape, pod group, queue. Ids are positions in the
//! lists of [`crate::Snapshot`], which are sorted by name; names are for people.

mod claim;
mod device;
mod disruption_budget;
mod excluded_nodes;
mod gpu;
mod list_edit;
mod name;
mod node;
mod node_selection;
mod numa;
mod pod;
mod pod_group;
mod queue;
mod queue_problem;
pub mod resources;
mod selectors;
mod snapshot;
mod snapshot_changes;
mod topology;
mod volume;

pub use claim::{DeviceClaim, DeviceReach, UnusedClaim};
pub use device::{
    AllocatedShare, AttributeConstraint, AttributeRule, ClaimAlternative, ClaimRequests,
    DeviceAccess, DeviceAmounts, DeviceCount, DeviceProperties, NodeDevice, NodeDeviceRequest,
    SharedDevice,
};
pub use disruption_budget::DisruptionBudget;
pub use excluded_nodes::{ExcludedNodes, LabelMismatch};
pub use gpu::{
    FractionalGpu, GpuFraction, GpuGroup, MIG_ENABLED, MIG_STRATEGY, MigStrategy, mig_profile_gpus,
};
pub use list_edit::ListEdit;
pub use name::Name;
pub use node::{
    CORDONED_TAINT, CPU_WORKER, GPU_WORKER, HOSTNAME, NOT_READY_TAINTS, Node, Taint, TaintEffect,
};
pub use node_selection::NodeSelection;
pub use numa::{ContainerRequests, NumaAllocation, NumaPolicy, NumaScope, NumaTopology, NumaZone};
pub use pod::{
    HostPort, Inclusion, LabelSelector, LeaderRole, NamespaceSet, NodeSelectorTerm, Operator, Pod,
    PodAffinityTerm, PodShape, PodStatus, PreemptionPolicy, Requirement, Toleration,
    TopologySpread, WhenUnsatisfiable,
};
pub use pod_group::{PodGroup, StalenessGrace, SubGroup, UnschedulableMember};
pub use queue::{Queue, QueueProblem};
pub use queue_problem::format_cycle;
pub use selectors::{NamespaceLabels, labels_match};
pub use snapshot::Snapshot;
pub use snapshot_changes::SnapshotChanges;
pub use topology::{Topology, TopologyConstraint, TopologyLevel};
pub use volume::name_without_namespace;
pub use volume::{
    AttachedVolume, ProvisionableVolume, Volume, VolumeAccess, VolumeClaim, VolumeProblem,
    VolumeReach,
};

/// Labels or node-selector pairs, sorted.
pub type Labels = std::collections::BTreeMap<Name, Name>;

/// A point in time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Time since `earlier`; zero when `earlier` lies in the future.
    pub fn elapsed_since(self, earlier: Self) -> std::time::Duration {
        let millis = self.0.saturating_sub(earlier.0);
        std::time::Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// The point in time that is `duration` later.
    #[must_use]
    pub fn plus_duration(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
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
