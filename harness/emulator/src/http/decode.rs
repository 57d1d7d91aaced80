//! Decodes request bodies in JSON, YAML or protobuf, by content type.

mod duplicates;

use ::http::HeaderMap;
use ::http::header::CONTENT_TYPE;

use crate::api_types::error::{ApiError, go_json};
use crate::api_types::kinds::typed;
use crate::store::{DuplicateFields, PatchBody};
use duplicates::DuplicateField;
use schedlab_api::{Map, Value, object::go_type};

/// The maximum size of a request body, as in kube-apiserver.
pub(super) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The maximum number of values that a YAML text may have through aliases, as in Go's decoder.
const YAML_VALUES_MAX: usize = 400_000;
/// The maximum nesting of brackets that Go's YAML scanner reads.
const YAML_FLOW_DEPTH_MAX: usize = 10_000;
/// The error text of the YAML library for too many aliases.
const REPETITION_LIMIT_MESSAGE: &str = "repetition limit exceeded";
/// The maximum total number of bytes that are read again to locate duplicate fields.
const LOCATED_BYTES_MAX: usize = 8 << 20;

const JSON_PATCH_TYPE: &str = "application/json-patch+json";
const MERGE_PATCH_TYPE: &str = "application/merge-patch+json";
const STRATEGIC_PATCH_TYPE: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH_TYPE: &str = "application/apply-patch+yaml";

/// The media type of a request body (`Content-Type` without parameters), in lower case.
fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A decoded request body and the fields that occur twice in it.
pub(super) type WithDuplicates<T> = (T, DuplicateFields);

/// Decodes an object. `kind` is the expected kind, for errors.
pub(super) fn decode_object(
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
) -> Result<Value, ApiError> {
    decode_object_with_duplicates(headers, body, kind).map(|(object, _)| object)
}

/// Decodes an object, and reports the fields that occur twice. `kind` is the expected kind, for
/// errors.
pub(super) fn decode_object_with_duplicates(
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
) -> Result<WithDuplicates<Value>, ApiError> {
    read_object(headers, body)?.map_err(|why| unrecognized_object_error(body, kind, &why))
}

