//! Validation of `ConfigMap` and `Secret`: keys, immutability and the keys that a secret type
//! requires.

use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use crate::api_types::names;
use schedlab_api::{
    Map, Value,
    object::{annotation, map, text},
};

/// The required keys by secret type.
const REQUIRED_SECRET_KEYS: [(&str, &[&str]); 4] = [
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];
/// The maximum total size of the values.
const TOTAL_DATA_BYTES_MAX: usize = 1024 * 1024;
const SERVICE_ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";

pub(in crate::admission) fn check_config_map_or_secret(
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    check_immutable_data(old, new, errors);
    for field in ["data", "binaryData"] {
        for key in map(new, &[field]).into_iter().flat_map(Map::keys) {
            if let Some(rule) = names::config_key_violation(key) {
                errors.invalid(format!("{field}[{key}]"), &key.as_str().into(), rule);
            }
        }
    }
    if kind.is("", "Secret") {
        return check_secret(old, new, errors);
    }
    let texts = map(new, &["data"]).into_iter().flatten();
    let text_bytes: usize = texts.filter_map(|(_, text)| Some(text.as_str()?.len())).sum();
    if text_bytes + decoded_bytes(new, "binaryData") > TOTAL_DATA_BYTES_MAX {
        // The error is about the whole object.
        errors.too_long("[]", TOTAL_DATA_BYTES_MAX);
    }
    for key in map(new, &["data"]).into_iter().flat_map(Map::keys) {
        if map(new, &["binaryData"]).is_some_and(|binary| binary.contains_key(key)) {
            let rule = "duplicate of key present in binaryData";
            errors.invalid(format!("data[{key}]"), &key.as_str().into(), rule);
        }
    }
}

/// The total size of the decoded values of the map `field`, whose values are base64 texts.
fn decoded_bytes(object: &Value, field: &str) -> usize {
    let size = |text: &str| {
        let letters = text.bytes().filter(|byte| !matches!(byte, b'=' | b'\n' | b'\r')).count();
        letters * 3 / 4
    };
    let values = map(object, &[field]).into_iter().flatten();
    values.filter_map(|(_, value)| value.as_str().map(size)).sum()
}

fn check_immutable_data(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    for field in ["immutable", "data", "binaryData"] {
        if old[field] != new[field] {
            errors.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

fn check_secret(old: Option<&Value>, secret: &Value, errors: &mut FieldErrors) {
    let kind = text(secret, &["type"]);
    if old.is_some_and(|old| old["type"] != secret["type"]) {
        errors.invalid("type", &kind.into(), "field is immutable");
    }
    if decoded_bytes(secret, "data") > TOTAL_DATA_BYTES_MAX {
        errors.too_long("data", TOTAL_DATA_BYTES_MAX);
    }
    let has = |key: &str| map(secret, &["data"]).is_some_and(|data| data.contains_key(key));
    let needed =
        REQUIRED_SECRET_KEYS.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, keys)| keys);
    for key in needed.iter().filter(|key| !has(key)) {
        errors.required(format!("data[{key}]"), "");
    }
    let by_name = ["username", "password"];
    if kind == "kubernetes.io/basic-auth" && !by_name.iter().any(|key| has(key)) {
        for key in by_name {
            errors.required(format!("data[{key}]"), "");
        }
    }
    let account = annotation(secret, SERVICE_ACCOUNT_ANNOTATION).unwrap_or_default();
    if kind == "kubernetes.io/service-account-token" && account.is_empty() {
        errors.required(format!("metadata.annotations[{SERVICE_ACCOUNT_ANNOTATION}]"), "");
    }
}
