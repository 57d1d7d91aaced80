//! Sets of field paths in the form that `fieldsV1` has on the wire: nested JSON maps whose keys
//! are steps (`f:spec`, `k:{"name":"a"}`, `v:"x"`). A node is in the set when it is empty or
//! holds `"."`. Working on that form directly saves a conversion on every write.

use super::shape::{ListShape, MergeShape, item_step};
use schedlab_api::{Map, Text, Value};

/// A set of field paths as a tree, in the format of `fieldsV1`. An empty map is the empty set.
pub(super) type FieldSet = Map;

const SELF: &str = ".";

fn child_set_of(value: &Value) -> Option<&FieldSet> {
    value.as_object()
}

fn is_path_in_set(node: &FieldSet) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Adds the path to the node itself to the set, or removes it (`member`). The paths below the node
/// stay.
fn set_path_in_set(node: &mut FieldSet, member: bool) {
    node.remove(SELF);
    if member && !node.is_empty() {
        node.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
}

fn steps_and_children(set: &FieldSet) -> impl Iterator<Item = (&Text, &FieldSet)> {
    set.iter()
        .filter(|(step, _)| *step != SELF)
        .filter_map(|(step, value)| child_set_of(value).map(|node| (step, node)))
}

/// Adds the paths of `other` to `into`.
pub(super) fn add_all_paths(into: &mut FieldSet, other: &FieldSet) {
    for (step, theirs) in steps_and_children(other) {
        match into.get_mut(step).and_then(Value::as_object_mut) {
            None => {
                into.insert(step.clone(), Value::Object(theirs.clone()));
            }
            Some(mine) => {
                let member = is_path_in_set(mine) || is_path_in_set(theirs);
                add_all_paths(mine, theirs);
                set_path_in_set(mine, member);
            }
        }
    }
}

/// Takes the paths of `other` out of `from`.
pub(super) fn remove_all_paths(from: &mut FieldSet, other: &FieldSet) {
    for (step, theirs) in steps_and_children(other) {
        let Some(mine) = from.get_mut(step).and_then(Value::as_object_mut) else { continue };
        let member = is_path_in_set(mine) && !is_path_in_set(theirs);
        remove_all_paths(mine, theirs);
        mine.remove(SELF);
        if mine.is_empty() && !member {
            from.remove(step);
        } else {
            set_path_in_set(mine, member);
        }
    }
}

/// The paths that are in both sets.
pub(super) fn common_paths(left: &FieldSet, right: &FieldSet) -> FieldSet {
    let mut both = FieldSet::new();
    for (step, theirs) in steps_and_children(right) {
        let Some(mine) = left.get(step).and_then(child_set_of) else { continue };
        let mut inner = common_paths(mine, theirs);
        let member = is_path_in_set(mine) && is_path_in_set(theirs);
        if member || !inner.is_empty() {
            set_path_in_set(&mut inner, member);
            both.insert(step.clone(), Value::Object(inner));
        }
    }
    both
}

/// The paths below a step; `None` if the set has no paths there.
pub(super) fn child_set<'s>(set: &'s FieldSet, step: &str) -> Option<&'s FieldSet> {
    set.get(step).and_then(child_set_of)
}

/// The steps of the root, each with the paths below it.
pub(super) fn children(set: &FieldSet) -> impl Iterator<Item = (&Text, &FieldSet)> {
    steps_and_children(set)
}

/// Adds a step with the paths below it. `member` says whether the path that ends with the step is
/// in the set, too.
pub(super) fn add_child_set(set: &mut FieldSet, step: String, mut below: FieldSet, member: bool) {
    if member || !below.is_empty() {
        set_path_in_set(&mut below, member);
        set.insert(step, Value::Object(below));
    }
}

/// The paths of a set as conflict messages print them; a parent comes before the paths below it.
pub(super) fn path_texts(set: &FieldSet) -> Vec<String> {
    let mut found = Vec::new();
    collect_paths(set, "", &mut found);
    found
}

