//! Limit ranges of a namespace, for pods and for claims on volumes.

use std::collections::BTreeMap;

use super::Admission;
use super::container::amount;
use super::template::items_mut;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object::{self, list, map, text};
use crate::quantity::Milli;
use crate::quota;
use crate::requests::{Amounts, limited, requested};
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

/// Amounts by resource, and how each is told.
type Told = BTreeMap<String, (Milli, String)>;

/// Refuses a pod, or a claim on a volume, outside a limit range.
pub(super) fn check(admission: &Admission<'_>, object: &Value) -> Result<(), ApiError> {
    let is_pod = admission.kind.is("", "Pod");
    if !is_pod && !admission.kind.is("", "PersistentVolumeClaim") {
        return Ok(());
    }
    let ranges = Resource::new("", "limitranges");
    let mut wrongs = Vec::new();
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        for limit in list(range, &["spec", "limits"]) {
            match (is_pod, text(limit, &["type"])) {
                (true, "Container") => check_containers(object, limit, &mut wrongs),
                (true, "Pod") => {
                    let requests = told(&requested(object), (object, "requests"));
                    let limits = told(&limited(object), (object, "limits"));
                    check_bounds((&requests, Some(&limits)), limit, &mut wrongs);
                }
                (false, "PersistentVolumeClaim") => {
                    let requests = amounts(&object["spec"]["resources"], "requests");
                    check_bounds((&requests, None), limit, &mut wrongs);
                }
                _ => {}
            }
        }
    }
    match wrongs.as_slice() {
        [] => Ok(()),
        [one] => Err(refuse(admission, one)),
        several => Err(refuse(admission, &format!("[{}]", several.join(", ")))),
    }
}

fn check_containers(pod: &Value, limit: &Value, wrongs: &mut Vec<String>) {
    for kind in ["containers", "initContainers"] {
        for container in list(pod, &["spec", kind]) {
            let [requests, limits] =
                ["requests", "limits"].map(|field| amounts(&container["resources"], field));
            check_bounds((&requests, Some(&limits)), limit, wrongs);
        }
    }
}

fn amounts(resources: &Value, field: &str) -> Told {
    let all = map(resources, &[field]).into_iter().flatten();
    let all = all.map(|(name, found)| (name.to_string(), (amount(found), in_words(found))));
    all.collect()
}

/// A pod's sums, each told in the form in which its containers have it.
fn told(sums: &Amounts, (pod, field): (&Value, &str)) -> Told {
    let is_binary = |resource: &str| {
        let all = ["containers", "initContainers"].into_iter();
        let all = all.flat_map(|kind| list(pod, &["spec", kind]));
        let mut parts = all.map(|container| text(container, &["resources", field, resource]));
        parts.any(|part| part.ends_with('i'))
    };
    let all = sums.iter();
    all.map(|(name, sum)| (name.clone(), (*sum, quota::shown(*sum, is_binary(name))))).collect()
}

fn in_words(quantity: &Value) -> String {
    quantity.as_str().unwrap_or_default().to_owned()
}

/// What is asked for, and what may be used, against a limit's least, its most and its ratio of
/// the two. Volumes are asked for only.
fn check_bounds(
    (requests, limits): (&Told, Option<&Told>),
    limit: &Value,
    wrongs: &mut Vec<String>,
) {
    let of = text(limit, &["type"]);
    let bounds = |field: &str| amounts(limit, field).into_iter();
    for (name, (least, bound)) in bounds("min") {
        let rule = format!("minimum {name} usage per {of} is {bound}");
        let limit = limits.and_then(|limits| limits.get(&name));
        match (requests.get(&name), limit) {
            (None, _) => wrongs.push(format!("{rule}.  No request is specified")),
            (Some((found, words)), _) if *found < least => {
                wrongs.push(format!("{rule}, but request is {words}"));
            }
            (_, Some((found, words))) if *found < least => {
                wrongs.push(format!("{rule}, but limit is {words}"));
            }
            _ => {}
        }
    }
    for (name, (most, bound)) in bounds("max") {
        let rule = format!("maximum {name} usage per {of} is {bound}");
        let limit = limits.map(|limits| limits.get(&name));
        match (limit, requests.get(&name)) {
            (Some(None), _) => wrongs.push(format!("{rule}.  No limit is specified")),
            (Some(Some((found, words))), _) if *found > most => {
                wrongs.push(format!("{rule}, but limit is {words}"));
            }
            (_, Some((found, words))) if *found > most => {
                wrongs.push(format!("{rule}, but request is {words}"));
            }
            _ => {}
        }
    }
    let Some(limits) = limits else { return };
    for (name, (ratio, bound)) in bounds("maxLimitRequestRatio") {
        let rule = format!("{name} max limit to request ratio per {of} is {bound}, but");
        let found = |all: &Told| all.get(&name).map_or(0, |(found, _)| *found);
        match (found(requests), found(limits)) {
            (0, _) => wrongs.push(format!("{rule} no request is specified or request is 0")),
            (_, 0) => wrongs.push(format!("{rule} no limit is specified or limit is 0")),
            (asked, used) if used * 1000 > ratio * asked => {
                let found = quotient(used, asked);
                wrongs.push(format!("{rule} provided ratio is {found}"));
            }
            _ => {}
        }
    }
}

/// How often one amount goes into another, to six places, as the real server shows it.
pub(super) fn quotient(amount: Milli, by: Milli) -> String {
    let millionths = (amount * 2_000_000 / by + 1) / 2;
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

fn refuse(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}
