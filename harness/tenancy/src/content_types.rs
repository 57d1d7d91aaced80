//! Encodings of bodies. Go programs send protobuf for built-in kinds; the cluster gets JSON from the
//! service and answers in JSON, which every Go client reads.

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use schedlab_api::Value;

const JSON: &str = "application/json";
/// The media types for which the cluster is asked for JSON.
const REPLACED_BY_JSON: [&str; 4] =
    [schedlab_protobuf::MEDIA_TYPE, "application/cbor", "application/cbor-seq", "application/yaml"];

/// Asks for a JSON response that is not compressed, in the format (such as `as=Table`) that the
/// client asked for.
pub(super) fn ask_for_json(headers: &mut HeaderMap) {
    // Since 1.37 the API server compresses watches, and every version compresses long lists.
    headers.remove(ACCEPT_ENCODING);
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or(JSON);
    let accept = HeaderValue::from_str(&accepted_as_json(accept));
    headers.insert(ACCEPT, accept.unwrap_or(HeaderValue::from_static(JSON)));
}

fn accepted_as_json(accept: &str) -> String {
    let mut ranges: Vec<String> = Vec::new();
    for range in accept.split(',').map(str::trim) {
        let (media_type, parameters) = match range.split_once(';') {
            Some((media_type, parameters)) => (media_type.trim(), format!(";{parameters}")),
            None => (range, String::new()),
        };
        let is_replaced = REPLACED_BY_JSON.contains(&media_type);
        let range = format!("{}{parameters}", if is_replaced { JSON } else { media_type });
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }
    ranges.join(",")
}

/// The object in a request body. `Ok(None)` if the body is neither JSON nor protobuf; it is then
/// sent as it is.
///
/// # Errors
///
/// The body is protobuf that cannot be decoded.
pub(super) fn decode_body(headers: &HeaderMap, body: &[u8]) -> Result<Option<Value>, String> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_protobuf = content_type.is_some_and(|it| it.starts_with(schedlab_protobuf::MEDIA_TYPE));
    if is_protobuf && !body.is_empty() {
        return schedlab_protobuf::decode_object(body).map(Some);
    }
    Ok(serde_json::from_slice(body).ok())
}

/// Declares the body of a request as JSON, unless it is a patch, which has a type of its own.
pub(super) fn declare_json(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    if headers.get(CONTENT_TYPE).is_some_and(|it| it == schedlab_protobuf::MEDIA_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_gets_json_in_the_format_that_it_asked_for() {
        let partial = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let protobuf = schedlab_protobuf::MEDIA_TYPE;
        for (accept, expected) in [
            ("application/json".to_owned(), "application/json".to_owned()),
            (protobuf.to_owned(), "application/json".to_owned()),
            (format!("{protobuf},application/json"), "application/json".to_owned()),
            (format!("{protobuf}, */*"), "application/json,*/*".to_owned()),
            (
                format!("{protobuf};{partial},application/json;{partial},application/json"),
                format!("application/json;{partial},application/json"),
            ),
            ("application/yaml".to_owned(), "application/json".to_owned()),
            (
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf".to_owned(),
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf".to_owned(),
            ),
        ] {
            assert_eq!(accepted_as_json(&accept), expected, "{accept}");
        }
    }
}
