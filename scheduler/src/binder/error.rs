//! The error type of binding attempts.

use schedlab_scheduler_core::model::Name;

use crate::api::ApiError;

/// Why an attempt did not bind its pod.
pub(super) enum BindError {
    /// The API server rejected a request, or the binding is impossible in the current state of the
    /// cluster.
    Failed(String),
    /// The pod is already bound to this other node.
    BoundElsewhere(Name),
    /// Another controller has to act first; the text says what the pod waits for.
    Waiting(String),
    /// The outcome of an API request is unknown; it is retried.
    Unconfirmed(ApiError),
}

impl From<ApiError> for BindError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::NotFound(why)
            | ApiError::Conflict(why)
            | ApiError::Gone(why)
            | ApiError::Refused(why) => Self::Failed(why),
            unknown @ ApiError::OutcomeUnknown(_) => Self::Unconfirmed(unknown),
        }
    }
}
