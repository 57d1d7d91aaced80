//! Validation of status conditions (`metav1.Condition`).

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, number, text},
};

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Checks `conditions` of a status at `path`.
pub(super) fn check_conditions(status: &Value, path: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, condition) in list(status, &["conditions"]).iter().enumerate() {
        let path = format!("{path}[{index}]");
        let kind = text(condition, &["type"]);
        if !seen.insert(kind) {
            errors.duplicate(&*path, &kind.into());
        }
        check_condition(condition, &path, errors);
    }
}

fn check_condition(condition: &Value, path: &str, errors: &mut FieldErrors) {
    let of = |field: &str| text(condition, &[field]);
    match of("type") {
        "" => errors.required(format!("{path}.type"), "is required"),
        kind => {
            for rule in names::qualified_name_violations(kind) {
                errors.invalid(format!("{path}.type"), &kind.into(), &rule);
            }
        }
    }
    match of("status") {
        "" => errors.required(format!("{path}.status"), ""),
        status if !STATUSES.contains(&status) => {
            errors.unsupported(format!("{path}.status"), &status.into(), &STATUSES);
        }
        _ => {}
    }
    if let Some(negative) = number(condition, &["observedGeneration"]).filter(|it| *it < 0) {
        let rule = "must be greater than or equal to zero";
        errors.invalid(format!("{path}.observedGeneration"), &negative.into(), rule);
    }
    if of("lastTransitionTime").is_empty() {
        errors.required(format!("{path}.lastTransitionTime"), "");
    }
    match of("reason") {
        "" => errors.required(format!("{path}.reason"), ""),
        reason => {
            if !is_reason(reason) {
                let rule = "a condition reason must start with alphabetic character, optionally \
                            followed by a string of alphanumeric characters or '_,:', and must end \
                            with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or \
                            'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                            '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
                errors.invalid(format!("{path}.reason"), &reason.into(), rule);
            }
            if reason.len() > REASON_BYTES_MAX {
                errors.too_long(format!("{path}.reason"), REASON_BYTES_MAX);
            }
        }
    }
    if of("message").len() > MESSAGE_BYTES_MAX {
        errors.too_long(format!("{path}.message"), MESSAGE_BYTES_MAX);
    }
}

fn is_reason(reason: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|byte| is_word(*byte))
        && bytes.iter().all(|byte| is_word(*byte) || matches!(byte, b',' | b':'))
}
