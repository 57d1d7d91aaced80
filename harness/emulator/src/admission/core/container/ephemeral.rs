//! Validation of ephemeral containers.

use std::collections::BTreeSet;

use super::{VolumesByName, check_container};
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value, json,
    object::{list, text},
};

/// Fields that ephemeral containers do not support, in the order of the Go type.
const UNSUPPORTED_FIELDS: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the ephemeral containers of the pod spec at `field`.
pub(super) fn check_ephemeral_containers(
    spec: &Value,
    field: &str,
    volumes: &VolumesByName<'_>,
    errors: &mut FieldErrors,
) {
    let others = list(spec, &["containers"]).iter().chain(list(spec, &["initContainers"]));
    let others: BTreeSet<&str> = others.map(|container| text(container, &["name"])).collect();
    let mut names = others.clone();
    for (index, container) in list(spec, &["ephemeralContainers"]).iter().enumerate() {
        let path = format!("{field}.ephemeralContainers[{index}]");
        check_container(spec, container, &path, volumes, errors);
        let (name, target) =
            (text(container, &["name"]), text(container, &["targetContainerName"]));
        if !names.insert(name) {
            errors.duplicate(format!("{path}.name"), &name.into());
        }
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(format!("{path}.targetContainerName"), &target.into());
        }
        check_unsupported_fields(container, &path, errors);
    }
}

fn check_unsupported_fields(container: &Value, path: &str, errors: &mut FieldErrors) {
    let rule = "cannot be set for an Ephemeral Container";
    for field in UNSUPPORTED_FIELDS {
        if ![Value::Null, json!({}), json!([])].contains(&container[field]) {
            errors.forbidden(format!("{path}.{field}"), rule);
        }
    }
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, &[field]).is_empty() {
                errors.forbidden(format!("{path}.volumeMounts[{index}].{field}"), rule);
            }
        }
    }
}
