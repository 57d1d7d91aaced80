//! Limit ranges and resource quotas of a namespace, for pods.
//!
//! A quota's use is counted afresh from the pods that are there, at every new pod. Scopes other
//! than `BestEffort`, `NotBestEffort` and `PriorityClass` are left out.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Admission;
use super::container::amount;
use super::template::items_mut;
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object::{self, list, map, text};
use crate::quantity::Milli;

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

/// Refuses a pod outside a limit range or above a quota.
pub(super) fn check(admission: &Admission<'_>, pod: &Value) -> Result<(), ApiError> {
    check_ranges(admission, pod)?;
    let quotas = Resource::new("", "resourcequotas");
    let mut asked = None;
    for quota in admission.store.list(&quotas, Some(&admission.key.namespace)) {
        let asked = asked.get_or_insert_with(|| usage(pod));
        check_quota(admission, quota, (pod, asked))?;
    }
    Ok(())
}

fn check_ranges(admission: &Admission<'_>, pod: &Value) -> Result<(), ApiError> {
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

type Amounts = BTreeMap<String, Milli>;

fn check_quota(
    admission: &Admission<'_>,
    quota: &Value,
    (pod, asked): (&Value, &Amounts),
) -> Result<(), ApiError> {
    if !in_scope(quota, pod) {
        return Ok(());
    }
    let mut used = Amounts::new();
    let pods = admission.store.list(&admission.key.resource, Some(&admission.key.namespace));
    for other in pods.filter(|other| counts(other) && in_scope(quota, other)) {
        for (name, amount) in usage(other) {
            *used.entry(name).or_default() += amount;
        }
    }
    let (mut over, mut unset) = ([const { Vec::new() }; 3], Vec::new());
    for (name, hard) in map(quota, &["spec", "hard"]).into_iter().flatten() {
        let Some(more) = asked.get(name) else {
            let bare = name.trim_start_matches("requests.").trim_start_matches("limits.");
            if matches!(bare, "cpu" | "memory") {
                unset.push(name.clone());
            }
            continue;
        };
        let now = used.get(name).copied().unwrap_or(0);
        if now + more > amount(hard) {
            let hard = hard.as_str().unwrap_or_default();
            over[0].push(format!("{name}={}", shown(*more, hard)));
            over[1].push(format!("{name}={}", shown(now, hard)));
            over[2].push(format!("{name}={hard}"));
        }
    }
    let name = object::name(quota);
    if !over[0].is_empty() {
        return Err(refuse(
            admission,
            &format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                over[0].join(","),
                over[1].join(","),
                over[2].join(",")
            ),
        ));
    }
    if !unset.is_empty() {
        let containers = list(pod, &["spec", "containers"]).iter();
        let containers: Vec<&str> = containers.map(object_name).collect();
        let unset: Vec<String> =
            unset.iter().map(|name| format!("{name} for: {}", containers.join(","))).collect();
        let why = format!("failed quota: {name}: must specify {}", unset.join("; "));
        return Err(refuse(admission, &why));
    }
    Ok(())
}

fn object_name(container: &Value) -> &str {
    text(container, &["name"])
}

/// Pods that have ended count no more.
fn counts(pod: &Value) -> bool {
    !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

fn in_scope(quota: &Value, pod: &Value) -> bool {
    let is_best_effort = pod["status"]["qosClass"] == "BestEffort";
    let class = text(pod, &["spec", "priorityClassName"]);
    let scopes = list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    let by_class = |expression: &Value| {
        let has = list(expression, &["values"]).iter().any(|value| value == class);
        match (text(expression, &["scopeName"]), text(expression, &["operator"])) {
            ("PriorityClass", "In") => has,
            ("PriorityClass", "NotIn") => !has,
            ("PriorityClass", "Exists") => !class.is_empty(),
            ("PriorityClass", "DoesNotExist") => class.is_empty(),
            _ => true,
        }
    };
    expressions.iter().all(by_class)
        && scopes.into_iter().all(|scope| match scope {
            "BestEffort" => is_best_effort,
            "NotBestEffort" => !is_best_effort,
            _ => true,
        })
}

/// What a pod counts for under the names that quotas use.
fn usage(pod: &Value) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), 1000), ("count/pods".to_owned(), 1000)]);
    for container in list(pod, &["spec", "containers"]) {
        let amounts = |kind: &str| map(container, &["resources", kind]).into_iter().flatten();
        for (name, value) in amounts("limits") {
            *usage.entry(format!("limits.{name}")).or_default() += amount(value);
        }
        for (name, value) in amounts("requests") {
            *usage.entry(format!("requests.{name}")).or_default() += amount(value);
            if matches!(name.as_str(), "cpu" | "memory") {
                *usage.entry(name.clone()).or_default() += amount(value);
            }
        }
    }
    usage
}

/// An amount in the way in which the quota's own limit is written.
fn shown(milli: Milli, like: &str) -> String {
    let binary = like.ends_with('i') && milli % 1000 == 0;
    let text = if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") };
    let text = if binary { format!("{}Ki", milli / 1_024_000) } else { text };
    crate::kinds::typed::canonical(&text).unwrap_or(text)
}
