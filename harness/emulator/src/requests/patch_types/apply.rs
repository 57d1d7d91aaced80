//! Server-side apply: the applied configuration is merged into the object, fields that the same
//! manager applied earlier and no longer applies are removed, and fields of other managers are not
//! overwritten unless forced.

use std::collections::BTreeMap;

use super::conflict::{ManagerConflict, conflict_error};
use super::diff::{FieldDiff, diff_states};
use super::fields::{
    FieldSet, add_all_paths, child_set, children, common_paths, fields_of_object, remove_all_paths,
};
use super::managed::{ManagedFieldsEntry, Operation, WriteAuthor, take_entries, write_entries};
use super::shape::{ListShape, MergeShape, item_step};
use crate::api_types::error::ApiError;
use schedlab_api::{Map, Value, annotations, object};

/// Applies the configuration `applied` to `live`; `None` creates the object. Conflicts are computed
/// from `sent`, the configuration before normalization (a quantity `1` becomes `"1"`). The result
/// is `live` itself if nothing changes. The caller removes from `applied` the fields that the
/// written subresource does not reach.
///
/// # Errors
///
/// 400 for a malformed configuration, 409 for conflicts, 500 if an item of a keyed list lacks its
/// keys (as in the API server).
pub(crate) fn apply_configuration(
    live: Option<&Value>,
    sent: &Value,
    applied: &Value,
    force: bool,
    shape: &MergeShape,
    author: &WriteAuthor<'_>,
) -> Result<Value, ApiError> {
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let set = fields_of_object(applied, shape)
        .map_err(|bad| typed_patch_error(applied, &format!("{}: {}", bad.path, bad.problem)))?;
    let mut entries = live.map(|live| recorded_entries(live, shape)).unwrap_or_default();
    let last = entries.iter().position(|entry| entry.is_continued_by(author, Operation::Apply));
    let last = last.map(|index| entries.remove(index));

    let mut merged = live.cloned().unwrap_or(Value::Null);
    merge_value(&mut merged, applied, shape);
    if let Some(last) = &last {
        let others: Vec<&FieldSet> = entries.iter().map(|entry| &entry.fields).collect();
        prune_abandoned_fields(&mut merged, shape, &last.fields, Some(&set), &others);
    }
    let mut difference = diff_states(live, &merged, shape);
    let is_unchanged =
        difference.is_empty() && last.as_ref().is_some_and(|last| last.fields == set);
    if let Some(live) = live.filter(|_| is_unchanged) {
        return Ok(live.clone());
    }
    let mut merged_as_sent = live.cloned().unwrap_or(Value::Null);
    merge_value(&mut merged_as_sent, sent, shape);
    add_all_paths(&mut difference.changed, &diff_states(live, &merged_as_sent, shape).changed);
    let upgraded = live.filter(|_| author.manager == "kubectl");
    let upgraded =
        upgraded.map(|live| fields_applied_by_kubectl(live, shape, author)).unwrap_or_default();
    transfer_ownership(&mut entries, &difference, force, &upgraded)?;
    let mut mine = ManagedFieldsEntry::new(author, Operation::Apply);
    mine.fields = set;
    entries.push(mine);
    write_entries(&mut merged, entries);
    if author.manager == "kubectl"
        && live.is_some_and(|live| !last_applied_annotation(live).is_empty())
    {
        let mut noted = sent.clone();
        object::remove(
            &mut noted,
            &["metadata", "annotations", annotations::LAST_APPLIED_CONFIGURATION],
        );
        let noted = format!("{noted}\n").into();
        object::set(
            &mut merged,
            &["metadata", "annotations", annotations::LAST_APPLIED_CONFIGURATION],
            noted,
        );
    }
    Ok(merged)
}

