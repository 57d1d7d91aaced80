//! What an added node must be like for a pod to which the placement of other pods, or the source of
//! GPUs, matters.

use std::collections::{BTreeMap, BTreeSet};

use super::FitError;
use crate::{model::Name, resources::Resources};

/// How large an added node must be for a pod, and where. Hostname labels are left out, since an
/// added node has a new name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRequirements {
    /// Resource requests of one pod.
    pub requests: Resources,
    /// Device classes of the GPUs that the pod's claims request.
    pub gpu_classes: Vec<Name>,
    /// Label keys over which the pod's anti-affinity keeps it apart from other pods.
    pub exclusion_labels: BTreeSet<Name>,
    /// When `exclusion_labels` is a single label: its values on nodes that are too full and have no
    /// other error.
    pub full_domains: BTreeSet<Name>,
    /// Keys of the pod's topology spread constraints, with the values that satisfy them.
    pub spread_domains: BTreeMap<Name, BTreeSet<Name>>,
    /// Labels of a node that satisfies the pod's affinity; `None` when no node does.
    pub affinity_labels: Option<Vec<(Name, Name)>>,
    /// Labels of the topology domain that the pod must be in, widest level first. Empty when any
    /// domain will do, or no added node would be in the right one.
    pub domain_labels: Vec<(Name, Name)>,
    /// Number of pods that must be in one domain when only a new domain has capacity; 0 otherwise.
    pub pods_in_one_domain: u32,
    /// Whether the pod cannot share a node with all pods of its shape.
    pub needs_own_node: bool,
    /// Number of pods of this shape that would fit on nodes that only topology spread excludes.
    pub capacity_ignoring_spread: u32,
    /// Labels for which existing nodes have all the values that the pod selects: a new node adds no
    /// value.
    pub pinned_labels: BTreeSet<Name>,
    /// A label whose selected values are all taken by pods that the pod's anti-affinity excludes.
    pub exhausted_label: Option<PinnedLabel>,
    /// The placement error that keeps the pod from a node, even when another error ranks worse.
    pub placement_error: Option<FitError>,
}

/// The only values of a label that pods select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLabel {
    /// Key of the label.
    pub label: Name,
    /// Values of the label.
    pub values: BTreeSet<Name>,
}

/// Why pods of a gang cannot run next to each other, when there are too few nodes or domains for
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MutualExclusion {
    /// The error that is reported for one of the pods.
    pub fit_error: FitError,
    /// Set when the pods select fewer domains than there are pods, so that no added node helps.
    pub pin: Option<PinnedLabel>,
    /// Number of pods that could run, when the gang has no pods besides these.
    pub fewer: Option<u32>,
}

impl NodeRequirements {
    /// Adds the requirements found on other nodes for the same pod.
    pub(super) fn merge(&mut self, other: Self) {
        self.exclusion_labels.extend(other.exclusion_labels);
        self.full_domains.extend(other.full_domains);
        for (label, values) in other.spread_domains {
            self.spread_domains.entry(label).or_default().extend(values);
        }
        self.affinity_labels = self.affinity_labels.take().or(other.affinity_labels);
        self.placement_error = self.placement_error.take().or(other.placement_error);
    }
}

/// A need that depends on where other pods are: a node in another domain, or one more node in a
/// domain, would satisfy it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementNeed<'a> {
    /// The pod must be away from certain other pods.
    AwayFromPods,
    /// The pod's host ports must be free; holds the port when it is a single one.
    FreeHostPort(Option<u16>),
    /// The pod must be near certain other pods.
    NearPods,
    /// The topology spread over this label must stay even.
    EvenSpread(&'a Name),
    /// The topology spread needs more values of a label.
    MoreDomains {
        /// Key of the label.
        key: &'a Name,
        /// Number of values that the label has.
        domains: u32,
        /// Number of values that the label needs (`minDomains`).
        min_domains: u32,
    },
}

impl PlacementNeed<'_> {
    /// Key of the topology spread constraint that the error is about.
    pub(crate) const fn spread_label(&self) -> Option<&Name> {
        match self {
            Self::EvenSpread(key) | Self::MoreDomains { key, .. } => Some(key),
            Self::AwayFromPods | Self::FreeHostPort(_) | Self::NearPods => None,
        }
    }
}

impl FitError {
    /// The placement need behind this error, if there is one.
    pub const fn placement_need(&self) -> Option<PlacementNeed<'_>> {
        Some(match self {
            Self::PodAntiAffinity | Self::ExistingPodsAntiAffinity => PlacementNeed::AwayFromPods,
            Self::HostPort { port } => PlacementNeed::FreeHostPort(*port),
            Self::PodAffinity => PlacementNeed::NearPods,
            Self::TopologySpread(key) => PlacementNeed::EvenSpread(key),
            Self::TooFewDomains { key, domains, min_domains } => {
                PlacementNeed::MoreDomains { key, domains: *domains, min_domains: *min_domains }
            }
            Self::InsufficientResources { .. }
            | Self::InsufficientGpuMemory { .. }
            | Self::Taint { .. }
            | Self::Unschedulable
            | Self::NotReady
            | Self::NodeAffinity { .. }
            | Self::PodAffinityToOwnGang
            | Self::TopologySpreadLabelMissing(_)
            | Self::WholeGpusOnly
            | Self::MigInstancesOnly
            | Self::MigDisabled
            | Self::LegacyMig
            | Self::LegacyMigPodOnNode
            | Self::ClaimOnOtherNode(_)
            | Self::ClaimUsersExhausted(_)
            | Self::ClaimQueueMismatch { .. }
            | Self::NumaMisaligned { .. }
            | Self::GpusOnlyViaDra
            | Self::GpusNotViaDra
            | Self::NotGpuWorker
            | Self::NotCpuWorker
            | Self::Topology(_)
            | Self::Volume(_)
            | Self::Devices(_)
            | Self::QueueBoundExceeded(_) => return None,
        })
    }

    /// Whether the error is a violated topology spread constraint.
    pub(crate) const fn is_topology_spread(&self) -> bool {
        matches!(self, Self::TopologySpread(_) | Self::TooFewDomains { .. })
    }

    /// Whether the error is a violated topology spread constraint over this label.
    pub(crate) fn is_topology_spread_over(&self, label: &Name) -> bool {
        let need = self.placement_need();
        need.as_ref().and_then(PlacementNeed::spread_label) == Some(label)
    }

    /// Whether the error is a violated anti-affinity rule, of the pod or of an existing pod.
    pub(crate) const fn is_anti_affinity(&self) -> bool {
        matches!(self, Self::PodAntiAffinity | Self::ExistingPodsAntiAffinity)
    }
}
