//! How far nodes are from taking a pod. A node is as far as what stands most in the way there, and
//! a remedy is for the nodes that are nearest: opening one that would refuse all the same is none.

use std::collections::BTreeMap;

use super::{
    DeviceMisfit, EvenWhenEmpty, Misfit, Misfits, PlaceMisfit, VolumeMisfit, misfit::Refusal,
};
use crate::model::{CORDONED_TAINT, NOT_READY_TAINTS};

/// How many nodes something stands in the way on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    pub(super) all: u32,
    /// Of them, those on which more does.
    pub(super) with_more: u32,
}

/// How much a misfit stands in the way, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    /// The node is only too full.
    Full,
    /// It is closed to the pod as things are.
    Closed,
    /// Pods of its own gang have it.
    Mates,
    /// The pod is for other nodes.
    Elsewhere,
    /// It is of another kind than the pod asks for.
    OtherKind,
    /// It is too small.
    TooSmall,
    /// No node would do.
    Everywhere,
}

impl Misfit {
    const fn obstacle(&self) -> Obstacle {
        match self {
            Self::TooLittle { even_when_empty: EvenWhenEmpty::No, .. }
            | Self::NotAligned { even_when_empty: EvenWhenEmpty::No } => Obstacle::Full,
            Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::PodAffinity
            | Self::AffinityToMates
            | Self::PodAntiAffinity
            | Self::OthersAntiAffinity
            | Self::HostPort { .. }
            | Self::TopologySpread(_)
            | Self::TooFewDomains { .. }
            | Self::TopologySpreadLabel(_)
            | Self::LegacyMigThere
            | Self::QueueBound(_) => Obstacle::Closed,
            Self::NodeAffinity { .. } | Self::ClaimElsewhere(_) => Obstacle::Elsewhere,
            Self::DeviceMemory { .. }
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::NotSplit
            | Self::GpusByClaim
            | Self::GpusWithoutClaim
            | Self::NoGpuWorker
            | Self::NoCpuWorker
            | Self::NotAligned { even_when_empty: EvenWhenEmpty::Yes } => Obstacle::OtherKind,
            Self::TooLittle { even_when_empty: EvenWhenEmpty::Yes, .. } => Obstacle::TooSmall,
            Self::LegacyMig | Self::ClaimFull(_) | Self::ClaimOfQueue { .. } => {
                Obstacle::Everywhere
            }
            Self::Place(misfit) => of_place(misfit),
            Self::Volume(misfit) => of_volume(misfit),
            Self::Devices(misfit) => of_devices(misfit),
        }
    }
}

impl Misfit {
    /// The node would do if it were labelled, or opened.
    const fn is_to_be_opened(&self) -> bool {
        matches!(
            self,
            Self::Taint { .. }
                | Self::Unschedulable
                | Self::NotReady
                | Self::NodeAffinity { .. }
                | Self::NoGpuWorker
                | Self::NoCpuWorker
        )
    }

    /// It is about where other pods are, or what the pod has elsewhere, and not about the node.
    const fn binds(&self) -> bool {
        matches!(
            self,
            Self::PodAffinity
                | Self::AffinityToMates
                | Self::TopologySpread(_)
                | Self::TooFewDomains { .. }
                | Self::ClaimElsewhere(_)
                | Self::Volume(
                    VolumeMisfit::Elsewhere | VolumeMisfit::Zone | VolumeMisfit::NoneToBind
                )
                | Self::Devices(DeviceMisfit::Elsewhere(_) | DeviceMisfit::NoneFree)
        )
    }
}

const fn of_place(misfit: &PlaceMisfit) -> Obstacle {
    match misfit {
        PlaceMisfit::TooFull { .. } | PlaceMisfit::Unlabelled { .. } => Obstacle::Elsewhere,
        PlaceMisfit::Elsewhere { .. } => Obstacle::Everywhere,
    }
}

