//! What the API answers when it refuses: a `Status` with the reasons and codes that clients
//! act on. How a value can be wrong is in [`field`].

pub mod field;
pub(crate) mod go_json;
pub(crate) mod in_go;

use serde::{Deserialize, Serialize};

use crate::kinds::Resource;

pub use field::FieldErrors;

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
    /// `Status.metadata.continue`: how to go on after an expired `continue` token.
    #[serde(default, skip)]
    pub continue_token: Option<String>,
    /// Texts for `Warning` headers.
    #[serde(default, skip)]
    pub warnings: Vec<String>,
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
    /// Its resource (plural), as Kubernetes' misnamed field has it; `Invalid` has the kind here.
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

/// The field that a decoder complains of: one that the kind does not have, or one that holds
/// something else. Such refusals name it in their message only.
pub fn undecodable_field(message: &str) -> Option<&str> {
    let quoted = |before: &str, after: char| {
        let (_, rest) = message.split_once(before)?;
        rest.split(after).next()
    };
    // Go names the type first: `PodSpec.spec.containers`.
    let mistyped = || Some(quoted("Go struct field ", ' ')?.split_once('.')?.1);
    quoted("unknown field \"", '"').or_else(mistyped)
}

impl ApiError {
    /// The field that is wrong, where the refusal tells.
    pub fn field(&self) -> Option<&str> {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        let cause = causes.map(|cause| cause.field.as_str()).find(|field| !field.is_empty());
        cause.or_else(|| undecodable_field(&self.message))
    }

    /// A refusal without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    fn about(code: u16, reason: &str, resource: &Resource, name: &str) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: resource.group.as_ref().to_owned(),
            kind: resource.plural.as_ref().to_owned(),
            ..Details::default()
        };
        let mut error = Self::new(code, reason, String::new());
        error.details = Some(Box::new(details));
        error
    }

    fn saying(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// With one more cause.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// With the time after which another try makes sense.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// 404: no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name)
            .saying(format!("{resource} \"{name}\" not found"))
    }

    /// 404: no such path or kind.
    pub fn no_such_resource() -> Self {
        let mut error =
            Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    /// 409: the name is taken.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::about(409, "AlreadyExists", resource, name)
            .saying(format!("{resource} \"{name}\" already exists"))
    }

    /// 409: the object is not what the writer thinks it is.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::about(409, "Conflict", resource, name)
            .saying(format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
    }

    /// 409: the writer's `resourceVersion` is stale.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; \
                   please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403: refused by admission.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let what = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        Self::about(403, "Forbidden", resource, name)
            .saying(format!("{resource}{what} is forbidden: {why}"))
    }

    /// 400: the request itself makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 410: that revision is no longer in the log.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410 for a watch from `asked` when the log starts after `oldest`.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// 504: a revision that is not yet.
    pub fn too_large_revision(asked: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .with_cause(Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
        .with_retry_after(1)
    }

    /// 429: not now.
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// 405: the resource does not do this.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = Some(Box::default());
        error
    }

    /// 500: the object is not one that the server can do this with.
    pub fn internal(why: String) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause { message: why, ..Cause::default() };
        Self::new(500, "InternalError", message).with_cause(cause)
    }

    /// 500: what the server did not foresee, in its own words and without a reason.
    pub fn unforeseen(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 415: the body's content type is not one of these.
    pub fn unsupported_media_type(allowed: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            allowed.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }
}