fn collect_paths(set: &FieldSet, prefix: &str, found: &mut Vec<String>) {
    for (step, below) in steps_and_children(set) {
        if is_path_in_set(below) {
            found.push(format!("{prefix}{}", step_text(step)));
        }
    }
    for (step, below) in steps_and_children(set) {
        collect_paths(below, &format!("{prefix}{}", step_text(step)), found);
    }
}

fn step_text(step: &str) -> String {
    match step.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => match serde_json::from_str::<FieldSet>(keys) {
            Ok(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
            Err(_) => format!("[{keys}]"),
        },
        Some(_) | None => format!("[{step}]"),
    }
}

/// An item of a keyed list that lacks its keys or has a duplicate key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListKeyError {
    pub(super) path: String,
    pub(super) problem: String,
}

/// The paths of all fields that an applied configuration sets.
pub(super) fn fields_of_object(
    object: &Value,
    shape: &MergeShape,
) -> Result<FieldSet, ListKeyError> {
    let mut set = fields_of_value(object, shape, "")?;
    drop_unowned_fields(&mut set);
    Ok(set)
}

/// Removes the fields that no manager can own, such as `metadata.name` and `apiVersion`.
pub(super) fn drop_unowned_fields(set: &mut FieldSet) {
    const METADATA: [&str; 8] = [
        "f:name",
        "f:namespace",
        "f:creationTimestamp",
        "f:selfLink",
        "f:uid",
        "f:generation",
        "f:managedFields",
        "f:resourceVersion",
    ];
    set.remove("f:apiVersion");
    set.remove("f:kind");
    if let Some(metadata) = set.get_mut("f:metadata").and_then(Value::as_object_mut) {
        for field in METADATA {
            metadata.remove(field);
        }
        metadata.remove(SELF);
        if metadata.is_empty() {
            set.remove("f:metadata");
        }
    }
}

/// The paths of all fields and items below a value; empty if the value changes as a whole.
fn fields_of_value(
    value: &Value,
    shape: &MergeShape,
    path: &str,
) -> Result<FieldSet, ListKeyError> {
    let mut set = FieldSet::new();
    match value {
        Value::Object(fields) if !shape.atomic => {
            for (name, field) in fields {
                let inner = shape.field_shape(name);
                let below = fields_of_value(field, inner, &format!("{path}.{name}"))?;
                let member = changes_as_a_whole(field, inner) || shape.is_free_key(name);
                add_child_set(&mut set, format!("f:{name}"), below, member);
            }
        }
        Value::Array(items) if shape.list != ListShape::Atomic => {
            for (index, item) in items.iter().enumerate() {
                let step = step_of_item(shape, item, index)
                    .map_err(|problem| ListKeyError { path: path.to_owned(), problem })?;
                if set.contains_key(&step) {
                    let problem = format!("duplicate entries for key {}", step_text(&step));
                    return Err(ListKeyError { path: path.to_owned(), problem });
                }
                let below = fields_of_value(
                    item,
                    shape.item_shape(),
                    &format!("{path}{}", step_text(&step)),
                )?;
                add_child_set(&mut set, step, below, true);
            }
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => {}
    }
    Ok(set)
}

fn changes_as_a_whole(value: &Value, shape: &MergeShape) -> bool {
    match value {
        Value::Object(fields) => shape.atomic || fields.is_empty(),
        Value::Array(_) => shape.list == ListShape::Atomic,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn step_of_item(shape: &MergeShape, item: &Value, index: usize) -> Result<String, String> {
    item_step(&shape.list, item).ok_or_else(|| {
        let keys = match &shape.list {
            ListShape::Keyed(keys) => keys.iter().map(|(key, _)| format!("\"{key}\"")).collect(),
            ListShape::Atomic | ListShape::Set => Vec::new(),
        };
        format!(
            "element {index}: associative list with keys has an element that omits key field {}",
            keys.join(", ")
        )
    })
}

/// The path step of a list item in messages, such as `[name="c"]`; an error if the item has no key.
pub(crate) fn item_path(shape: &MergeShape, item: &Value, index: usize) -> Result<String, String> {
    step_of_item(shape, item, index).map(|step| step_text(&step))
}