/// The `managedFields` entries of a live object: which manager owns which fields. Without entries
/// all fields belong to the manager `before-first-apply`.
fn recorded_entries(live: &Value, shape: &MergeShape) -> Vec<ManagedFieldsEntry> {
    let mut raw = live["metadata"]["managedFields"].clone();
    let entries = take_entries(&mut raw);
    if !entries.is_empty() {
        return entries;
    }
    let author = WriteAuthor {
        manager: "before-first-apply",
        api_version: live["apiVersion"].as_str().unwrap_or_default(),
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let mut before = ManagedFieldsEntry::new(&author, Operation::Update);
    live["metadata"]["creationTimestamp"].as_str().unwrap_or_default().clone_into(&mut before.time);
    before.fields = fields_of_object(live, shape).unwrap_or_default();
    vec![before]
}

fn last_applied_annotation(object: &Value) -> &str {
    object::annotation(object, annotations::LAST_APPLIED_CONFIGURATION).unwrap_or_default()
}

/// The fields that client-side `kubectl apply` set and that were not changed since. kubectl may
/// take them over without a conflict.
fn fields_applied_by_kubectl(
    live: &Value,
    shape: &MergeShape,
    author: &WriteAuthor<'_>,
) -> FieldSet {
    let Ok(noted) = serde_json::from_str::<Value>(last_applied_annotation(live)) else {
        return FieldSet::new();
    };
    if noted["apiVersion"] != author.api_version {
        return FieldSet::new();
    }
    let mut fields = fields_of_object(&noted, shape).unwrap_or_default();
    let since = diff_states(Some(&noted), live, shape);
    remove_all_paths(&mut fields, &since.changed);
    remove_all_paths(&mut fields, &since.removed);
    fields
}

fn transfer_ownership(
    entries: &mut [ManagedFieldsEntry],
    difference: &FieldDiff,
    force: bool,
    upgraded: &FieldSet,
) -> Result<(), ApiError> {
    let mut conflicts = Vec::new();
    for entry in entries {
        let overlap = common_paths(&entry.fields, &difference.changed);
        if !overlap.is_empty() {
            let mut disputed = overlap.clone();
            remove_all_paths(&mut disputed, upgraded);
            if !force && !disputed.is_empty() {
                conflicts.push(ManagerConflict::new(entry, &disputed));
            }
            remove_all_paths(&mut entry.fields, &overlap);
        }
        remove_all_paths(&mut entry.fields, &difference.removed);
    }
    if conflicts.is_empty() { Ok(()) } else { Err(conflict_error(conflicts)) }
}

/// The 500 error of the API server for an applied configuration that does not match the schema of
/// its kind.
pub(crate) fn typed_patch_error(object: &Value, problem: &str) -> ApiError {
    let (name, kind) = (object_in_go(object), kind_in_go(object));
    ApiError::without_reason(format!(
        "failed to create typed patch object ({name}; {kind}): {problem}"
    ))
}

/// The 500 error of the API server for an applied configuration that matches the schema of its
/// kind, but not its Go type.
pub(crate) fn typed_conversion_error(object: &Value, problem: &str) -> ApiError {
    let (name, kind) = (object_in_go(object), kind_in_go(object));
    ApiError::without_reason(format!(
        "failed to convert new object ({name}; {kind}) to proper version: unable to convert \
         unstructured object to {kind}: {problem}"
    ))
}

/// The namespace and name of an object, as Go's errors show them.
fn object_in_go(object: &Value) -> String {
    let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", of("namespace"), of("name"))
}

/// The group, version and kind of an object, as Go's errors show them.
fn kind_in_go(object: &Value) -> String {
    let of = |field: &str| object[field].as_str().unwrap_or_default();
    let version = of("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", of("kind"))
}

fn merge_value(target: &mut Value, applied: &Value, shape: &MergeShape) {
    match (target, applied) {
        (Value::Object(live), Value::Object(fields)) if !shape.atomic => {
            merge_fields(live, fields, shape);
        }
        (Value::Array(live), Value::Array(items)) if shape.list != ListShape::Atomic => {
            *live = merge_items(std::mem::take(live), items, shape);
        }
        (target, applied) => *target = applied.clone(),
    }
}

fn merge_fields(live: &mut Map, applied: &Map, shape: &MergeShape) {
    for (name, value) in applied {
        if value.is_null() {
            live.remove(name);
        } else {
            merge_value(
                live.entry(name.as_str()).or_insert(Value::Null),
                value,
                shape.field_shape(name),
            );
        }
    }
}

/// Merges lists. Items of the applied configuration keep its order; items that only other managers
/// own stay before the next item that both lists have.
fn merge_items(live: Vec<Value>, applied: &[Value], shape: &MergeShape) -> Vec<Value> {
    let step = |item: &Value| item_step(&shape.list, item).unwrap_or_else(|| item.to_string());
    let applied_steps: Vec<String> = applied.iter().map(step).collect();
    let live_steps: Vec<String> = live.iter().map(step).collect();
    let mut live_items: BTreeMap<&String, Value> = live_steps.iter().zip(live).collect();
    let mut merged = Vec::new();
    let mut remaining = live_steps.iter().peekable();
    for (step, item) in applied_steps.iter().zip(applied) {
        while let Some(other) = remaining.next_if(|other| !applied_steps.contains(other)) {
            merged.extend(live_items.remove(other));
        }
        remaining.next_if_eq(&step);
        let mut target = live_items.remove(step).unwrap_or(Value::Null);
        merge_value(&mut target, item, shape.item_shape());
        merged.push(target);
    }
    merged.extend(remaining.filter_map(|other| live_items.remove(other)));
    merged
}

/// Removes the fields that the manager applied last time (`last`) but does not apply now, unless
/// another manager owns them. A parent stays if other managers own fields below it.
fn prune_abandoned_fields(
    value: &mut Value,
    shape: &MergeShape,
    last: &FieldSet,
    now: Option<&FieldSet>,
    others: &[&FieldSet],
) {
    for (step, below) in children(last) {
        let still = now.and_then(|now| child_set(now, step));
        let theirs: Vec<&FieldSet> = others.iter().filter_map(|set| child_set(set, step)).collect();
        let is_removed = still.is_none() && theirs.is_empty() && step != "f:metadata";
        if is_removed {
            remove_step(value, shape, step);
        } else if let Some((child_value, child_shape)) = value_at_step_mut(value, shape, step) {
            let mut below = below.clone();
            for key in key_fields(shape) {
                below.remove(&format!("f:{key}"));
            }
            prune_abandoned_fields(child_value, child_shape, &below, still, &theirs);
        }
    }
}

fn key_fields(shape: &MergeShape) -> impl Iterator<Item = &str> {
    let keys = match &shape.list {
        ListShape::Keyed(keys) => keys.as_slice(),
        ListShape::Atomic | ListShape::Set => &[],
    };
    keys.iter().map(|(key, _)| key.as_ref())
}

fn is_item_at_step(item: &Value, shape: &MergeShape, step: &str) -> bool {
    item_step(&shape.list, item).is_some_and(|found| found == step)
}

fn value_at_step_mut<'v, 's>(
    value: &'v mut Value,
    shape: &'s MergeShape,
    step: &str,
) -> Option<(&'v mut Value, &'s MergeShape)> {
    match value {
        Value::Object(fields) => {
            let name = step.strip_prefix("f:")?;
            Some((fields.get_mut(name)?, shape.field_shape(name)))
        }
        Value::Array(items) => {
            let item = items.iter_mut().find(|item| is_item_at_step(item, shape, step))?;
            Some((item, shape.item_shape()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn remove_step(value: &mut Value, shape: &MergeShape, step: &str) {
    match value {
        Value::Object(fields) => {
            if let Some(name) = step.strip_prefix("f:") {
                fields.remove(name);
            }
        }
        Value::Array(items) => items.retain(|item| !is_item_at_step(item, shape, step)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
