//! The `LimitRanger` admission plugin: applies the limit ranges of a namespace to pods and
//! persistent volume claims. The validation of a `LimitRange` itself is in `limit_range`.

use std::collections::BTreeMap;

use super::Admission;
use super::checks::quantity_milli;
use crate::admission::defaults::pod_template::list_items_mut;
use crate::admission::quota;
use crate::api_types::error::ApiError;
use crate::api_types::pod_requests::{Amounts, pod_limits, pod_requests};
use crate::api_types::resource::Resource;
use schedlab_api::{
    Text, Value,
    object::{self, list, map, text},
    quantity::Milli,
};

/// The annotation that lists the defaults that `LimitRanger` set.
const LIMIT_RANGER_ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the container defaults of the limit ranges and lists them in an annotation of the pod.
pub(super) fn set_container_defaults(admission: &Admission<'_>, pod: &mut Value) {
    let ranges = Resource::new("", "limitranges");
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        let mut changes = Vec::new();
        for limit in list(range, &["spec", "limits"]) {
            if limit["type"] == "Container" {
                set_missing_container_amounts(&mut pod["spec"], limit, &mut changes);
            }
        }
        if !changes.is_empty() {
            let annotation = format!("LimitRanger plugin set: {}", changes.join("; "));
            object::set(
                pod,
                &["metadata", "annotations", LIMIT_RANGER_ANNOTATION],
                annotation.into(),
            );
        }
    }
}

fn set_missing_container_amounts(spec: &mut Value, limit: &Value, changes: &mut Vec<String>) {
    for (field, kind) in [("containers", "container"), ("initContainers", "init container")] {
        for container in list_items_mut(spec, field) {
            let limits = set_missing_amounts(container, "limits", &limit["default"]);
            let requests = set_missing_amounts(container, "requests", &limit["defaultRequest"]);
            let name = text(container, &["name"]);
            let filled = [(requests, "request"), (limits, "limit")];
            let filled = filled.iter().filter(|(names, _)| !names.is_empty());
            let describe = |(names, what): &(Vec<Text>, &str)| {
                format!("{} {what} for {kind} {name}", names.join(", "))
            };
            changes.extend(filled.map(describe));
        }
    }
}

