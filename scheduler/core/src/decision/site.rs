//! What a node has to be like that is added for a pod to which it matters where others are, or who
//! gives GPUs.

use std::collections::{BTreeMap, BTreeSet};

use super::Misfit;
use crate::{model::Name, resources::Resources};

/// How large a node has to be for a pod, and where. Labels of hosts are left out: a node that is
/// added is a new one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// What one pod asks for.
    pub asks: Resources,
    /// Classes of the GPUs that its claims ask for.
    pub gpu_classes: Vec<Name>,
    /// Labels over which it has to be apart from others.
    pub apart_over: BTreeSet<Name>,
    /// Where that is one label: its values on nodes that are only too full.
    pub full: BTreeSet<Name>,
    /// Labels over which it has to be spread, with the values where that would have it.
    pub even: BTreeMap<Name, BTreeSet<Name>>,
    /// Labels of a node that is near the pods that its affinity asks for; `None`: none is.
    pub near: Option<Vec<(Name, Name)>>,
    /// Labels of the place of a topology in which it has to be, from the widest; none: it may be in any,
    /// or no node that is added would be there.
    pub inside: Vec<(Name, Name)>,
    /// So many pods have to be in one place, and the only ones with room are new; 0: that is not so.
    pub together: u32,
    /// It cannot share a node with all others like it.
    pub is_alone: bool,
    /// How many like it have room on nodes of which nothing but the spread speaks against it.
    pub room_if_uneven: u32,
    /// Of these labels nodes have all values that it selects: a new node has no other.
    pub pinned: BTreeSet<Name>,
    /// A label of which others have all values that it selects, and it has to be apart from them.
    pub shut: Option<Pin>,
    /// What of all that keeps it from a node, even if not above all.
    pub kept_by: Option<Misfit>,
}

/// Values of a label that pods select, and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The label.
    pub label: Name,
    /// Its values.
    pub values: BTreeSet<Name>,
}

/// What keeps pods of a gang from each other, where nodes are in too few places for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptApart {
    /// As it is said of one of them.
    pub misfit: Misfit,
    /// They select fewer places than there are of them: no node that is added helps.
    pub pin: Option<Pin>,
    /// How many may run instead, if there is nobody but them in the gang.
    pub fewer: Option<u32>,
}

impl Site {
    /// What is known of the same pod beside other nodes.
    pub(super) fn add(&mut self, other: Self) {
        self.apart_over.extend(other.apart_over);
        self.full.extend(other.full);
        for (label, values) in other.even {
            self.even.entry(label).or_default().extend(values);
        }
        self.near = self.near.take().or(other.near);
        self.kept_by = self.kept_by.take().or(other.kept_by);
    }
}

/// What keeps a pod from nodes is where others are: another place would do, or one more node in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceNeed<'a> {
    /// It has to be apart from others.
    Apart,
    /// Others have its ports, this one if it is the only one.
    Port(Option<u16>),
    /// It has to be near others.
    Near,
    /// It would be spread too unevenly over this label.
    Even(&'a Name),
    /// The label over which it is to be spread has too few values.
    Domains {
        /// The label.
        key: &'a Name,
        /// How many values it has.
        domains: u32,
        /// How many it has to have.
        least: u32,
    },
}

impl PlaceNeed<'_> {
    /// The label over which the pod is to be spread.
    pub(crate) const fn spread_over(&self) -> Option<&Name> {
        match self {
            Self::Even(key) | Self::Domains { key, .. } => Some(key),
            Self::Apart | Self::Port(_) | Self::Near => None,
        }
    }
}

impl Misfit {
    /// What it needs of a place, if that is what speaks against the pod.
    pub(crate) const fn place_need(&self) -> Option<PlaceNeed<'_>> {
        Some(match self {
            Self::PodAntiAffinity | Self::OthersAntiAffinity => PlaceNeed::Apart,
            Self::HostPort { port } => PlaceNeed::Port(*port),
            Self::PodAffinity => PlaceNeed::Near,
            Self::TopologySpread(key) => PlaceNeed::Even(key),
            Self::TooFewDomains { key, domains, least } => {
                PlaceNeed::Domains { key, domains: *domains, least: *least }
            }
            Self::TooLittle { .. }
            | Self::DeviceMemory { .. }
            | Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::AffinityToMates
            | Self::TopologySpreadLabel(_)
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::NotSplit
            | Self::LegacyMig
            | Self::LegacyMigThere
            | Self::ClaimElsewhere(_)
            | Self::ClaimFull(_)
            | Self::ClaimOfQueue { .. }
            | Self::NotAligned { .. }
            | Self::GpusByClaim
            | Self::GpusWithoutClaim
            | Self::NoGpuWorker
            | Self::NoCpuWorker
            | Self::Place(_)
            | Self::Volume(_)
            | Self::Devices(_)
            | Self::QueueBound(_) => return None,
        })
    }

    /// The pod would be spread too unevenly.
    pub(crate) const fn is_of_spread(&self) -> bool {
        matches!(self, Self::TopologySpread(_) | Self::TooFewDomains { .. })
    }

    /// It would be over this label.
    pub(crate) fn is_of_spread_over(&self, label: &Name) -> bool {
        let need = self.place_need();
        need.as_ref().and_then(PlaceNeed::spread_over) == Some(label)
    }

    /// It has to be apart from others that are there.
    pub(crate) const fn is_of_apartness(&self) -> bool {
        matches!(self, Self::PodAntiAffinity | Self::OthersAntiAffinity)
    }
}
