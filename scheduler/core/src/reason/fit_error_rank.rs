//! Ranks how far nodes are from accepting a pod. A node ranks by its worst error, and a suggestion
//! addresses the nearest nodes: opening a node that would still reject the pod is no suggestion.

use std::collections::BTreeMap;

use super::{
    DeviceFitError, EvenWhenEmpty, FitError, FitErrors, NoAllocationCause, TopologyFitError,
    VolumeFitError, fit_error::NodeRefusal,
};
use crate::model::{CORDONED_TAINT, NOT_READY_TAINTS};

/// Number of nodes that have a certain error.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeCounts {
    pub(super) all: u32,
    /// Number of the nodes that have other errors as well.
    pub(super) with_other_errors: u32,
}

/// How hard an error is to resolve, easiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ErrorRank {
    /// The node is too full, and has no other error.
    Full,
    /// The node is closed to the pod for now.
    Closed,
    /// Pods of the pod's own gang use the node.
    OwnGang,
    /// The pod belongs on other nodes.
    OtherNodes,
    /// The node is of another kind than the pod requires.
    OtherKind,
    /// The node is too small.
    TooSmall,
    /// The pod fits on no node at all.
    NoNode,
}

impl FitError {
    const fn error_rank(&self) -> ErrorRank {
        match self {
            Self::InsufficientResources { even_when_empty: EvenWhenEmpty::No, .. }
            | Self::NumaMisaligned { even_when_empty: EvenWhenEmpty::No } => ErrorRank::Full,
            Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::PodAffinity
            | Self::PodAffinityToOwnGang
            | Self::PodAntiAffinity
            | Self::ExistingPodsAntiAffinity
            | Self::HostPort { .. }
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. }
            | Self::TopologySpreadLabelMissing(_)
            | Self::LegacyMigPodOnNode
            | Self::QueueBoundExceeded(_) => ErrorRank::Closed,
            Self::NodeAffinity { .. } | Self::ClaimOnOtherNode(_) => ErrorRank::OtherNodes,
            Self::InsufficientGpuMemory { .. }
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::MigDisabled
            | Self::GpusOnlyViaDra
            | Self::GpusNotViaDra
            | Self::NotGpuWorker
            | Self::NotCpuWorker
            | Self::NumaMisaligned { even_when_empty: EvenWhenEmpty::Yes } => ErrorRank::OtherKind,
            Self::InsufficientResources { even_when_empty: EvenWhenEmpty::Yes, .. } => {
                ErrorRank::TooSmall
            }
            Self::LegacyMig | Self::ClaimUsersExhausted(_) | Self::ClaimQueueMismatch { .. } => {
                ErrorRank::NoNode
            }
            Self::Topology(fit_error) => topology_rank(fit_error),
            Self::Volume(fit_error) => volume_rank(fit_error),
            Self::Devices(fit_error) => device_rank(fit_error),
        }
    }
}

impl FitError {
    /// Whether labelling or opening the node would resolve the error.
    const fn is_fixed_by_opening_node(&self) -> bool {
        matches!(
            self,
            Self::Taint { .. }
                | Self::Unschedulable
                | Self::NotReady
                | Self::NodeAffinity { .. }
                | Self::NotGpuWorker
                | Self::NotCpuWorker
        )
    }

    /// Whether the error depends on where other pods, volumes or claims are, not on the node
    /// itself.
    const fn depends_on_location(&self) -> bool {
        matches!(
            self,
            Self::PodAffinity
                | Self::PodAffinityToOwnGang
                | Self::TopologySpread(_)
                | Self::TooFewDomains { .. }
                | Self::ClaimOnOtherNode(_)
                | Self::Volume(
                    VolumeFitError::NodeAffinity
                        | VolumeFitError::Zone
                        | VolumeFitError::NoMatchingVolume
                )
                | Self::Devices(
                    DeviceFitError::ClaimOnOtherNode(_) | DeviceFitError::NoReachableDevice
                )
        )
    }
}

const fn topology_rank(fit_error: &TopologyFitError) -> ErrorRank {
    match fit_error {
        TopologyFitError::DomainTooFull { .. } | TopologyFitError::MissingLabels { .. } => {
            ErrorRank::OtherNodes
        }
        TopologyFitError::OtherDomain { .. } => ErrorRank::NoNode,
    }
}

const fn volume_rank(fit_error: &VolumeFitError) -> ErrorRank {
    match fit_error {
        VolumeFitError::NoMatchingVolume
        | VolumeFitError::InsufficientStorage
        | VolumeFitError::TooManyVolumes { even_when_empty: EvenWhenEmpty::No } => {
            ErrorRank::Closed
        }
        VolumeFitError::NodeAffinity | VolumeFitError::Zone => ErrorRank::OtherNodes,
        VolumeFitError::TooManyVolumes { even_when_empty: EvenWhenEmpty::Yes } => {
            ErrorRank::OtherKind
        }
        VolumeFitError::ClaimUnavailable { .. } | VolumeFitError::ClaimInUse(_) => {
            ErrorRank::NoNode
        }
    }
}

