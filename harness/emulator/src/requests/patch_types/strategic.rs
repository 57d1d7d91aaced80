//! Strategic merge patch: a merge patch that merges keyed lists, with kubectl's directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`).

use super::shape::{MergeShape, StrategicMerge};
use super::unprocessable_patch_error;
use crate::api_types::error::ApiError;
use crate::api_types::error::go_format::format_go_value;
use schedlab_api::{Map, Value};

const DIRECTIVE_KEY: &str = "$patch";
const RETAIN_KEYS_KEY: &str = "$retainKeys";
const SET_ORDER_PREFIX: &str = "$setElementOrder/";
const DELETE_VALUES_PREFIX: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch.
///
/// # Errors
///
/// 400 if the patch is malformed, 422 if it cannot be applied to `current`.
pub(crate) fn apply_strategic_patch(
    current: &Value,
    patch: &Value,
    shape: &MergeShape,
) -> Result<Value, ApiError> {
    let fields = match patch {
        Value::Object(fields) => fields,
        Value::Null => return Ok(current.clone()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                schedlab_api::object::go_type(other)
            )));
        }
    };
    let mut patched = current.as_object().cloned().unwrap_or_default();
    merge_map(&mut patched, fields, shape)?;
    Ok(Value::Object(patched))
}

fn merge_map(target: &mut Map, patch: &Map, shape: &MergeShape) -> Result<(), ApiError> {
    match patch.get(DIRECTIVE_KEY).map(|directive| directive.as_str()) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            patch.clone_into(target);
            target.remove(DIRECTIVE_KEY);
            return Ok(());
        }
        Some(Some("delete")) => {
            target.clear();
            return Ok(());
        }
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "unknown patch type: {}",
                other.unwrap_or_default()
            )));
        }
    }
    retain_keys(target, patch)?;
    delete_list_values(target, patch)?;
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(target, name, value, patch, shape.field_shape(name))?;
    }
    reorder_unpatched_lists(target, patch, shape)
}

/// Applies `$retainKeys`: removes all other keys of the live map. The patch may set only retained
/// keys.
fn retain_keys(target: &mut Map, patch: &Map) -> Result<(), ApiError> {
    let Some(keys) = patch.get(RETAIN_KEYS_KEY) else { return Ok(()) };
    let Value::Array(keys) = keys else {
        return Err(ApiError::bad_request("invalid patch format of retainKeys"));
    };
    let is_kept = |name: &str| keys.iter().any(|key| key == name);
    if patch.keys().any(|name| !name.starts_with('$') && !is_kept(name)) {
        return Err(ApiError::bad_request("invalid patch format of retainKeys"));
    }
    target.retain(|name, _| is_kept(name));
    Ok(())
}

/// Applies `$deleteFromPrimitiveList/x`: removes the given values from the list `x`.
fn delete_list_values(target: &mut Map, patch: &Map) -> Result<(), ApiError> {
    for (name, gone) in patch {
        let Some(list) = name.strip_prefix(DELETE_VALUES_PREFIX) else { continue };
        let Value::Array(removed) = gone else {
            return Err(ApiError::bad_request("invalid patch format of primitive list"));
        };
        if let Some(Value::Array(values)) = target.get_mut(list) {
            values.retain(|value| !removed.contains(value));
        }
    }
    Ok(())
}

fn merge_field(
    target: &mut Map,
    name: &str,
    new: &Value,
    patch: &Map,
    shape: &MergeShape,
) -> Result<(), ApiError> {
    match (target.get_mut(name), new) {
        (_, Value::Null) => {
            target.remove(name);
        }
        (Some(Value::Object(live)), Value::Object(fields)) if !shape.strategy.replace => {
            merge_map(live, fields, shape)?;
        }
        (Some(Value::Array(live)), Value::Array(items)) => {
            let order = element_order(patch, name)?;
            *live = merge_list(live, items, order, shape)?;
        }
        // A directive for an absent value has no effect.
        (_, new) if has_directive(new) => {
            target.remove(name);
        }
        (_, new) => {
            target.insert(name.to_owned(), without_directives(new));
        }
    }
    Ok(())
}

fn element_order<'p>(patch: &'p Map, list: &str) -> Result<Option<&'p [Value]>, ApiError> {
    match patch.get(&format!("{SET_ORDER_PREFIX}{list}")) {
        None => Ok(None),
        Some(Value::Array(order)) => Ok(Some(order)),
        Some(_) => Err(ApiError::bad_request("invalid patch format of setElementOrder list")),
    }
}

/// Applies `$setElementOrder/x` if the patch does not contain the list `x`: only the order of the
/// list changes.
fn reorder_unpatched_lists(
    target: &mut Map,
    patch: &Map,
    shape: &MergeShape,
) -> Result<(), ApiError> {
    for name in patch.keys().filter_map(|name| name.strip_prefix(SET_ORDER_PREFIX)) {
        let order = element_order(patch, name)?.unwrap_or_default();
        if patch.contains_key(name) {
            continue;
        }
        if let Some(Value::Array(live)) = target.get_mut(name) {
            let before = live.clone();
            let strategy = &shape.field_shape(name).strategy;
            *live = sorted_by_order(std::mem::take(live), &before, order, strategy);
        }
    }
    Ok(())
}

