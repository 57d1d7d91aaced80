//! Rows of built-in kinds without a file of their own, and the default row.

use jiff::Timestamp;

use super::{NONE_TEXT, or_none};
use crate::api_types::label_selector::LabelSelector;
use schedlab_api::{
    Value,
    duration::age::since,
    json,
    object::{at, list, map, number, text},
};

pub(super) const NAMESPACE_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)];
pub(super) const EVENT_COLUMNS: &[(&str, &str, i64)] = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];
pub(super) const SERVICE_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    ("Age", "string", 0),
    ("Selector", "string", 1),
];
pub(super) const BUDGET_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Min Available", "string", 0),
    ("Max Unavailable", "string", 0),
    ("Allowed Disruptions", "integer", 0),
    ("Age", "string", 0),
];
pub(super) const PRIORITY_CLASS_COLUMNS: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Value", "integer", 0),
    ("Global-Default", "boolean", 0),
    ("Age", "string", 0),
    ("PreemptionPolicy", "string", 0),
];
pub(super) const LEASE_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Holder", "string", 0), ("Age", "string", 0)];
pub(super) const CONFIG_MAP_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Data", "string", 0), ("Age", "string", 0)];
pub(super) const SECRET_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Type", "string", 0), ("Data", "string", 0), ("Age", "string", 0)];
pub(super) const RUNTIME_CLASS_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Handler", "string", 0), ("Age", "string", 0)];
pub(super) const CLAIM_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("State", "string", 0), ("Age", "string", 0)];
pub(super) const DEFINITION: &[(&str, &str, i64)] = &[
    ("Name", "string", 0),
    ("Scope", "string", 0),
    ("Versions", "string", 0),
    ("Created At", "date", 0),
    ("Group", "string", 1),
    ("Kind", "string", 1),
    ("ShortNames", "string", 1),
    ("Established", "boolean", 1),
];
pub(super) const DEFAULT_COLUMNS: &[(&str, &str, i64)] =
    &[("Name", "string", 0), ("Created At", "date", 0)];

fn name_cell(object: &Value) -> Value {
    json!(text(object, &["metadata", "name"]))
}

fn age_cell(object: &Value, now: Timestamp) -> Value {
    json!(since(at(object, &["metadata", "creationTimestamp"]), now))
}

pub(super) fn namespace_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_cell(object), json!(text(object, &["status", "phase"])), age_cell(object, now)]
}

pub(super) fn event_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let time = |paths: [&[&str]; 3]| {
        let found = paths.into_iter().filter_map(|path| at(object, path)).find(|t| t.is_string());
        since(found, now)
    };
    let first = time([&["firstTimestamp"], &["deprecatedFirstTimestamp"], &["eventTime"]]);
    let last = match at(object, &["series", "lastObservedTime"]).filter(|time| time.is_string()) {
        Some(time) => since(Some(time), now),
        None => time([&["lastTimestamp"], &["deprecatedLastTimestamp"], &["eventTime"]]),
    };
    let about = at(object, &["involvedObject"]).or(at(object, &["regarding"]));
    let about = about.unwrap_or(&Value::Null);
    let count = number(object, &["series", "count"])
        .or(number(object, &["count"]))
        .or(number(object, &["deprecatedCount"]))
        .unwrap_or(0);
    let message = text(object, &["message"]);
    let message = if message.is_empty() { text(object, &["note"]) } else { message };
    vec![
        json!(last),
        json!(text(object, &["type"])),
        json!(text(object, &["reason"])),
        json!(format!("{}/{}", text(about, &["kind"]).to_lowercase(), text(about, &["name"]))),
        json!(text(about, &["fieldPath"])),
        json!(event_source(object)),
        json!(message.trim()),
        json!(first),
        json!(count.max(1)),
        name_cell(object),
    ]
}

fn event_source(event: &Value) -> String {
    let either = |one: [&str; 2], other: &str| {
        let found = text(event, &one);
        (if found.is_empty() { text(event, &[other]) } else { found }).to_owned()
    };
    let component = either(["source", "component"], "reportingComponent");
    let host = either(["source", "host"], "reportingInstance");
    if host.is_empty() { component } else { format!("{component}, {host}") }
}

pub(super) fn service_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = match text(object, &["spec", "type"]) {
        "" => "ClusterIP",
        kind => kind,
    };
    let ports: Vec<String> = list(object, &["spec", "ports"]).iter().map(service_port).collect();
    let selector = at(object, &["spec", "selector"]).unwrap_or(&Value::Null);
    vec![
        name_cell(object),
        json!(kind),
        json!(or_none(text(object, &["spec", "clusterIP"]))),
        json!(external_ip(object, kind)),
        json!(or_none(&ports.join(","))),
        age_cell(object, now),
        json!(or_none(&LabelSelector::from_map(selector).to_string())),
    ]
}

