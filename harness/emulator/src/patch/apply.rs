//! Server-side apply: an object becomes what its managers together want. The applied
//! configuration is merged in, what the same manager applied earlier and no longer wants goes,
//! and what others own is not overwritten unless forced.

use std::collections::BTreeMap;

use super::conflict::{Conflict, refuse};
use super::diff::{Diff, diff};
use super::fields::{FieldSet, child, children, intersection, of_object, subtract, unite};
use super::managed::{Author, Entry, Operation, read_entries, write_entries};
use super::shape::{ListShape, Shape, item_step};
use crate::error::ApiError;
use crate::object;
use schedlab_json::{Map, Value};

/// What `kubectl apply` without `--server-side` notes.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Applies `wanted` to `live` (`None`: creates). Whether others are overwritten is judged by what
/// the applier `said`, before `1` of a quantity became `"1"`. The result is `live` itself, unchanged, when it
/// already is what its managers want. The caller leaves out of `wanted` what the written
/// subresource does not reach. Errors: 400 for a malformed configuration, 409 for conflicts, 500
/// where a keyed list lacks its keys (as the API server answers).
pub fn apply(
    live: Option<&Value>,
    (said, wanted): (&Value, &Value),
    force: bool,
    shape: &Shape,
    author: &Author<'_>,
) -> Result<Value, ApiError> {
    if !wanted["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let set = of_object(wanted, shape)
        .map_err(|bad| untyped_patch(wanted, &format!("{}: {}", bad.path, bad.problem)))?;
    let mut entries = live.map(|live| owners(live, shape)).unwrap_or_default();
    let last = entries.iter().position(|entry| entry.is_by(author, Operation::Apply));
    let last = last.map(|index| entries.remove(index));

    let mut merged = live.cloned().unwrap_or(Value::Null);
    merge_value(&mut merged, wanted, shape);
    if let Some(last) = &last {
        let others: Vec<&FieldSet> = entries.iter().map(|entry| &entry.fields).collect();
        prune((&mut merged, shape), &last.fields, Some(&set), &others);
    }
    let mut difference = diff(live, &merged, shape);
    let is_unchanged =
        difference.is_empty() && last.as_ref().is_some_and(|last| last.fields == set);
    if let Some(live) = live.filter(|_| is_unchanged) {
        return Ok(live.clone());
    }
    let mut as_said = live.cloned().unwrap_or(Value::Null);
    merge_value(&mut as_said, said, shape);
    unite(&mut difference.changed, &diff(live, &as_said, shape).changed);
    let upgraded = live.filter(|_| author.manager == "kubectl");
    let upgraded = upgraded.map(|live| client_side(live, shape, author)).unwrap_or_default();
    settle_owners(&mut entries, &difference, (force, &upgraded))?;
    let mut mine = Entry::new(author, Operation::Apply);
    mine.fields = set;
    entries.push(mine);
    write_entries(&mut merged, entries);
    if author.manager == "kubectl" && live.is_some_and(|live| !last_applied(live).is_empty()) {
        let mut noted = said.clone();
        object::remove(&mut noted, &["metadata", "annotations", LAST_APPLIED]);
        let noted = format!("{noted}\n").into();
        object::set(&mut merged, &["metadata", "annotations", LAST_APPLIED], noted);
    }
    Ok(merged)
}

/// The owners of a live object's fields. Where nobody was recorded, whoever came before.
fn owners(live: &Value, shape: &Shape) -> Vec<Entry> {
    let mut raw = live["metadata"]["managedFields"].clone();
    let entries = read_entries(&mut raw);
    if !entries.is_empty() {
        return entries;
    }
    let author = Author {
        manager: "before-first-apply",
        api_version: live["apiVersion"].as_str().unwrap_or_default(),
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let mut before = Entry::new(&author, Operation::Update);
    live["metadata"]["creationTimestamp"].as_str().unwrap_or_default().clone_into(&mut before.time);
    before.fields = of_object(live, shape).unwrap_or_default();
    vec![before]
}

fn last_applied(object: &Value) -> &str {
    object::annotation(object, LAST_APPLIED).unwrap_or_default()
}

/// What kubectl has applied without the server and nobody has changed since: it may take that over.
fn client_side(live: &Value, shape: &Shape, author: &Author<'_>) -> FieldSet {
    let Ok(noted) = serde_json::from_str::<Value>(last_applied(live)) else {
        return FieldSet::new();
    };
    if noted["apiVersion"] != author.api_version {
        return FieldSet::new();
    }
    let mut fields = of_object(&noted, shape).unwrap_or_default();
    let since = diff(Some(&noted), live, shape);
    subtract(&mut fields, &since.changed);
    subtract(&mut fields, &since.removed);
    fields
}

fn settle_owners(
    entries: &mut [Entry],
    difference: &Diff,
    (force, upgraded): (bool, &FieldSet),
) -> Result<(), ApiError> {
    let mut conflicts = Vec::new();
    for entry in entries {
        let overlap = intersection(&entry.fields, &difference.changed);
        if !overlap.is_empty() {
            let mut disputed = overlap.clone();
            subtract(&mut disputed, upgraded);
            if !force && !disputed.is_empty() {
                conflicts.push(Conflict::new(entry, &disputed));
            }
            subtract(&mut entry.fields, &overlap);
        }
        subtract(&mut entry.fields, &difference.removed);
    }
    if conflicts.is_empty() { Ok(()) } else { Err(refuse(conflicts)) }
}

/// 500, as the real server answers: the configuration is not one of its kind.
pub(crate) fn untyped_patch(object: &Value, what: &str) -> ApiError {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let slash = if version.contains('/') { "" } else { "/" };
    ApiError::unforeseen(format!(
        "failed to create typed patch object ({}/{}; {slash}{version}, Kind={}): {what}",
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
        text(&object["kind"]),
    ))
}

fn merge_value(place: &mut Value, wanted: &Value, shape: &Shape) {
    match (place, wanted) {
        (Value::Object(live), Value::Object(fields)) if !shape.atomic => {
            merge_fields(live, fields, shape);
        }
        (Value::Array(live), Value::Array(items)) if shape.list != ListShape::Atomic => {
            *live = merge_items(std::mem::take(live), items, shape);
        }
        (place, wanted) => *place = wanted.clone(),
    }
}

fn merge_fields(live: &mut Map, wanted: &Map, shape: &Shape) {
    for (name, value) in wanted {
        if value.is_null() {
            live.remove(name);
        } else {
            merge_value(live.entry(name.as_str()).or_insert(Value::Null), value, shape.field(name));
        }
    }
}

/// The applier's order holds among its own items; items that only others have keep their place
/// before the next shared one.
fn merge_items(live: Vec<Value>, wanted: &[Value], shape: &Shape) -> Vec<Value> {
    let step = |item: &Value| item_step(&shape.list, item).unwrap_or_else(|| item.to_string());
    let wanted_steps: Vec<String> = wanted.iter().map(step).collect();
    let live_steps: Vec<String> = live.iter().map(step).collect();
    let mut live_items: BTreeMap<&String, Value> = live_steps.iter().zip(live).collect();
    let mut merged = Vec::new();
    let mut left = live_steps.iter().peekable();
    for (step, item) in wanted_steps.iter().zip(wanted) {
        while let Some(other) = left.next_if(|other| !wanted_steps.contains(other)) {
            merged.extend(live_items.remove(other));
        }
        left.next_if_eq(&step);
        let mut place = live_items.remove(step).unwrap_or(Value::Null);
        merge_value(&mut place, item, shape.item());
        merged.push(place);
    }
    merged.extend(left.filter_map(|other| live_items.remove(other)));
    merged
}

/// Takes away what the manager applied last time (`last`), does not want now, and nobody else
/// owns. Where others own something below a place, the place stays.
fn prune(
    place: (&mut Value, &Shape),
    last: &FieldSet,
    now: Option<&FieldSet>,
    others: &[&FieldSet],
) {
    let (value, shape) = place;
    for (step, below) in children(last) {
        let still = now.and_then(|now| child(now, step));
        let theirs: Vec<&FieldSet> = others.iter().filter_map(|set| child(set, step)).collect();
        let goes = still.is_none() && theirs.is_empty() && step != "f:metadata";
        if goes {
            remove_step(value, shape, step);
        } else if let Some(place) = step_mut(value, shape, step) {
            let mut below = below.clone();
            for key in key_fields(shape) {
                below.remove(&format!("f:{key}"));
            }
            prune(place, &below, still, &theirs);
        }
    }
}

fn key_fields(shape: &Shape) -> impl Iterator<Item = &str> {
    let keys = match &shape.list {
        ListShape::Keyed(keys) => keys.as_slice(),
        ListShape::Atomic | ListShape::Set => &[],
    };
    keys.iter().map(|(key, _)| key.as_ref())
}

fn is_item(item: &Value, shape: &Shape, step: &str) -> bool {
    item_step(&shape.list, item).is_some_and(|found| found == step)
}

fn step_mut<'v, 's>(
    value: &'v mut Value,
    shape: &'s Shape,
    step: &str,
) -> Option<(&'v mut Value, &'s Shape)> {
    match value {
        Value::Object(fields) => {
            let name = step.strip_prefix("f:")?;
            Some((fields.get_mut(name)?, shape.field(name)))
        }
        Value::Array(items) => {
            let item = items.iter_mut().find(|item| is_item(item, shape, step))?;
            Some((item, shape.item()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn remove_step(value: &mut Value, shape: &Shape, step: &str) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = step.strip_prefix("f:") {
                fields.remove(name);
            }
        }
        Value::Array(items) => items.retain(|item| !is_item(item, shape, step)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