fn merge_list(
    live: &[Value],
    patch: &[Value],
    order: Option<&[Value]>,
    shape: &MergeShape,
) -> Result<Vec<Value>, ApiError> {
    let strategy = &shape.strategy;
    let merged = match &strategy.merge_key {
        Some(key) => match merge_items(live.to_vec(), patch, key, shape.item_shape())? {
            MergedList::Items(items) => items,
            MergedList::Replaced(items) => return Ok(items),
        },
        None if strategy.merge_values => {
            let mut values = live.to_vec();
            values.extend(patch.iter().filter(|value| !live.contains(value)).cloned());
            values
        }
        None => return Ok(patch.iter().map(without_directives).collect()),
    };
    if let Some(order) = order
        && !is_in_order(patch, order, strategy)
    {
        return Err(ApiError::bad_request("invalid patch format of setElementOrder list"));
    }
    let plain: Vec<Value> = patch.iter().filter(|item| !has_directive(item)).cloned().collect();
    Ok(sorted_by_order(merged, live, order.unwrap_or(&plain), strategy))
}

enum MergedList {
    Items(Vec<Value>),
    Replaced(Vec<Value>),
}

fn has_directive(item: &Value) -> bool {
    item.get(DIRECTIVE_KEY).is_some()
}

fn merge_items(
    mut live: Vec<Value>,
    patch: &[Value],
    key: &str,
    shape: &MergeShape,
) -> Result<MergedList, ApiError> {
    if patch.iter().any(|item| item[DIRECTIVE_KEY] == "replace") {
        let items = patch.iter().filter(|item| !has_directive(item)).map(without_directives);
        return Ok(MergedList::Replaced(items.collect()));
    }
    for item in patch {
        let Some(fields) = item.as_object() else { return Err(unprocessable_patch_error()) };
        let Some(id) = item.get(key) else {
            let item = format_go_value(item);
            let text = format!("map: {item} does not contain declared merge key: {key}");
            return Err(ApiError::without_reason(text));
        };
        match item.get(DIRECTIVE_KEY).map(|directive| directive.as_str()) {
            Some(Some("delete")) => live.retain(|other| other.get(key) != Some(id)),
            None => match live.iter_mut().find(|other| other.get(key) == Some(id)) {
                Some(Value::Object(target)) => merge_map(target, fields, shape)?,
                Some(_) | None => live.push(without_directives(item)),
            },
            Some(Some("merge")) => {
                return Err(ApiError::bad_request(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "unknown patch type: {}",
                    other.unwrap_or_default()
                )));
            }
        }
    }
    Ok(MergedList::Items(live))
}

/// Whether two list items are the same item: their merge keys, or their values, are equal.
fn have_same_identity(left: &Value, right: &Value, strategy: &StrategicMerge) -> bool {
    match &strategy.merge_key {
        Some(key) => left.get(key.as_ref()).is_some_and(|id| right.get(key.as_ref()) == Some(id)),
        None => left == right,
    }
}

fn position_in(list: &[Value], item: &Value, strategy: &StrategicMerge) -> Option<usize> {
    list.iter().position(|other| have_same_identity(item, other, strategy))
}

/// Whether the items of the patch are all in `order`, and in the same order.
fn is_in_order(patch: &[Value], order: &[Value], strategy: &StrategicMerge) -> bool {
    let positions: Option<Vec<usize>> = patch
        .iter()
        .filter(|item| !has_directive(item))
        .map(|item| position_in(order, item, strategy))
        .collect();
    positions.is_some_and(|positions| positions.is_sorted())
}

/// Sorts a list. Items that are in `order` get that order. Other items keep their order, and
/// precede an item of `order` only if they preceded it before.
fn sorted_by_order(
    items: Vec<Value>,
    before: &[Value],
    order: &[Value],
    strategy: &StrategicMerge,
) -> Vec<Value> {
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| position_in(order, item, strategy).is_some());
    named.sort_by_key(|item| position_in(order, item, strategy));
    let mut others = others.into_iter().peekable();
    let mut result = Vec::new();
    for item in named {
        let stood = position_in(before, &item, strategy);
        let was_ahead = |other: &Value| position_in(before, other, strategy) < stood;
        while let Some(other) = others.next_if(|other| stood.is_some() && was_ahead(other)) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others);
    result
}

/// A value from a patch, to be added to the object: without nulls and directives, which have
/// nothing to act on.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(name, value)| !name.starts_with('$') && !value.is_null())
                .map(|(name, value)| (name.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(
            items.iter().filter(|item| !has_directive(item)).map(without_directives).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
