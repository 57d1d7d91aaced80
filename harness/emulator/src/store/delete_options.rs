//! Parses `DeleteOptions` bodies.

use super::request::{DeleteOptions, Preconditions, Propagation};
use crate::api_types::error::ApiError;
use schedlab_api::{Value, object};

impl DeleteOptions {
    /// Parses a `DeleteOptions` body; null means all defaults.
    ///
    /// # Errors
    ///
    /// 400: a field has the wrong type. 422: the propagation policy is unknown.
    pub fn from_object(body: &Value) -> Result<Self, ApiError> {
        let grace_secs = match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(seconds) => Some(seconds.as_i64().ok_or_else(|| {
                ApiError::bad_request("DeleteOptions: gracePeriodSeconds must be a whole number")
            })?),
        };
        let propagation = match object::text(body, &["propagationPolicy"]) {
            "" => (body["orphanDependents"] == true).then_some(Propagation::Orphan),
            "Orphan" => Some(Propagation::Orphan),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            other => {
                return Err(ApiError::new(
                    422,
                    "Invalid",
                    format!(
                        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported \
                         value: \"{other}\": supported values: \"Foreground\", \"Background\", \
                         \"Orphan\", \"nil\""
                    ),
                ));
            }
        };
        let precondition = |field: &str| {
            object::at(body, &["preconditions", field]).and_then(Value::as_str).map(str::to_owned)
        };
        Ok(Self {
            grace_secs,
            propagation,
            preconditions: Preconditions {
                uid: precondition("uid"),
                resource_version: precondition("resourceVersion"),
            },
        })
    }
}
