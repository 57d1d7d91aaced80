//! Why the claims of a pod cannot be satisfied, and how to fix it.

use std::fmt;

use schedlab_scheduler_core::model::Name;

use crate::parse::Malformed;

/// Why the claims of a pod cannot be satisfied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimProblem {
    /// The claim was not created from its template yet.
    NotCreated(Name),
    /// The claim does not exist.
    Missing(Name),
    /// The claim is malformed or not supported.
    Malformed(Name, Malformed),
    /// The claim names a device class that does not exist.
    NoClass(Name, Name),
}

impl ClaimProblem {
    /// How to fix the problem.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::NotCreated(own) => {
                format!("create the template that claim {own} of the pod names")
            }
            Self::Missing(claim) => format!("create ResourceClaim {claim}"),
            Self::Malformed(claim, malformed) => {
                format!(
                    "fix ResourceClaim {claim}: {}: expected {}",
                    malformed.field, malformed.allowed
                )
            }
            Self::NoClass(_, class) => format!("create DeviceClass {class}"),
        }
    }
}

impl fmt::Display for ClaimProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated(own) => {
                write!(f, "Resource claim {own} of the pod has not been made from its template yet")
            }
            Self::Missing(claim) => {
                write!(f, "ResourceClaim {claim}, named in spec.resourceClaims, does not exist")
            }
            Self::Malformed(claim, malformed) => {
                write!(f, "ResourceClaim {claim} cannot be allocated: {malformed}")
            }
            Self::NoClass(claim, class) => {
                write!(
                    f,
                    "ResourceClaim {claim} asks for DeviceClass {class}, which does not exist"
                )
            }
        }
    }
}
