//! What the API answers when it refuses: a `Status` with the reasons and codes that clients
//! act on.

use serde::{Deserialize, Serialize};

/// A refusal, in the API's own shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// `Status.reason`: `NotFound`, `AlreadyExists`, `Conflict`, `Invalid`, …
    pub reason: String,
    /// `Status.message`.
    pub message: String,
    /// `Status.details`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
}

/// `Status.details`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its resource (plural), as Kubernetes' misnamed field has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// What is wrong, field by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueInvalid`, `FieldValueRequired`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Where, as `spec.containers[0].name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}
