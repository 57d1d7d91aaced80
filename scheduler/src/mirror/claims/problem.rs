//! Why a pod's claims cannot be had, and what is to be done.

use std::fmt;

use schedlab_scheduler_core::model::Name;

use crate::parse::Malformed;

/// Why a pod's claims cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimProblem {
    /// It is still to be made from its template.
    NotMade(Name),
    /// It does not exist.
    Missing(Name),
    /// It asks for something that cannot be served.
    Malformed(Name, Malformed),
    /// It asks for a class that does not exist.
    NoClass(Name, Name),
}

impl ClaimProblem {
    /// What cures it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::NotMade(own) => format!("create the template that claim {own} of the pod names"),
            Self::Missing(claim) => format!("create ResourceClaim {claim}"),
            Self::Malformed(claim, malformed) => {
                format!(
                    "mend ResourceClaim {claim}: {} allows {}",
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
            Self::NotMade(own) => {
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