/// Decodes an object. The outer error is final; the inner error is a message about the body.
fn read_object(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Result<WithDuplicates<Value>, String>, ApiError> {
    let unreadable = |why: String| format!("couldn't get version/kind; {why}");
    let object = match content_type(headers).as_str() {
        "" | "application/json" => {
            decode_json(body).map_err(|why| unreadable(format!("json parse error: {why}")))
        }
        "application/yaml" => decode_json_or_yaml(body),
        schedlab_protobuf::MEDIA_TYPE => schedlab_protobuf::decode_object(body)
            .map(|object| (object, DuplicateFields::default()))
            .map_err(|error| unreadable(format!("parse error: {error}"))),
        _ => {
            return Err(ApiError::unsupported_media_type(&[
                "application/json",
                "application/yaml",
                schedlab_protobuf::MEDIA_TYPE,
            ]));
        }
    };
    let object = object.and_then(|(object, duplicates)| {
        let why = match go_type(&object) {
            "object" => go_json::type_meta_error(&object),
            "null" => None,
            found => Some(go_json::not_an_object_error(found)),
        };
        let refused = |why| Err(unreadable(format!("json parse error: {why}")));
        why.map_or(Ok((object, duplicates)), refused)
    });
    Ok(object.and_then(|(object, duplicates)| {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        if version.matches('/').count() > 1 {
            return Err(format!("unexpected GroupVersion string: {version}"));
        }
        Ok((object, duplicates))
    }))
}

/// The 400 error for a body that is no object with a kind.
pub(super) fn unrecognized_object_error(body: &[u8], kind: &str, why: &str) -> ApiError {
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

/// Decodes the `DeleteOptions` of a deletion; `None` for an empty body.
pub(super) fn decode_delete_options(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<Value>, ApiError> {
    if body.is_empty() {
        return Ok(None);
    }
    let (mut options, _) = read_object(headers, body)?.map_err(ApiError::bad_request)?;
    if options.is_null() {
        options = Value::Object(Map::new());
    }
    check_options_kind(&options)?;
    typed::decode_delete_options(&mut options).map_err(ApiError::bad_request)?;
    Ok(Some(options))
}

/// Refuses a body of another kind than `DeleteOptions`. The body of a deletion need not name a
/// kind.
fn check_options_kind(options: &Value) -> Result<(), ApiError> {
    let text = |field: &str| options[field].as_str().filter(|text| !text.is_empty());
    let version = text("apiVersion").unwrap_or("v1");
    let why = match text("kind") {
        None | Some("DeleteOptions") => return Ok(()),
        Some("Status") => {
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion".to_owned()
        }
        Some(other) => format!(
            "no kind {other:?} is registered for version {version:?} in scheme \
             \"pkg/runtime/scheme.go:111\""
        ),
    };
    Err(ApiError::bad_request(why))
}

/// Decodes a patch by its content type. Custom kinds do not support strategic merge patches.
pub(super) fn decode_patch(
    headers: &HeaderMap,
    body: &[u8],
    force: bool,
    is_custom: bool,
) -> Result<WithDuplicates<PatchBody>, ApiError> {
    let of = |form: fn(Value) -> PatchBody| {
        move |(patch, duplicates): WithDuplicates<Value>| (form(patch), duplicates)
    };
    match content_type(headers).as_str() {
        JSON_PATCH_TYPE => decode_json_patch(body).map(|(patch, duplicates)| {
            let warnings = duplicates.warnings.into_iter().chain(unknown_operation_fields(&patch));
            let warnings = warnings.map(|message| format!("json patch {message}")).collect();
            let patch = if patch.is_null() { Value::Array(Vec::new()) } else { patch };
            (PatchBody::Json(patch), duplicate_fields_of_json(warnings))
        }),
        MERGE_PATCH_TYPE => match decode_json_patch(body)? {
            (Value::Null, _) => Err(ApiError::bad_request("Invalid JSON Patch")),
            patch => Ok(of(PatchBody::Merge)(patch)),
        },
        STRATEGIC_PATCH_TYPE if !is_custom => decode_json_patch(body).map(of(PatchBody::Strategic)),
        APPLY_PATCH_TYPE => match decode_json_or_yaml(body) {
            Ok((object, _)) if !object.is_object() && !object.is_null() => {
                Err(ApiError::bad_request(format!(
                    "error decoding patch: error unmarshaling JSON: while decoding JSON: json: \
                     cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    go_type(&object)
                )))
            }
            Ok((object, duplicates)) => Ok((PatchBody::Apply { object, force }, duplicates)),
            Err(why) if body.trim_ascii_start().starts_with(b"{") => Err(ApiError::bad_request(
                format!("error decoding patch: error converting YAML to JSON: {why}"),
            )),
            Err(why) => Err(ApiError::bad_request(format!("error encoding patch: {why}"))),
        },
        _ if is_custom => Err(ApiError::unsupported_media_type(&[
            JSON_PATCH_TYPE,
            MERGE_PATCH_TYPE,
            APPLY_PATCH_TYPE,
        ])),
        _ => {
            let refusal = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(ApiError { details: Some(Box::default()), ..refusal })
        }
    }
}

fn decode_json(body: &[u8]) -> Result<WithDuplicates<Value>, String> {
    let in_words =
        |error: serde_json::Error| go_json::syntax_error(body).unwrap_or_else(|| error.to_string());
    // Checking UTF-8 once for the whole text is faster than for each string.
    let read = match std::str::from_utf8(body) {
        Ok(text) => {
            let mut source = serde_json::Deserializer::from_str(text);
            let read = duplicates::decode(&mut source, usize::MAX)
                .and_then(|read| source.end().map(|()| read));
            if read.as_ref().is_ok_and(|read| read.is_cut)
                && let Some(why) = go_json::syntax_error(body)
            {
                return Err(why);
            }
            read.map(|read| {
                let message =
                    |twice: &DuplicateField| format!("duplicate field \"{}\"", twice.path);
                (
                    read.value,
                    duplicate_fields_of_json(read.duplicates.iter().map(message).collect()),
                )
            })
        }
        Err(_) => serde_json::from_slice(body).map(|value| (value, DuplicateFields::default())),
    };
    read.map_err(in_words)
}

/// The messages about unknown fields in the operations of a JSON Patch.
fn unknown_operation_fields(patch: &Value) -> Vec<String> {
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let fields = operations.flat_map(|(index, operation)| {
        let fields = operation.as_object().into_iter().flatten();
        fields.map(move |(name, _)| (index, name.as_str()))
    });
    let unknown = fields.filter(|(_, name)| !["op", "path", "from", "value"].contains(name));
    unknown.map(|(index, name)| format!("unknown field \"[{index}].{name}\"")).collect()
}

fn decode_json_patch(body: &[u8]) -> Result<WithDuplicates<Value>, ApiError> {
    decode_json(body).map_err(|_| ApiError::bad_request("invalid JSON patch"))
}

/// Decodes YAML. A text that is JSON is decoded as JSON, which is faster; errors and duplicates are
/// reported as for YAML.
fn decode_json_or_yaml(body: &[u8]) -> Result<WithDuplicates<Value>, String> {
    match decode_json(body) {
        Ok((value, duplicates)) if duplicates.warnings.is_empty() => Ok((value, duplicates)),
        Ok(_) | Err(_) => decode_yaml(body),
    }
}

fn decode_yaml(body: &[u8]) -> Result<WithDuplicates<Value>, String> {
    let source = || serde_yaml::Deserializer::from_slice(body);
    let values_max = body.len().max(YAML_VALUES_MAX);
    // Before the text is read: libyaml takes quadratic time for nested brackets.
    if let Some(newlines) = newlines_before_excess_depth(body) {
        let line = if newlines > 0 { format!("line {}: ", newlines + 1) } else { String::new() };
        return Err(format!("yaml: {line}exceeded max depth of {YAML_FLOW_DEPTH_MAX}"));
    }
    let read = duplicates::decode(source(), values_max).map_err(|error| go_yaml_error(&error))?;
    if read.duplicates.is_empty() {
        return Ok((read.value, DuplicateFields::default()));
    }
    let message = |(nth, twice): (usize, &DuplicateField)| {
        let error = duplicates::fail_at_duplicate(source(), nth).err()?;
        Some(format!("line {}: key {:?} already set in map", error.location()?.line(), twice.name))
    };
    // Each location takes one more pass over the text.
    let located = (LOCATED_BYTES_MAX / body.len().max(1)).max(1);
    let repeated = read.duplicates.iter().enumerate().take(located);
    let warnings: Vec<String> = repeated.filter_map(message).collect();
    let refusal = format!("yaml: unmarshal errors:\n  {}", warnings.join("\n  "));
    Ok((read.value, DuplicateFields { warnings, strict_error: refusal }))
}

/// The number of lines before the first bracket of a YAML text that is nested too deeply; `None` if
/// there is none. Brackets in strings count, too.
fn newlines_before_excess_depth(body: &[u8]) -> Option<usize> {
    let (mut depth, mut newlines) = (0_usize, 0);
    for byte in body {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => newlines += 1,
            _ => {}
        }
        if depth > YAML_FLOW_DEPTH_MAX {
            return Some(newlines);
        }
    }
    None
}

fn duplicate_fields_of_json(warnings: Vec<String>) -> DuplicateFields {
    DuplicateFields { strict_error: warnings.join(", "), warnings }
}

/// A YAML error in the format of Go's decoder. Bodies are read by libyaml, of which Go's decoder is
/// a port, so that both find the same problem with the same words. It counts lines of parser errors
/// from 0 and of scanner errors from 1, and prefers the line of the context.
fn go_yaml_error(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    if text.contains(duplicates::TOO_MANY_VALUES_MESSAGE) || text.contains(REPETITION_LIMIT_MESSAGE)
    {
        return format!("yaml: {}", duplicates::TOO_MANY_VALUES_MESSAGE);
    }
    let (problem, context) = text.split_once(", while ").unwrap_or((&text, ""));
    let line_of = |text: &str| -> Option<usize> {
        let (_, location) = text.rsplit_once(" at line ")?;
        let line: usize = location.split(' ').next()?.parse().ok()?;
        line.checked_sub(1).filter(|line| *line > 0)
    };
    let scans = context.starts_with("scanning");
    let line = line_of(context).or_else(|| line_of(problem));
    let line = line.map(|line| format!("line {}: ", line + usize::from(scans)));
    let what = problem.split(" at line ").next().unwrap_or(problem);
    format!("yaml: {}{what}", line.unwrap_or_default())
}
