//! Containers that look into a pod which runs already. They serve nobody and take nothing.

use std::collections::BTreeSet;

use super::{Volumes, check_container};
use crate::error::FieldErrors;
use crate::object::{list, text};
use schedlab_json::{Value, json};

/// What they have not, in the order of their type.
const UNFIT: [&str; 9] = [
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

/// Checks the ephemeral containers of a pod spec that stands at `field`.
pub(super) fn check(
    spec: &Value,
    (field, volumes): (&str, &Volumes<'_>),
    errors: &mut FieldErrors,
) {
    let others = list(spec, &["containers"]).iter().chain(list(spec, &["initContainers"]));
    let others: BTreeSet<&str> = others.map(|container| text(container, &["name"])).collect();
    let mut names = others.clone();
    for (index, container) in list(spec, &["ephemeralContainers"]).iter().enumerate() {
        let place = format!("{field}.ephemeralContainers[{index}]");
        check_container((spec, container), (&place, volumes), errors);
        let (name, target) =
            (text(container, &["name"]), text(container, &["targetContainerName"]));
        if !names.insert(name) {
            errors.duplicate(format!("{place}.name"), &name.into());
        }
        if !target.is_empty() && !others.contains(target) {
            errors.missing(format!("{place}.targetContainerName"), &target.into());
        }
        check_fit(container, &place, errors);
    }
}

fn check_fit(container: &Value, place: &str, errors: &mut FieldErrors) {
    let rule = "cannot be set for an Ephemeral Container";
    for field in UNFIT {
        if ![Value::Null, json!({}), json!([])].contains(&container[field]) {
            errors.forbidden(format!("{place}.{field}"), rule);
        }
    }
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, &[field]).is_empty() {
                errors.forbidden(format!("{place}.volumeMounts[{index}].{field}"), rule);
            }
        }
    }
}
