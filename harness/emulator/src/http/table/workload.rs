//! Rows of workloads: Deployments, ReplicaSets, StatefulSets, `DaemonSets` and Jobs.

use jiff::Timestamp;

use super::{NONE_TEXT, or_none};
use crate::api_types::label_selector::LabelSelector;
use schedlab_api::{
    Map, Value,
    duration::age::{human_duration, since},
    json,
    object::{at, condition, is_deleting, list, map, number, remove, text},
};

pub(super) const DEPLOYMENT_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
pub(super) const REPLICA_SET_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
pub(super) const STATEFUL_SET_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
];
pub(super) const DAEMON_SET_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Up-to-date", "integer", 0),
    ("Available", "integer", 0),
    ("Node Selector", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
pub(super) const JOB_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
pub(super) const CRON_JOB_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Schedule", "string", 0),
    ("Timezone", "string", 0),
    ("Suspend", "boolean", 0),
    ("Active", "integer", 0),
    ("Last Schedule", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];

fn name_cell(object: &Value) -> Value {
    json!(text(object, &["metadata", "name"]))
}

fn age_cell(object: &Value, now: Timestamp) -> Value {
    json!(since(at(object, &["metadata", "creationTimestamp"]), now))
}

fn count_at(object: &Value, path: &[&str]) -> i64 {
    number(object, path).unwrap_or(0)
}

fn desired_replicas(object: &Value) -> i64 {
    number(object, &["spec", "replicas"]).unwrap_or(1)
}

fn containers_cell(object: &Value, field: &str) -> Value {
    let containers = list(object, &["spec", "template", "spec", "containers"]);
    let texts: Vec<&str> = containers.iter().map(|container| text(container, &[field])).collect();
    json!(texts.join(","))
}

fn selector_cell(object: &Value) -> Value {
    let selector = at(object, &["spec", "selector"]).unwrap_or(&Value::Null);
    let text = LabelSelector::from_object(selector).map(|selector| selector.to_string());
    json!(or_none(&text.unwrap_or_default()))
}

pub(super) fn deployment_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(format!(
            "{}/{}",
            count_at(object, &["status", "readyReplicas"]),
            desired_replicas(object)
        )),
        json!(count_at(object, &["status", "updatedReplicas"])),
        json!(count_at(object, &["status", "availableReplicas"])),
        age_cell(object, now),
        containers_cell(object, "name"),
        containers_cell(object, "image"),
        selector_cell(object),
    ]
}

pub(super) fn replica_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(desired_replicas(object)),
        json!(count_at(object, &["status", "replicas"])),
        json!(count_at(object, &["status", "readyReplicas"])),
        age_cell(object, now),
        containers_cell(object, "name"),
        containers_cell(object, "image"),
        selector_cell(object),
    ]
}

pub(super) fn stateful_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(format!(
            "{}/{}",
            count_at(object, &["status", "readyReplicas"]),
            desired_replicas(object)
        )),
        age_cell(object, now),
        containers_cell(object, "name"),
        containers_cell(object, "image"),
    ]
}

pub(super) fn daemon_set_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = |field: &str| json!(count_at(object, &["status", field]));
    let nodes = at(object, &["spec", "template", "spec", "nodeSelector"]).unwrap_or(&Value::Null);
    vec![
        name_cell(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        json!(or_none(&LabelSelector::from_map(nodes).to_string())),
        age_cell(object, now),
        containers_cell(object, "name"),
        containers_cell(object, "image"),
        selector_cell(object),
    ]
}

pub(super) fn job_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(job_status(object)),
        json!(completions(object)),
        json!(job_duration(object, now)),
        age_cell(object, now),
        containers_cell(object, "name"),
        containers_cell(object, "image"),
        selector_cell(object),
    ]
}

fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == Some("True");
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if is_deleting(job) => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = count_at(job, &["status", "succeeded"]);
    let parallel = number(job, &["spec", "parallelism"]).unwrap_or(0);
    match number(job, &["spec", "completions"]) {
        Some(all) => format!("{done}/{all}"),
        None if parallel > 1 => format!("{done}/1 of {parallel}"),
        None => format!("{done}/1"),
    }
}

fn job_duration(job: &Value, now: Timestamp) -> String {
    let time = |field: &str| text(job, &["status", field]).parse::<Timestamp>().ok();
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).duration_since(start)),
    }
}

pub(super) fn cron_job_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let zone = text(object, &["spec", "timeZone"]);
    let last = at(object, &["status", "lastScheduleTime"]).filter(|time| time.is_string());
    let template = &object["spec"]["jobTemplate"];
    vec![
        name_cell(object),
        json!(text(object, &["spec", "schedule"])),
        json!(or_none(zone)),
        json!(if object["spec"]["suspend"] == true { "True" } else { "False" }),
        json!(list(object, &["status", "active"]).len()),
        json!(last.map_or_else(|| NONE_TEXT.to_owned(), |last| since(Some(last), now))),
        age_cell(object, now),
        containers_cell(template, "name"),
        containers_cell(template, "image"),
        selector_cell(template),
    ]
}

/// Removes the annotation that version conversion adds to `DaemonSets`: kube-apiserver renders
/// tables before the conversion.
pub(super) fn remove_conversion_annotation(object: &mut Value) {
    let path = ["metadata", "annotations", "deprecated.daemonset.template.generation"];
    remove(object, &path);
    if map(object, &path[..2]).is_some_and(Map::is_empty) {
        remove(object, &path[..2]);
    }
}
