//! Request bodies: JSON, YAML or protobuf by their content type, into plain values.

mod repeated;

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;

use super::protobuf;
use crate::error::{ApiError, go_json};
use crate::object::go_type;
use crate::store::{PatchBody, Slips};
use repeated::Repeated;
use schedlab_json::Value;

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

/// What a body says, and what is wrong with its text.
pub(super) type Read<T> = (T, Slips);

/// The object in a body, which is to be of this kind.
pub(super) fn object(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Value, ApiError> {
    read(headers, body, kind).map(|(object, _)| object)
}

/// The object in a body, which is to be of this kind, with what it says twice.
pub(super) fn read(headers: &HeaderMap, body: &[u8], kind: &str) -> Result<Read<Value>, ApiError> {
    let object = match content_type(headers) {
        "" | "application/json" => json(body).map_err(|why| format!("json parse error: {why}")),
        "application/yaml" => json_or_yaml(body),
        PROTOBUF => protobuf::object(body)
            .map(|object| (object, Slips::default()))
            .map_err(|error| format!("parse error: {error}")),
        _ => {
            return Err(ApiError::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                PROTOBUF,
            ]));
        }
    };
    let object = object.and_then(|(object, slips)| match go_type(&object) {
        "object" | "null" => Ok((object, slips)),
        found => Err(format!("json parse error: {}", go_json::no_object(found))),
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
) -> Result<Read<PatchBody>, ApiError> {
    let of = |form: fn(Value) -> PatchBody| move |(patch, slips): Read<Value>| (form(patch), slips);
    match content_type(headers) {
        JSON_PATCH => json_patch(body).map(|(patch, slips)| {
            let slips = slips.warnings.iter().map(|slip| format!("json patch {slip}"));
            (PatchBody::Json(patch), in_json(slips.collect()))
        }),
        MERGE_PATCH => json_patch(body).map(of(PatchBody::Merge)),
        STRATEGIC_PATCH if !is_custom => {
            json(body).map(of(PatchBody::Strategic)).map_err(ApiError::bad_request)
        }
        APPLY_PATCH => match json_or_yaml(body) {
            Ok((object, slips)) => Ok((PatchBody::Apply { object, force }, slips)),
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

fn json(body: &[u8]) -> Result<Read<Value>, String> {
    let in_words =
        |error: serde_json::Error| go_json::complaint(body).unwrap_or_else(|| error.to_string());
    // Looked at once as a whole, which is quicker than string by string.
    let read = match std::str::from_utf8(body) {
        Ok(text) => {
            let mut source = serde_json::Deserializer::from_str(text);
            let read = repeated::read(&mut source).and_then(|read| source.end().map(|()| read));
            read.map(|(value, repeated)| {
                let slip = |twice: &Repeated| format!("duplicate field \"{}\"", twice.path);
                (value, in_json(repeated.iter().map(slip).collect()))
            })
        }
        Err(_) => serde_json::from_slice(body).map(|value| (value, Slips::default())),
    };
    read.map_err(in_words)
}

fn json_patch(body: &[u8]) -> Result<Read<Value>, ApiError> {
    json(body).map_err(|why| ApiError::bad_request(format!("error decoding patch: {why}")))
}

/// JSON is YAML, and faster to read; what is wrong with it is told in the words of YAML.
fn json_or_yaml(body: &[u8]) -> Result<Read<Value>, String> {
    match json(body) {
        Ok((value, slips)) if slips.warnings.is_empty() => Ok((value, slips)),
        Ok(_) | Err(_) => yaml(body),
    }
}

fn yaml(body: &[u8]) -> Result<Read<Value>, String> {
    let source = || serde_yaml::Deserializer::from_slice(body);
    let (value, repeated) = repeated::read(source()).map_err(|error| in_words(&error))?;
    if repeated.is_empty() {
        return Ok((value, Slips::default()));
    }
    let slip = |(nth, twice): (usize, &Repeated)| {
        let error = repeated::read_until(source(), nth).err()?;
        Some(format!("line {}: key {:?} already set in map", error.location()?.line(), twice.name))
    };
    let warnings: Vec<String> = repeated.iter().enumerate().filter_map(slip).collect();
    let refusal = format!("yaml: unmarshal errors:\n  {}", warnings.join("\n  "));
    Ok((value, Slips { warnings, refusal }))
}

fn in_json(warnings: Vec<String>) -> Slips {
    Slips { refusal: warnings.join(", "), warnings }
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
