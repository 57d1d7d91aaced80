//! Limit ranges of a namespace, for pods.

use super::Admission;
use super::container::amount;
use super::template::items_mut;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object::{self, list, map, text};
use schedlab_json::{Text, Value};

/// Where it is told what was filled in.
const TOLD: &str = "kubernetes.io/limit-ranger";

/// Fills in a limit range's defaults, and tells so on the pod.
pub(super) fn fill(admission: &Admission<'_>, pod: &mut Value) {
    let ranges = Resource::new("", "limitranges");
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        let mut told = Vec::new();
        for limit in list(range, &["spec", "limits"]) {
            if limit["type"] == "Container" {
                fill_containers(&mut pod["spec"], limit, &mut told);
            }
        }
        if !told.is_empty() {
            let told = format!("LimitRanger plugin set: {}", told.join("; "));
            object::set(pod, &["metadata", "annotations", TOLD], told.into());
        }
    }
}

fn fill_containers(spec: &mut Value, limit: &Value, told: &mut Vec<String>) {
    for (field, kind) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(spec, field) {
            let limits = fill_amounts(container, "limits", &limit["default"]);
            let requests = fill_amounts(container, "requests", &limit["defaultRequest"]);
            let name = text(container, &["name"]);
            let filled = [(requests, "request"), (limits, "limit")];
            let filled = filled.iter().filter(|(names, _)| !names.is_empty());
            let words = |(names, what): &(Vec<Text>, &str)| {
                format!("{} {what} for {kind} {name}", names.join(", "))
            };
            told.extend(filled.map(words));
        }
    }
}

/// Answers what was not there.
fn fill_amounts(container: &mut Value, kind: &str, defaults: &Value) -> Vec<Text> {
    let mut filled = Vec::new();
    for (name, value) in defaults.as_object().into_iter().flatten() {
        let path = ["resources", kind, name];
        if object::at(container, &path).is_none_or(Value::is_null) {
            object::set(container, &path, value.clone());
            filled.push(name.clone());
        }
    }
    filled.sort();
    filled
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
        match resources["requests"].get(name.as_str()) {
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
        match resources["limits"].get(name.as_str()) {
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
