//! Strategic merge patch: a merge patch that knows which lists are keyed, with the directives
//! by which kubectl says the rest (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`).

use super::shape::{Shape, Strategy};
use super::{in_go, unfit_patch};
use crate::error::ApiError;
use schedlab_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList/";

/// Applies a strategic merge patch. Errors: 400 when it is malformed, 422 when it does not fit.
pub fn strategic(current: &Value, patch: &Value, shape: &Shape) -> Result<Value, ApiError> {
    let Value::Object(fields) = patch else {
        return Err(ApiError::bad_request(
            "error decoding patch: a strategic merge patch is a JSON object",
        ));
    };
    let mut patched = current.as_object().cloned().unwrap_or_default();
    merge_map(&mut patched, fields, shape)?;
    Ok(Value::Object(patched))
}

fn merge_map(place: &mut Map, patch: &Map, shape: &Shape) -> Result<(), ApiError> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str()) {
        None | Some(Some("merge")) => {}
        Some(Some("replace")) => {
            patch.clone_into(place);
            place.remove(DIRECTIVE);
            return Ok(());
        }
        Some(Some("delete")) => {
            place.clear();
            return Ok(());
        }
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "unknown patch type: {}",
                other.unwrap_or_default()
            )));
        }
    }
    retain_keys(place, patch)?;
    delete_values(place, patch)?;
    for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
        merge_field(place, (name, value), patch, shape.field(name))?;
    }
    reorder_untouched(place, patch, shape)
}

/// `$retainKeys`: the other keys of the live map go; a patch may set only retained ones.
fn retain_keys(place: &mut Map, patch: &Map) -> Result<(), ApiError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = keys else {
        return Err(ApiError::bad_request("invalid patch format of retainKeys"));
    };
    let is_kept = |name: &str| keys.iter().any(|key| key == name);
    if patch.keys().any(|name| !name.starts_with('$') && !is_kept(name)) {
        return Err(ApiError::bad_request("invalid patch format of retainKeys"));
    }
    place.retain(|name, _| is_kept(name));
    Ok(())
}

/// `$deleteFromPrimitiveList/x`: these values leave list `x`.
fn delete_values(place: &mut Map, patch: &Map) -> Result<(), ApiError> {
    for (name, gone) in patch {
        let Some(list) = name.strip_prefix(DELETE_VALUES) else { continue };
        let Value::Array(gone) = gone else {
            return Err(ApiError::bad_request("invalid patch format of primitive list"));
        };
        if let Some(Value::Array(values)) = place.get_mut(list) {
            values.retain(|value| !gone.contains(value));
        }
    }
    Ok(())
}

fn merge_field(
    place: &mut Map,
    (name, new): (&str, &Value),
    patch: &Map,
    shape: &Shape,
) -> Result<(), ApiError> {
    match (place.get_mut(name), new) {
        (_, Value::Null) => {
            place.remove(name);
        }
        (Some(Value::Object(live)), Value::Object(fields)) if !shape.strategy.replace => {
            merge_map(live, fields, shape)?;
        }
        (Some(Value::Array(live)), Value::Array(items)) => {
            let order = element_order(patch, name)?;
            *live = merge_list(live, items, order, shape)?;
        }
        // A directive about what is not there says nothing.
        (_, new) if has_directive(new) => {
            place.remove(name);
        }
        (_, new) => {
            place.insert(name.to_owned(), without_directives(new));
        }
    }
    Ok(())
}

fn element_order<'p>(patch: &'p Map, list: &str) -> Result<Option<&'p [Value]>, ApiError> {
    match patch.get(&format!("{SET_ORDER}{list}")) {
        None => Ok(None),
        Some(Value::Array(order)) => Ok(Some(order)),
        Some(_) => Err(ApiError::bad_request("invalid patch format of setElementOrder list")),
    }
}

/// `$setElementOrder/x` without `x`: only the order changes.
fn reorder_untouched(place: &mut Map, patch: &Map, shape: &Shape) -> Result<(), ApiError> {
    for name in patch.keys().filter_map(|name| name.strip_prefix(SET_ORDER)) {
        let order = element_order(patch, name)?.unwrap_or_default();
        if patch.contains_key(name) {
            continue;
        }
        if let Some(Value::Array(live)) = place.get_mut(name) {
            let before = live.clone();
            let strategy = &shape.field(name).strategy;
            *live = ordered(std::mem::take(live), &before, order, strategy);
        }
    }
    Ok(())
}

