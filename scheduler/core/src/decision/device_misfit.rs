//! Why a pod does not fit on a node for its claims on devices (profile `kube`).

use std::fmt;

use super::{EvenWhenEmpty, misfit::short_name};
use crate::{model::Name, resources::Shortage};

/// Why a pod does not fit on a node for its claims on devices. Who allocates knows of no pods to
/// evict: a claim keeps its devices until it is given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceMisfit {
    /// Its claims without devices cannot all get some there.
    TooFew {
        /// Of what.
        of: Shortage,
        /// Not even were nobody there?
        even_when_empty: EvenWhenEmpty,
    },
    /// It claims devices of several nodes, and too few that are free can be used from there.
    NoneFree,
    /// This claim has its devices elsewhere.
    Elsewhere(Name),
    /// This claim has as many users as it may.
    InUse(Name),
}

impl DeviceMisfit {
    /// What is to be done.
    pub(super) fn remedy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { even_when_empty: EvenWhenEmpty::No, .. } => {
                f.write_str("end pods whose claims have the devices that it asks for")
            }
            Self::TooFew { of, even_when_empty: EvenWhenEmpty::Yes } => {
                let names: Vec<Name> = of.resources().map(short_name).collect();
                write!(f, "claim fewer {0}, or add a node that publishes as many", names.join(", "))
            }
            Self::NoneFree => f.write_str(
                "free or publish devices that can be used where there is room for the pod",
            ),
            Self::Elsewhere(claim) => {
                write!(f, "make room where claim {claim} is, or end the pods that use it")
            }
            Self::InUse(claim) => write!(f, "end a pod that uses claim {claim}"),
        }
    }
}

impl fmt::Display for DeviceMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooFew { .. } | Self::NoneFree => "cannot allocate all claims",
            Self::Elsewhere(_) => "resourceclaim not available on the node",
            Self::InUse(_) => "node(s) do not matter: resourceclaim in use",
        })
    }
}
