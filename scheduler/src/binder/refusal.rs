//! Why an attempt did not bind its pod.

use schedlab_scheduler_core::model::Name;

use crate::api::ApiError;

/// Why the pod is not bound.
pub(super) enum Refusal {
    /// The server, or the state of the cluster, says no.
    Failed(String),
    /// It is bound, and to this node.
    Elsewhere(Name),
    /// Others have to do something first.
    Waits(String),
    /// Nobody knows what was done.
    Unknown(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::NotFound(why)
            | ApiError::Conflict(why)
            | ApiError::Gone(why)
            | ApiError::Refused(why) => Self::Failed(why),
            unknown @ ApiError::Unknown(_) => Self::Unknown(unknown),
        }
    }
}
