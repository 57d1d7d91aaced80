//! Why a pod does not fit on a node for its volumes.

use std::fmt;

use super::EvenWhenEmpty;
use crate::model::{Name, VolumeProblem, own_name};

/// Why a pod does not fit on a node for its volumes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeMisfit {
    /// A claim can be had nowhere.
    Nowhere {
        /// Namespace and name of the claim.
        claim: Name,
        /// Why not.
        problem: VolumeProblem,
    },
    /// A volume cannot be used from there.
    Elsewhere,
    /// A volume is in another zone or region.
    Zone,
    /// There is no volume for a claim that could be used from there.
    NoneToBind,
    /// The driver that would make a volume for a claim has too little storage left there.
    NoStorage,
    /// The node takes no more volumes of a driver.
    TooMany {
        /// Not even were nobody there?
        even_when_empty: EvenWhenEmpty,
    },
    /// Another pod has the claim, which one at a time may have.
    InUse(Name),
}

impl VolumeMisfit {
    /// Could it be cured by evicting somebody from the node?
    pub(super) const fn is_curable(&self) -> bool {
        match self {
            Self::InUse(_) => true,
            Self::TooMany { even_when_empty } => matches!(even_when_empty, EvenWhenEmpty::No),
            Self::Nowhere { .. }
            | Self::Elsewhere
            | Self::Zone
            | Self::NoneToBind
            | Self::NoStorage => false,
        }
    }

    /// In kube-scheduler's words of 1.35; the others, KAI's, are those of older versions.
    pub(super) fn kube_words(&self) -> String {
        match self {
            Self::Elsewhere => "node(s) didn't match PersistentVolume's node affinity".to_owned(),
            Self::InUse(_) => "node(s) unavailable due to PersistentVolumeClaim with \
                               ReadWriteOncePod access mode already in-use by another pod"
                .to_owned(),
            Self::Nowhere { .. }
            | Self::Zone
            | Self::NoneToBind
            | Self::NoStorage
            | Self::TooMany { .. } => self.to_string(),
        }
    }

    /// What is to be done.
    pub(super) fn remedy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere { claim, problem } => write!(f, "{} {claim}", problem.remedy()),
            Self::Elsewhere | Self::Zone => f.write_str("make room where its volumes can be used"),
            Self::NoneToBind => {
                f.write_str("add a volume that fits where there is room for the pod")
            }
            Self::NoStorage => f.write_str("free storage where there is room for the pod"),
            Self::TooMany { even_when_empty: EvenWhenEmpty::No } => {
                f.write_str("end pods whose volumes are attached where there is room for the pod")
            }
            Self::TooMany { even_when_empty: EvenWhenEmpty::Yes } => {
                f.write_str("use fewer volumes, or add a node that takes as many")
            }
            Self::InUse(claim) => write!(f, "end the pod that uses the volume claim {claim}"),
        }
    }
}

impl fmt::Display for VolumeMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere { claim, problem } => {
                f.write_str("node(s) do not matter: ")?;
                problem.tell(claim, f)
            }
            Self::Elsewhere => f.write_str("node(s) had volume node affinity conflict"),
            Self::Zone => f.write_str("node(s) had no available volume zone"),
            Self::NoneToBind => {
                f.write_str("node(s) didn't find available persistent volumes to bind")
            }
            Self::NoStorage => f.write_str("node(s) did not have enough free storage"),
            Self::TooMany { .. } => f.write_str("node(s) exceed max volume count"),
            Self::InUse(claim) => write!(
                f,
                "node(s) do not matter: another pod has persistentvolumeclaim {:?} with access \
                 mode ReadWriteOncePod",
                own_name(claim)
            ),
        }
    }
}
