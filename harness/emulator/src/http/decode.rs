//! Request bodies: JSON, YAML or protobuf by their content type, into plain values.

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::protobuf;
use crate::error::{ApiError, go_json};
use crate::object::go_type;
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

/// The object in a body, which is to be of this kind.
pub(super) fn object(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Value, ApiError> {
    let object = match content_type(headers) {
        "" | "application/json" => json(body).map_err(|why| format!("json parse error: {why}")),
        "application/yaml" => json(body).or_else(|_| yaml(body)),
        PROTOBUF => protobuf::object(body).map_err(|error| format!("parse error: {error}")),
        _ => {
            return Err(ApiError::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                PROTOBUF,
            ]));
        }
    };
    let object = object.and_then(|object| match go_type(&object) {
        "object" | "null" => Ok(object),
        found => Err(format!(
            "json parse error: json: cannot unmarshal {found} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}"
        )),
    });
    object.map_err(|why| unrecognized(body, kind, &format!("couldn't get version/kind; {why}")))
}

/// 400: not even of what kind it is can be told.
pub(super) fn unrecognized(body: &[u8], kind: &str, why: &str) -> ApiError {
    const SHOWN: usize = 30;
    let start = body.get(..SHOWN).unwrap_or(body);
    let more = if body.len() > SHOWN { " ..." } else { "" };
    let start = match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(start).into_owned(),
        Some(_) => start.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")),
    };
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({start}{more})"
    ))
}

/// The object in a body that may be absent.
pub(super) fn optional(
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
) -> Result<Option<Value>, ApiError> {
    if body.is_empty() { Ok(None) } else { object(headers, body, kind).map(Some) }
}

/// A patch by its content type. Custom kinds know no strategic merge.
pub(super) fn patch(
    headers: &HeaderMap,
    body: &[u8],
    force: bool,
    is_custom: bool,
) -> Result<PatchBody, ApiError> {
    match content_type(headers) {
        JSON_PATCH => json_patch(body).map(PatchBody::Json),
        MERGE_PATCH => json_patch(body).map(PatchBody::Merge),
        STRATEGIC_PATCH if !is_custom => {
            json(body).map(PatchBody::Strategic).map_err(ApiError::bad_request)
        }
        // JSON is YAML, and faster to read.
        APPLY_PATCH => match json(body).or_else(|_| yaml(body)) {
            Ok(object) => Ok(PatchBody::Apply { object, force }),
            Err(why) => Err(ApiError::bad_request(format!(
                "error decoding YAML: error converting YAML to JSON: {why}"
            ))),
        },
        _ if is_custom => {
            Err(ApiError::unsupported_media_type(&[JSON_PATCH, MERGE_PATCH, APPLY_PATCH]))
        }
        _ => {
            let refusal = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(ApiError { details: Some(Box::default()), ..refusal })
        }
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let in_words =
        |error: serde_json::Error| go_json::complaint(body).unwrap_or_else(|| error.to_string());
    // Looked at once as a whole, which is quicker than string by string.
    let read = match std::str::from_utf8(body) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => serde_json::from_slice(body),
    };
    read.map_err(in_words)
}

fn json_patch<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    json(body).map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))
}

fn yaml(body: &[u8]) -> Result<Value, String> {
    serde_yaml::from_slice(body).map_err(|error| in_words(&error))
}

/// An error in YAML as Go's decoder tells it: a parser's line is counted from 0, a scanner's from
/// 1, and that of the context comes first.
fn in_words(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let (problem, context) = text.split_once(", while ").unwrap_or((&text, ""));
    let line_of = |text: &str| -> Option<usize> {
        let (_, place) = text.rsplit_once(" at line ")?;
        let line: usize = place.split(' ').next()?.parse().ok()?;
        line.checked_sub(1).filter(|line| *line > 0)
    };
    let scans = context.starts_with("scanning");
    let line = line_of(context).or_else(|| line_of(problem));
    let line = line.map(|line| format!("line {}: ", line + usize::from(scans)));
    let what = problem.split(" at line ").next().unwrap_or(problem);
    format!("yaml: {}{what}", line.unwrap_or_default())
}
