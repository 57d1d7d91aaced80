//! Why a pod's claims on devices keep it from a node (profile `kube`).

use std::fmt;

use super::{EvenWhenEmpty, fit_error::resource_label};
use crate::{devices::SEARCH_STEPS_MAX, model::Name, resources::Shortage};

/// Why a pod's claims on devices keep it from a node. The DRA allocator evicts no pods: a claim
/// keeps its devices until it is deallocated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceFitError {
    /// The node has too few devices for the pod's unallocated claims.
    InsufficientDevices {
        /// The resources that are short.
        shortage: Shortage,
        /// Whether the resources are short even on the empty node.
        even_when_empty: EvenWhenEmpty,
    },
    /// The pod claims devices that several nodes can use, and too few free ones are usable from
    /// this node.
    NoReachableDevice,
    /// The node has enough devices of each kind, but they cannot be allocated to all claims
    /// together.
    NoAllocation {
        /// Names of the pod's claims.
        claims: Name,
        /// Why the claims cannot be allocated together.
        cause: NoAllocationCause,
    },
    /// This claim is allocated on another node.
    ClaimOnOtherNode(Name),
    /// This claim is reserved for the maximum number of pods.
    ClaimUsersExhausted(Name),
}

/// Why claims cannot be allocated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoAllocationCause {
    /// The claims could be allocated if all devices of the node were free.
    DevicesInUse,
    /// The claims could not be allocated even if all devices of the node were free.
    UnsuitableDevices,
    /// The search for an allocation exceeded its number of steps.
    SearchLimit,
}

impl DeviceFitError {
    /// Whether evicting pods from the node could resolve the error.
    pub(super) const fn is_resolvable_by_eviction(&self) -> bool {
        matches!(self, Self::NoAllocation { cause: NoAllocationCause::DevicesInUse, .. })
    }

    /// The text that kube-scheduler prints for the error.
    pub(super) fn kube_message(&self) -> &'static str {
        match self {
            Self::InsufficientDevices { .. }
            | Self::NoReachableDevice
            | Self::NoAllocation { .. } => "cannot allocate all claims",
            Self::ClaimOnOtherNode(_) => "resourceclaim not available on the node",
            Self::ClaimUsersExhausted(_) => "node(s) rejected: resourceclaim in use",
        }
    }

    /// Writes what an operator can do about the error.
    pub(super) fn fmt_suggestion(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InsufficientDevices { even_when_empty: EvenWhenEmpty::No, .. } => {
                f.write_str("delete pods whose claims have the devices that it requests")
            }
            Self::InsufficientDevices { shortage, even_when_empty: EvenWhenEmpty::Yes } => {
                let names: Vec<Name> = shortage.short_resources().map(resource_label).collect();
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
            Self::NoAllocation { claims, cause: NoAllocationCause::DevicesInUse } => {
                write!(f, "delete pods whose claims have devices that would satisfy {claims}")
            }
            Self::NoAllocation { claims, cause: NoAllocationCause::UnsuitableDevices } => {
                write!(f, "publish devices on one node that satisfy {claims}")
            }
            Self::NoAllocation { claims, cause: NoAllocationCause::SearchLimit } => {
                write!(f, "request the devices of {claims} with fewer alternatives and constraints")
            }
        }
    }
}

impl fmt::Display for DeviceFitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NoAllocation { claims, cause } = self else {
            return f.write_str(self.kube_message());
        };
        match cause {
            NoAllocationCause::DevicesInUse => {
                write!(f, "node(s) had no free devices that satisfy {claims}")
            }
            NoAllocationCause::UnsuitableDevices => {
                write!(f, "node(s) had no devices that satisfy {claims}")
            }
            NoAllocationCause::SearchLimit => write!(
                f,
                "node(s) had too many combinations of devices for {claims}: the search stopped after \
                 {SEARCH_STEPS_MAX} steps"
            ),
        }
    }
}
