//! Why a pod's claims on devices keep it from a node (profile `kube`).

use std::fmt;

use super::{EvenWhenEmpty, fit_error::resource_label};
use crate::{model::Name, resources::Shortage};

/// Why a pod's claims on devices keep it from a node. The DRA allocator evicts no pods: a claim
/// keeps its devices until it is deallocated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFitError {
    /// The node has too few devices for the pod's unallocated claims.
    InsufficientDevices {
        /// The resources that are short.
        shortage: Shortage,
        /// Whether they are short even on the empty node.
        even_when_empty: EvenWhenEmpty,
    },
    /// The pod claims devices that several nodes can use, and too few free ones are usable from
    /// this node.
    NoReachableDevice,
    /// This claim is allocated on another node.
    ClaimOnOtherNode(Name),
    /// This claim is reserved for the maximum number of pods.
    ClaimUsersExhausted(Name),
}

impl DeviceFitError {
    /// Writes what an operator can do about it.
    pub(super) fn fmt_suggestion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientDevices { even_when_empty: EvenWhenEmpty::No, .. } => {
                f.write_str("delete pods whose claims have the devices that it requests")
            }
            Self::InsufficientDevices { shortage, even_when_empty: EvenWhenEmpty::Yes } => {
                let names: Vec<Name> = shortage.resources().map(resource_label).collect();
                write!(f, "claim fewer {0}, or add a node that publishes as many", names.join(", "))
            }
            Self::NoReachableDevice => {
                f.write_str("free or publish devices that can be used where the pod fits")
            }
            Self::ClaimOnOtherNode(claim) => {
                write!(
                    f,
                    "free capacity where claim {claim} is allocated, or delete the pods that use it"
                )
            }
            Self::ClaimUsersExhausted(claim) => write!(f, "delete a pod that uses claim {claim}"),
        }
    }
}

impl fmt::Display for DeviceFitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InsufficientDevices { .. } | Self::NoReachableDevice => {
                "cannot allocate all claims"
            }
            Self::ClaimOnOtherNode(_) => "resourceclaim not available on the node",
            Self::ClaimUsersExhausted(_) => "node(s) rejected: resourceclaim in use",
        })
    }
}