fn merge_list(
    live: &[Value],
    patch: &[Value],
    order: Option<&[Value]>,
    shape: &Shape,
) -> Result<Vec<Value>, ApiError> {
    let strategy = &shape.strategy;
    let merged = match &strategy.merge_key {
        Some(key) => match merge_items(live.to_vec(), patch, key, shape.item())? {
            Merged::Items(items) => items,
            Merged::Replaced(items) => return Ok(items),
        },
        None if strategy.merge_values => {
            let mut values = live.to_vec();
            values.extend(patch.iter().filter(|value| !live.contains(value)).cloned());
            values
        }
        None => return Ok(patch.iter().map(without_directives).collect()),
    };
    if let Some(order) = order
        && !in_order(patch, order, strategy)
    {
        return Err(ApiError::bad_request("invalid patch format of setElementOrder list"));
    }
    let plain: Vec<Value> = patch.iter().filter(|item| !has_directive(item)).cloned().collect();
    Ok(ordered(merged, live, order.unwrap_or(&plain), strategy))
}

enum Merged {
    Items(Vec<Value>),
    Replaced(Vec<Value>),
}

fn has_directive(item: &Value) -> bool {
    item.get(DIRECTIVE).is_some()
}

fn merge_items(
    mut live: Vec<Value>,
    patch: &[Value],
    key: &str,
    shape: &Shape,
) -> Result<Merged, ApiError> {
    if patch.iter().any(|item| item[DIRECTIVE] == "replace") {
        let items = patch.iter().filter(|item| !has_directive(item)).map(without_directives);
        return Ok(Merged::Replaced(items.collect()));
    }
    for item in patch {
        let Some(fields) = item.as_object() else { return Err(unfit_patch()) };
        let Some(id) = item.get(key) else {
            let item = in_go(item);
            let text = format!("map: {item} does not contain declared merge key: {key}");
            return Err(ApiError::unforeseen(text));
        };
        match item.get(DIRECTIVE).map(|directive| directive.as_str()) {
            Some(Some("delete")) => live.retain(|other| other.get(key) != Some(id)),
            None => match live.iter_mut().find(|other| other.get(key) == Some(id)) {
                Some(Value::Object(place)) => merge_map(place, fields, shape)?,
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
    Ok(Merged::Items(live))
}

/// Whether two items of a list are the same one.
fn same(one: &Value, other: &Value, strategy: &Strategy) -> bool {
    match &strategy.merge_key {
        Some(key) => one.get(key.as_ref()).is_some_and(|id| other.get(key.as_ref()) == Some(id)),
        None => one == other,
    }
}

fn place_in(list: &[Value], item: &Value, strategy: &Strategy) -> Option<usize> {
    list.iter().position(|other| same(item, other, strategy))
}

/// Whether the patch's items stand in `order`, and in that order.
fn in_order(patch: &[Value], order: &[Value], strategy: &Strategy) -> bool {
    let places: Option<Vec<usize>> = patch
        .iter()
        .filter(|item| !has_directive(item))
        .map(|item| place_in(order, item, strategy))
        .collect();
    places.is_some_and(|places| places.is_sorted())
}

/// Items named in `order` take that order; the others keep the order they had `before`, and go
/// ahead of a named item only where they stood ahead of it.
fn ordered(
    items: Vec<Value>,
    before: &[Value],
    order: &[Value],
    strategy: &Strategy,
) -> Vec<Value> {
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        items.into_iter().partition(|item| place_in(order, item, strategy).is_some());
    named.sort_by_key(|item| place_in(order, item, strategy));
    let mut others = others.into_iter().peekable();
    let mut result = Vec::new();
    for item in named {
        let stood = place_in(before, &item, strategy);
        let was_ahead = |other: &Value| place_in(before, other, strategy) < stood;
        while let Some(other) = others.next_if(|other| stood.is_some() && was_ahead(other)) {
            result.push(other);
        }
        result.push(item);
    }
    result.extend(others);
    result
}

/// A value that comes in new: nulls and directives in it have nothing to act on.
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
