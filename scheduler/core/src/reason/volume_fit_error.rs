//! Why a pod's volumes keep it from a node.

use std::fmt;

use super::EvenWhenEmpty;
use crate::model::{Name, VolumeProblem, name_without_namespace};

/// Why a pod's volumes keep it from a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeFitError {
    /// A volume claim cannot be used anywhere.
    ClaimUnavailable {
        /// Namespace and name of the volume claim.
        claim: Name,
        /// Why the claim cannot be used.
        problem: VolumeProblem,
    },
    /// A volume is not accessible from the node.
    NodeAffinity,
    /// A volume is in another zone or region.
    Zone,
    /// No available volume that is accessible from the node matches a claim.
    NoMatchingVolume,
    /// The driver that would provision a volume has too little capacity for the node.
    InsufficientStorage,
    /// The driver attaches no more volumes to the node.
    TooManyVolumes {
        /// Whether the driver could not attach the volumes even on the empty node.
        even_when_empty: EvenWhenEmpty,
    },
    /// Another pod uses this `ReadWriteOncePod` claim.
    ClaimInUse(Name),
}

impl VolumeFitError {
    /// Whether evicting pods from the node could resolve the error.
    pub(super) const fn is_resolvable_by_eviction(&self) -> bool {
        match self {
            Self::ClaimInUse(_) => true,
            Self::TooManyVolumes { even_when_empty } => {
                matches!(even_when_empty, EvenWhenEmpty::No)
            }
            Self::ClaimUnavailable { .. }
            | Self::NodeAffinity
            | Self::Zone
            | Self::NoMatchingVolume
            | Self::InsufficientStorage => false,
        }
    }

    /// The text that kube-scheduler 1.35 prints for the error. `Display` prints KAI's texts, which
    /// are those of older kube-schedulers.
    pub(super) fn kube_message(&self) -> String {
        match self {
            Self::NodeAffinity => {
                "node(s) didn't match PersistentVolume's node affinity".to_owned()
            }
            Self::ClaimInUse(_) => "node(s) unavailable due to PersistentVolumeClaim with \
                               ReadWriteOncePod access mode already in-use by another pod"
                .to_owned(),
            Self::ClaimUnavailable { .. }
            | Self::Zone
            | Self::NoMatchingVolume
            | Self::InsufficientStorage
            | Self::TooManyVolumes { .. } => self.to_string(),
        }
    }

    /// Writes what an operator can do about the error.
    pub(super) fn fmt_suggestion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimUnavailable { claim, problem } => {
                write!(f, "{} {claim}", problem.suggestion())
            }
            Self::NodeAffinity | Self::Zone => {
                f.write_str("free capacity where its volumes can be used")
            }
            Self::NoMatchingVolume => f.write_str("add a matching volume where the pod fits"),
            Self::InsufficientStorage => f.write_str("free storage where the pod fits"),
            Self::TooManyVolumes { even_when_empty: EvenWhenEmpty::No } => {
                f.write_str("delete pods whose volumes are attached where the pod fits")
            }
            Self::TooManyVolumes { even_when_empty: EvenWhenEmpty::Yes } => {
                f.write_str("use fewer volumes, or add a node that can attach as many")
            }
            Self::ClaimInUse(claim) => {
                write!(f, "delete the pod that uses the volume claim {claim}")
            }
        }
    }
}

impl fmt::Display for VolumeFitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimUnavailable { claim, problem } => {
                f.write_str("node(s) rejected: ")?;
                problem.fmt_message(claim, f)
            }
            Self::NodeAffinity => f.write_str("node(s) had volume node affinity conflict"),
            Self::Zone => f.write_str("node(s) had no available volume zone"),
            Self::NoMatchingVolume => {
                f.write_str("node(s) didn't find available persistent volumes to bind")
            }
            Self::InsufficientStorage => f.write_str("node(s) did not have enough free storage"),
            Self::TooManyVolumes { .. } => f.write_str("node(s) exceed max volume count"),
            Self::ClaimInUse(claim) => write!(
                f,
                "node(s) rejected: another pod has persistentvolumeclaim {:?} with access \
                 mode ReadWriteOncePod",
                name_without_namespace(claim)
            ),
        }
    }
}
