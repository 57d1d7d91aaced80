//! Request bodies: JSON, YAML or protobuf by their content type, into plain values.

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::protobuf;
use crate::error::ApiError;
use crate::store::PatchBody;

/// A larger body is refused, as by the API server.
pub(super) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// The object in a body.
pub(super) fn object(headers: &HeaderMap, body: &[u8]) -> Result<Value, ApiError> {
    match content_type(headers) {
        "" | "application/json" => json(body),
        "application/yaml" => yaml(body),
        PROTOBUF => protobuf::object(body).map_err(|error| unreadable(&error)),
        _ => Err(ApiError::unsupported_media_type(&[
            "application/json",
            "application/yaml",
            PROTOBUF,
        ])),
    }
}

/// The object in a body that may be absent.
pub(super) fn optional(headers: &HeaderMap, body: &[u8]) -> Result<Option<Value>, ApiError> {
    if body.is_empty() { Ok(None) } else { object(headers, body).map(Some) }
}

/// A patch by its content type. Custom kinds know no strategic merge.
pub(super) fn patch(
    headers: &HeaderMap,
    body: &[u8],
    force: bool,
    is_custom: bool,
) -> Result<PatchBody, ApiError> {
    match content_type(headers) {
        JSON_PATCH => json(body).map(PatchBody::Json),
        MERGE_PATCH => json(body).map(PatchBody::Merge),
        STRATEGIC_PATCH if !is_custom => json(body).map(PatchBody::Strategic),
        APPLY_PATCH => yaml(body).map(|object| PatchBody::Apply { object, force }),
        _ if is_custom => {
            Err(ApiError::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]))
        }
        _ => {
            let refusal = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(ApiError { details: Some(Box::default()), ..refusal })
        }
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| unreadable(&error))
}

/// JSON is YAML, and faster to read.
fn yaml(body: &[u8]) -> Result<Value, ApiError> {
    json(body).or_else(|_| serde_yaml::from_slice(body).map_err(|error| unreadable(&error)))
}

fn unreadable(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type as expected): couldn't get \
         version/kind; parse error: {error}"
    ))
}
