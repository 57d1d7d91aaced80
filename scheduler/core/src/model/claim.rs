//! Claims on devices (`resource.k8s.io`): several pods may share one, all on the node where it is
//! allocated, and the devices are taken once.

use super::{Name, PodShape};
use crate::resources::Resources;

/// A claim as a pod uses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceClaim {
    /// Namespace and name.
    pub name: Name,
    /// The devices: GPUs as such, others under the name of their class.
    pub devices: Resources,
    /// It was made for the pod: no queue need own it.
    pub is_own: bool,
    /// Label `kai.scheduler/queue`: the queue that may use a claim on GPUs that pods name.
    pub queue: Option<Name>,
    /// The node on which it is allocated, whoever uses it.
    pub allocated_on: Option<Name>,
    /// For how many pods it is reserved that are not in the snapshot.
    pub reserved_for_others: u32,
}

/// A claim that is allocated on a node, and that no pod of the snapshot has there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// Namespace and name.
    pub name: Name,
    /// What is taken of the node for it.
    pub devices: Resources,
    /// Those for whom it was are gone: its devices are free soon.
    pub is_given_back: bool,
}

impl DeviceClaim {
    /// It is for so many pods at most (`resource.k8s.io`).
    pub const USERS_MAX: u32 = 256;

    /// Its devices are GPUs.
    pub const fn is_gpu(&self) -> bool {
        self.devices.gpu_milli > 0
    }
}

impl PodShape {
    /// Everything it takes on a node on which nobody has its claims.
    pub fn requests_and_claims(&self) -> Resources {
        self.claims.iter().fold(self.requests.clone(), |sum, claim| sum.plus(&claim.devices))
    }
}