const fn device_rank(fit_error: &DeviceFitError) -> ErrorRank {
    match fit_error {
        DeviceFitError::InsufficientDevices { even_when_empty: EvenWhenEmpty::No, .. }
        | DeviceFitError::NoReachableDevice
        | DeviceFitError::NoAllocation { cause: NoAllocationCause::DevicesInUse, .. } => {
            ErrorRank::Closed
        }
        DeviceFitError::InsufficientDevices { even_when_empty: EvenWhenEmpty::Yes, .. }
        | DeviceFitError::NoAllocation {
            cause: NoAllocationCause::UnsuitableDevices | NoAllocationCause::SearchLimit,
            ..
        } => ErrorRank::OtherKind,
        DeviceFitError::ClaimOnOtherNode(_) => ErrorRank::OtherNodes,
        DeviceFitError::ClaimUsersExhausted(_) => ErrorRank::NoNode,
    }
}

/// The error that is hardest to resolve; among equals the first.
pub(crate) fn worst_fit_error(
    first: &FitError,
    others: impl Iterator<Item = FitError>,
) -> FitError {
    without_state_taint(others.fold(first.clone(), |worst, other| {
        if other.error_rank() > worst.error_rank() { other } else { worst }
    }))
}

/// Whether the worst error is that the node is closed, and the node has other errors besides.
pub(crate) fn has_other_errors<'a>(
    worst: &FitError,
    mut all: impl Iterator<Item = &'a FitError>,
) -> bool {
    let is_more = |fit_error: &FitError| {
        matches!(fit_error, FitError::Taint { has_other_errors: true, .. })
            || without_state_taint(fit_error.clone()) != *worst
    };
    worst.is_fixed_by_opening_node() && all.any(is_more)
}

/// Replaces a taint that Kubernetes sets for the state of a node by an error about that state,
/// because such taints are not meant to be tolerated. Other taints stay as they are.
fn without_state_taint(fit_error: FitError) -> FitError {
    let FitError::Taint { key, value, .. } = fit_error else { return fit_error };
    if *key == *CORDONED_TAINT {
        return FitError::Unschedulable;
    }
    if NOT_READY_TAINTS.contains(&&*key) {
        return FitError::NotReady;
    }
    FitError::Taint { key, value, has_other_errors: false }
}

impl FitErrors {
    /// Whether some nodes reject the pod because it is tied to the location of other pods, volumes
    /// or claims: a new node might not suit it.
    pub(super) fn is_tied_to_location(&self) -> bool {
        self.refusals.keys().any(|refusal| refusal.worst.depends_on_location())
    }

    /// The worst errors of the nearest nodes, that is of those whose worst error is easiest to
    /// resolve, with the number of nodes that have them.
    pub(super) fn worst_errors_of_nearest_nodes(&self) -> BTreeMap<&FitError, NodeCounts> {
        let nearest = self.nearest_rank();
        let mut on_nearest: BTreeMap<&FitError, NodeCounts> = BTreeMap::new();
        for (refusal, nodes) in &self.refusals {
            if Some(refusal.error_rank()) == nearest {
                let counts = on_nearest.entry(&refusal.worst).or_default();
                counts.all += nodes;
                counts.with_other_errors += nodes * u32::from(refusal.has_other_errors);
            }
        }
        on_nearest
    }

    /// Whether the nearest nodes reject the pod because the pod's own gang uses them.
    pub(super) fn are_nearest_nodes_used_by_own_gang(&self) -> bool {
        self.nearest_rank() == Some(ErrorRank::OwnGang)
    }

    /// Whether no node would hold the pod even if it were empty. Of a pod that selects nodes by
    /// name, only those nodes count.
    pub(crate) fn are_nodes_too_small(&self) -> bool {
        self.named_nodes_too_small == Some(true) || self.nearest_rank() == Some(ErrorRank::TooSmall)
    }

    fn nearest_rank(&self) -> Option<ErrorRank> {
        self.refusals.keys().map(NodeRefusal::error_rank).min()
    }
}

impl NodeRefusal {
    /// How hard the error is to resolve. Topology errors are reported only when nothing else
    /// rejects the pod; missing topology labels then merely close the node.
    const fn error_rank(&self) -> ErrorRank {
        match (&self.first, self.is_by_own_gang) {
            (FitError::Topology(TopologyFitError::MissingLabels { .. }), _) => ErrorRank::Closed,
            (_, true) => ErrorRank::OwnGang,
            (_, false) => self.worst.error_rank(),
        }
    }
}
