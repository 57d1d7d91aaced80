//! Limit ranges of a namespace, for pods.

use serde_json::Value;

use super::Admission;
use super::container::amount;
use super::template::items_mut;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object::{self, list, map};

/// Fills in a limit range's defaults.
pub(super) fn fill(admission: &Admission<'_>, pod: &mut Value) {
    let ranges = Resource::new("", "limitranges");
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        for limit in list(range, &["spec", "limits"]) {
            if limit["type"] == "Container" {
                fill_containers(&mut pod["spec"], limit);
            }
        }
    }
}

fn fill_containers(spec: &mut Value, limit: &Value) {
    for field in ["containers", "initContainers"] {
        for container in items_mut(spec, field) {
            fill_amounts(container, "limits", &limit["default"]);
            fill_amounts(container, "requests", &limit["defaultRequest"]);
        }
    }
}

fn fill_amounts(container: &mut Value, kind: &str, defaults: &Value) {
    for (name, value) in defaults.as_object().into_iter().flatten() {
        object::set_default(container, &["resources", kind, name], value.clone());
    }
}

/// Refuses a pod outside a limit range.
pub(super) fn check(admission: &Admission<'_>, pod: &Value) -> Result<(), ApiError> {
    let ranges = Resource::new("", "limitranges");
    let mut wrongs = Vec::new();
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        for limit in list(range, &["spec", "limits"]) {
            if limit["type"] != "Container" {
                continue;
            }
            for container in list(pod, &["spec", "containers"]) {
                check_bounds(&container["resources"], limit, &mut wrongs);
            }
        }
    }
    match wrongs.as_slice() {
        [] => Ok(()),
        [one] => Err(refuse(admission, one)),
        several => Err(refuse(admission, &format!("[{}]", several.join(", ")))),
    }
}

fn check_bounds(resources: &Value, limit: &Value, wrongs: &mut Vec<String>) {
    for (name, least) in map(limit, &["min"]).into_iter().flatten() {
        let bound = least.as_str().unwrap_or_default();
        match resources["requests"].get(name) {
            None => wrongs.push(format!(
                "minimum {name} usage per Container is {bound}.  No request is specified"
            )),
            Some(request) if amount(request) < amount(least) => wrongs.push(format!(
                "minimum {name} usage per Container is {bound}, but request is {}",
                request.as_str().unwrap_or_default()
            )),
            Some(_) => {}
        }
    }
    for (name, most) in map(limit, &["max"]).into_iter().flatten() {
        let bound = most.as_str().unwrap_or_default();
        match resources["limits"].get(name) {
            None => wrongs.push(format!(
                "maximum {name} usage per Container is {bound}.  No limit is specified"
            )),
            Some(limit) if amount(limit) > amount(most) => wrongs.push(format!(
                "maximum {name} usage per Container is {bound}, but limit is {}",
                limit.as_str().unwrap_or_default()
            )),
            Some(_) => {}
        }
    }
}

fn refuse(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}