const fn of_volume(misfit: &VolumeMisfit) -> Obstacle {
    match misfit {
        VolumeMisfit::NoneToBind
        | VolumeMisfit::NoStorage
        | VolumeMisfit::TooMany { even_when_empty: EvenWhenEmpty::No } => Obstacle::Closed,
        VolumeMisfit::Elsewhere | VolumeMisfit::Zone => Obstacle::Elsewhere,
        VolumeMisfit::TooMany { even_when_empty: EvenWhenEmpty::Yes } => Obstacle::OtherKind,
        VolumeMisfit::Nowhere { .. } | VolumeMisfit::InUse(_) => Obstacle::Everywhere,
    }
}

const fn of_devices(misfit: &DeviceMisfit) -> Obstacle {
    match misfit {
        DeviceMisfit::TooFew { even_when_empty: EvenWhenEmpty::No, .. }
        | DeviceMisfit::NoneFree => Obstacle::Closed,
        DeviceMisfit::TooFew { even_when_empty: EvenWhenEmpty::Yes, .. } => Obstacle::OtherKind,
        DeviceMisfit::Elsewhere(_) => Obstacle::Elsewhere,
        DeviceMisfit::InUse(_) => Obstacle::Everywhere,
    }
}

/// What stands most in the way, the first of its kind.
pub(crate) fn worst(first: &Misfit, others: impl Iterator<Item = Misfit>) -> Misfit {
    behind(others.fold(first.clone(), |worst, other| {
        if other.obstacle() > worst.obstacle() { other } else { worst }
    }))
}

/// The worst is that the node is not open to the pod, and it would be refused all the same if it were.
pub(crate) fn has_more<'a>(worst: &Misfit, mut all: impl Iterator<Item = &'a Misfit>) -> bool {
    let is_more = |misfit: &Misfit| {
        matches!(misfit, Misfit::Taint { has_more: true, .. }) || behind(misfit.clone()) != *worst
    };
    worst.is_to_be_opened() && all.any(is_more)
}

/// A taint that Kubernetes puts on a node for its state is not there to be tolerated. What else
/// there is besides one is counted by itself.
fn behind(misfit: Misfit) -> Misfit {
    let Misfit::Taint { key, value, .. } = misfit else { return misfit };
    if *key == *CORDONED_TAINT {
        return Misfit::Unschedulable;
    }
    if NOT_READY_TAINTS.contains(&&*key) {
        return Misfit::NotReady;
    }
    Misfit::Taint { key, value, has_more: false }
}

impl Misfits {
    /// Other nodes refuse the pod as it is bound to some of them: a new one might not suit it.
    pub(super) fn is_bound(&self) -> bool {
        self.counts.keys().any(|refusal| refusal.worst.binds())
    }

    /// What stands most in the way on the nodes that are nearest, and on how many of them.
    pub(super) fn on_nearest(&self) -> BTreeMap<&Misfit, Nodes> {
        let nearest = self.nearest();
        let mut on_nearest: BTreeMap<&Misfit, Nodes> = BTreeMap::new();
        for (refusal, nodes) in &self.counts {
            if Some(refusal.obstacle()) == nearest {
                let known = on_nearest.entry(&refusal.worst).or_default();
                known.all += nodes;
                known.with_more += nodes * u32::from(refusal.has_more);
            }
        }
        on_nearest
    }

    /// On the nodes that are nearest its own gang stands in the way.
    pub(super) fn mates_are_nearest(&self) -> bool {
        self.nearest() == Some(Obstacle::Mates)
    }

    /// No node would hold the pod, were it empty, or none of those to whose names it is bound.
    pub(crate) fn are_of_small_nodes(&self) -> bool {
        self.named_are_small == Some(true) || self.nearest() == Some(Obstacle::TooSmall)
    }

    fn nearest(&self) -> Option<Obstacle> {
        self.counts.keys().map(Refusal::obstacle).min()
    }
}

impl Refusal {
    /// What is said about places comes last: where it is told, nothing else speaks against the pod,
    /// and a node that lacks labels is only closed.
    const fn obstacle(&self) -> Obstacle {
        match (&self.first, self.for_mates) {
            (Misfit::Place(PlaceMisfit::Unlabelled { .. }), _) => Obstacle::Closed,
            (_, true) => Obstacle::Mates,
            (_, false) => self.worst.obstacle(),
        }
    }
}