fn service_port(port: &Value) -> String {
    let protocol = match text(port, &["protocol"]) {
        "" => "TCP",
        protocol => protocol,
    };
    let number_of = |field: &str| number(port, &[field]).unwrap_or(0);
    match number_of("nodePort") {
        0 => format!("{}/{protocol}", number_of("port")),
        node => format!("{}:{node}/{protocol}", number_of("port")),
    }
}

fn external_ip(service: &Value, kind: &str) -> String {
    if kind == "ExternalName" {
        return text(service, &["spec", "externalName"]).to_owned();
    }
    let ingress = list(service, &["status", "loadBalancer", "ingress"]).iter();
    let mut ips: Vec<&str> = ingress.map(|ingress| text(ingress, &["ip"])).collect();
    ips.extend(list(service, &["spec", "externalIPs"]).iter().filter_map(Value::as_str));
    match ips.join(",") {
        none if none.is_empty() && kind == "LoadBalancer" => "<pending>".to_owned(),
        ips => or_none(&ips).to_owned(),
    }
}

pub(super) fn budget_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |field: &str| {
        let value = at(object, &["spec", field]).filter(|value| !value.is_null());
        json!(value.map_or_else(|| "N/A".to_owned(), super::json_path::value_text))
    };
    vec![
        name_cell(object),
        bound("minAvailable"),
        bound("maxUnavailable"),
        json!(number(object, &["status", "disruptionsAllowed"]).unwrap_or(0)),
        age_cell(object, now),
    ]
}

pub(super) fn priority_class_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(number(object, &["value"]).unwrap_or(0)),
        json!(object["globalDefault"] == true),
        age_cell(object, now),
        json!(text(object, &["preemptionPolicy"])),
    ]
}

pub(super) fn lease_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_cell(object), json!(text(object, &["spec", "holderIdentity"])), age_cell(object, now)]
}

fn entry_count(object: &Value, fields: &[&str]) -> Value {
    let count = |field: &&str| map(object, &[*field]).map_or(0, schedlab_api::Map::len);
    json!(fields.iter().map(count).sum::<usize>())
}

pub(super) fn config_map_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_cell(object), entry_count(object, &["data", "binaryData"]), age_cell(object, now)]
}

pub(super) fn secret_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name_cell(object),
        json!(text(object, &["type"])),
        entry_count(object, &["data"]),
        age_cell(object, now),
    ]
}

pub(super) fn runtime_class_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name_cell(object), json!(text(object, &["handler"])), age_cell(object, now)]
}

pub(super) fn claim_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_deleted = schedlab_api::object::is_deleting(object);
    let is_allocated = at(object, &["status", "allocation"]).is_some();
    let is_reserved = is_allocated && !list(object, &["status", "reservedFor"]).is_empty();
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    let held = states.iter().filter_map(|(is_held, state)| is_held.then_some(*state));
    vec![name_cell(object), json!(held.collect::<Vec<_>>().join(",")), age_cell(object, now)]
}

/// A `CustomResourceDefinition`.
pub(super) fn definition(object: &Value, _now: Timestamp) -> Vec<Value> {
    let served = list(object, &["spec", "versions"]).iter().filter(|it| it["served"] == true);
    let mut versions: Vec<String> = served
        .map(|version| {
            let mark = if version["storage"] == true { "(storage)" } else { "" };
            format!("{}{mark}", text(version, &["name"]))
        })
        .collect();
    versions.sort();
    let short_names = list(object, &["spec", "names", "shortNames"]).iter();
    let short_names: Vec<&str> = short_names.filter_map(Value::as_str).collect();
    let is_established = list(object, &["status", "conditions"])
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    vec![
        name_cell(object),
        json!(text(object, &["spec", "scope"])),
        json!(versions.join(",")),
        json!(text(object, &["metadata", "creationTimestamp"])),
        json!(text(object, &["spec", "group"])),
        json!(text(object, &["spec", "names", "kind"])),
        json!(short_names.join(",")),
        json!(is_established),
    ]
}

pub(super) fn default(object: &Value, _now: Timestamp) -> Vec<Value> {
    let created = text(object, &["metadata", "creationTimestamp"]);
    vec![name_cell(object), json!(if created.is_empty() { NONE_TEXT } else { created })]
}
