//! Errors of the API: a `Status` with the reasons and codes that clients depend on. Validation
//! errors of fields are in [`field`].

pub mod field;
pub(crate) mod go_format;
pub(crate) mod go_json;

use serde::{Deserialize, Serialize};

use crate::api_types::resource::Resource;

pub use field::FieldErrors;

/// An error response of the API: the fields of a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// `Status.reason`: `NotFound`, `AlreadyExists`, `Conflict`, `Invalid`, …
    pub reason: String,
    /// The message of the error (`Status.message`).
    pub message: String,
    /// What the error is about (`Status.details`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// `Status.metadata.continue`: the token with which a list continues after its token expired.
    #[serde(default, skip)]
    pub continue_token: Option<String>,
    /// The texts of the `Warning` headers.
    #[serde(default, skip)]
    pub warnings: Vec<String>,
}

/// What an error is about: the object and the invalid fields (`Status.details`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource (Kubernetes names the field `kind`); the kind if the reason is
    /// `Invalid`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The causes of the error, one for each invalid field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which the client may retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One cause of an error, which is usually about one field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The reason: `FieldValueInvalid`, `FieldValueRequired`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message about the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, for instance `spec.containers[0].name`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The field that a decoding error names in its message: an unknown field, or one with a value of
/// the wrong type. Decoding errors have no causes.
pub fn undecodable_field(message: &str) -> Option<&str> {
    let quoted = |before: &str, after: char| {
        let (_, rest) = message.split_once(before)?;
        rest.split(after).next()
    };
    // Go puts the type before the path: `PodSpec.spec.containers`.
    let mistyped = || Some(quoted("Go struct field ", ' ')?.split_once('.')?.1);
    quoted("unknown field \"", '"').or_else(mistyped)
}

impl ApiError {
    /// The path of the invalid field, if the error names one.
    pub fn field(&self) -> Option<&str> {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        let cause = causes.map(|cause| cause.field.as_str()).find(|field| !field.is_empty());
        cause.or_else(|| undecodable_field(&self.message))
    }

    /// Creates an error without details.
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

    fn for_object(code: u16, reason: &str, resource: &Resource, name: &str) -> Self {
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

    fn with_message(mut self, message: String) -> Self {
        self.message = message;
        self
    }

    /// Adds a cause to `details`.
    #[must_use]
    pub fn with_cause(mut self, cause: Cause) -> Self {
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Sets the seconds after which the client may retry.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = Some(seconds);
        self
    }

    /// 404: the object does not exist.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::for_object(404, "NotFound", resource, name)
            .with_message(format!("{resource} \"{name}\" not found"))
    }

    /// 404: the path or the kind does not exist.
    pub fn no_such_resource() -> Self {
        let mut error =
            Self::new(404, "NotFound", "the server could not find the requested resource");
        error.details = Some(Box::default());
        error
    }

    /// 409: an object of this name exists.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::for_object(409, "AlreadyExists", resource, name)
            .with_message(format!("{resource} \"{name}\" already exists"))
    }

    /// 409: the write conflicts with the current state of the object.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::for_object(409, "Conflict", resource, name)
            .with_message(format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"))
    }

    /// 409: the `resourceVersion` of the write is not the current one.
    pub fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; \
                   please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// 403: rejected by admission.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let what = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        Self::for_object(403, "Forbidden", resource, name)
            .with_message(format!("{resource}{what} is forbidden: {why}"))
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 410: the requested revision is older than the change log.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410: the requested revision is older than `oldest`, the oldest one that the change log
    /// covers.
    pub fn too_old(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// 504: the requested revision does not exist yet.
    pub fn too_large_revision(requested: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
        )
        .with_cause(Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        })
        .with_retry_after(1)
    }

    /// 429: the client must retry later.
    pub fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(429, "TooManyRequests", message)
    }

    /// 405: the resource does not support the HTTP method.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        let mut error = Self::new(405, "MethodNotAllowed", message);
        error.details = Some(Box::default());
        error
    }

    /// 500: the server cannot perform the operation on this object.
    pub fn internal(why: String) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause { message: why, ..Cause::default() };
        Self::new(500, "InternalError", message).with_cause(cause)
    }

    /// 500: an error with an empty `reason`, with `message` unchanged.
    pub fn without_reason(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 415: the content type of the request body is not one of `allowed`.
    pub fn unsupported_media_type(allowed: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            allowed.join(", ")
        );
        Self::new(415, "UnsupportedMediaType", message)
    }
}