/// Sets the missing `requests` or `limits` (`kind`) of a container, and returns the names of the
/// resources that were set.
fn set_missing_amounts(container: &mut Value, kind: &str, defaults: &Value) -> Vec<Text> {
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

/// Amounts by resource: in thousandths, and as text for messages.
type FormattedAmounts = BTreeMap<String, (Milli, String)>;

/// Rejects a pod or a persistent volume claim that violates a limit range.
pub(super) fn check_limit_ranges(
    admission: &Admission<'_>,
    object: &Value,
) -> Result<(), ApiError> {
    let is_pod = admission.kind.is("", "Pod");
    if !is_pod && !admission.kind.is("", "PersistentVolumeClaim") {
        return Ok(());
    }
    let ranges = Resource::new("", "limitranges");
    let mut violations = Vec::new();
    for range in admission.store.list(&ranges, Some(&admission.key.namespace)) {
        for limit in list(range, &["spec", "limits"]) {
            match (is_pod, text(limit, &["type"])) {
                (true, "Container") => check_containers(object, limit, &mut violations),
                (true, "Pod") => {
                    let requests = format_sums(&pod_requests(object), object, "requests");
                    let limits = format_sums(&pod_limits(object), object, "limits");
                    check_bounds(&requests, Some(&limits), limit, &mut violations);
                }
                (false, "PersistentVolumeClaim") => {
                    let requests = formatted_amounts(&object["spec"]["resources"], "requests");
                    check_bounds(&requests, None, limit, &mut violations);
                }
                _ => {}
            }
        }
    }
    match violations.as_slice() {
        [] => Ok(()),
        [one] => Err(forbidden_error(admission, one)),
        several => Err(forbidden_error(admission, &format!("[{}]", several.join(", ")))),
    }
}

fn check_containers(pod: &Value, limit: &Value, violations: &mut Vec<String>) {
    for kind in ["containers", "initContainers"] {
        for container in list(pod, &["spec", kind]) {
            let [requests, limits] = ["requests", "limits"]
                .map(|field| formatted_amounts(&container["resources"], field));
            check_bounds(&requests, Some(&limits), limit, violations);
        }
    }
}

fn formatted_amounts(resources: &Value, field: &str) -> FormattedAmounts {
    let all = map(resources, &[field]).into_iter().flatten();
    let all =
        all.map(|(name, found)| (name.to_string(), (quantity_milli(found), quantity_text(found))));
    all.collect()
}

/// The sums over a pod's containers with their texts, in binary units if a container uses binary
/// units.
fn format_sums(sums: &Amounts, pod: &Value, field: &str) -> FormattedAmounts {
    let is_binary = |resource: &str| {
        let all = ["containers", "initContainers"].into_iter();
        let all = all.flat_map(|kind| list(pod, &["spec", kind]));
        let mut parts = all.map(|container| text(container, &["resources", field, resource]));
        parts.any(|part| part.ends_with('i'))
    };
    let all = sums.iter();
    all.map(|(name, sum)| (name.clone(), (*sum, quota::canonical_amount(*sum, is_binary(name)))))
        .collect()
}

fn quantity_text(quantity: &Value) -> String {
    quantity.as_str().unwrap_or_default().to_owned()
}

/// Checks amounts against `min`, `max` and `maxLimitRequestRatio` of one entry of a LimitRange.
/// `None` for the limits of a `PersistentVolumeClaim`, which has requests only.
fn check_bounds(
    requests: &FormattedAmounts,
    limits: Option<&FormattedAmounts>,
    limit: &Value,
    violations: &mut Vec<String>,
) {
    let of = text(limit, &["type"]);
    let bounds = |field: &str| formatted_amounts(limit, field).into_iter();
    for (name, (least, bound)) in bounds("min") {
        let rule = format!("minimum {name} usage per {of} is {bound}");
        let limit = limits.and_then(|limits| limits.get(&name));
        match (requests.get(&name), limit) {
            (None, _) => violations.push(format!("{rule}.  No request is specified")),
            (Some((found, shown)), _) if *found < least => {
                violations.push(format!("{rule}, but request is {shown}"));
            }
            (_, Some((found, shown))) if *found < least => {
                violations.push(format!("{rule}, but limit is {shown}"));
            }
            _ => {}
        }
    }
    for (name, (most, bound)) in bounds("max") {
        let rule = format!("maximum {name} usage per {of} is {bound}");
        let limit = limits.map(|limits| limits.get(&name));
        match (limit, requests.get(&name)) {
            (Some(None), _) => violations.push(format!("{rule}.  No limit is specified")),
            (Some(Some((found, shown))), _) if *found > most => {
                violations.push(format!("{rule}, but limit is {shown}"));
            }
            (_, Some((found, shown))) if *found > most => {
                violations.push(format!("{rule}, but request is {shown}"));
            }
            _ => {}
        }
    }
    let Some(limits) = limits else { return };
    for (name, (ratio, bound)) in bounds("maxLimitRequestRatio") {
        let rule = format!("{name} max limit to request ratio per {of} is {bound}, but");
        let found = |all: &FormattedAmounts| all.get(&name).map_or(0, |(found, _)| *found);
        match (found(requests), found(limits)) {
            (0, _) => violations.push(format!("{rule} no request is specified or request is 0")),
            (_, 0) => violations.push(format!("{rule} no limit is specified or limit is 0")),
            (request, limit_amount) if limit_amount * 1000 > ratio * request => {
                let found = format_ratio(limit_amount, request);
                violations.push(format!("{rule} provided ratio is {found}"));
            }
            _ => {}
        }
    }
}

/// The quotient of two amounts as text with six decimals, as in the API server's messages.
pub(super) fn format_ratio(amount: Milli, divisor: Milli) -> String {
    let millionths = (amount * 2_000_000 / divisor + 1) / 2;
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

fn forbidden_error(admission: &Admission<'_>, why: &str) -> ApiError {
    ApiError::forbidden(&admission.key.resource, &admission.key.name, why)
}
