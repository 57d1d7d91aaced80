//! What operators and functions cost at run time, in the units of cel-go and kube-apiserver: about
//! 50 ns each.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "the kinds of values that are not named are treated alike"
)]

use kube_cel::cel::Value;
use kube_cel::cel::objects::OptionalValue;

pub(super) const LIST_COST: u64 = 10;
pub(super) const MAP_COST: u64 = 30;
/// The cost of a character that is read.
pub(super) const CHARACTER_COST: f64 = 0.1;
/// The cost of a character of a regular expression.
pub(super) const PATTERN_COST: f64 = 0.25;
/// The maximum number of characters or items in the result of a function. In kube-apiserver only
/// memory limits it.
pub(super) const RESULT_SIZE_MAX: u64 = 16 << 20;
/// The maximum length of the regular expression of a named format.
const FORMAT_PATTERN_SIZE: u64 = 128;

/// The cost of a function call. The first argument is the owner if the function is a method.
pub(super) fn call_cost(function: &str, arguments: &[&Value]) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(0, |value| cel_size(value));
    let read = |characters: u64| scaled_rounding_up(characters, CHARACTER_COST);
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            arguments.first().map_or(0, |value| traversal_cost(value))
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "startsWith"
        | "endsWith"
        | "strings.quote"
        | "format" => read(size(0)),
        "ip" | "string" | "bytes" if is_owner_text(arguments) => read(size(0)),
        "replace" | "split" | "ip.isCanonical" => scaled_rounding_up(size(0), 2.0 * CHARACTER_COST),
        "join" => scaled_rounding_up(result_size_max(function, arguments), 2.0 * CHARACTER_COST),
        "find" | "findAll" | "matches" => pattern_cost(size(0), size(1)),
        "validate" => pattern_cost(size(1), FORMAT_PATTERN_SIZE),
        "contains" => read(size(0)).saturating_mul(read(size(1))),
        "@in" if matches!(arguments.get(1), Some(Value::List(_))) => size(1),
        "_==_" | "_!=_" => read(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_owner_text(arguments) => read(size(0).min(size(1))),
        "_+_" if is_owner_text(arguments) => read(size(0) + size(1)),
        "sets.contains" | "sets.equivalent" | "sets.intersects" => {
            1 + size(0).saturating_mul(size(1))
        }
        "distinct" | "sort" => 1 + LIST_COST + size(0).saturating_mul(size(0)),
        "slice" | "reverse" | "flatten" => 1 + LIST_COST + size(0),
        "lists.range" => 1 + LIST_COST + result_size_max(function, arguments),
        _ => 1,
    }
}

/// The maximum size of the result of a call; 0 if the result is not larger than the arguments.
pub(super) fn result_size_max(function: &str, arguments: &[&Value]) -> u64 {
    match (function, arguments) {
        ("lists.range", [Value::Int(count), ..]) => u64::try_from(*count).unwrap_or(0),
        ("join", [Value::List(items), rest @ ..]) => {
            let separator = rest.first().map_or(0, |value| cel_size(value));
            items.iter().map(|item| cel_size(item).saturating_add(separator)).sum()
        }
        ("replace", [text, replaced, with, ..]) => {
            let times = cel_size(text) / cel_size(replaced).max(1) + 1;
            cel_size(text).saturating_add(times.saturating_mul(cel_size(with)))
        }
        ("format", [_, Value::List(items)]) => {
            items.iter().map(|item| traversal_cost(item).saturating_mul(20)).sum()
        }
        ("_+_", [one, other]) => cel_size(one).saturating_add(cel_size(other)),
        _ => 0,
    }
}

/// The number of values in a value, itself included, counted up to `limit`.
#[allow(
    clippy::iter_over_hash_type,
    reason = "the sum does not depend on the order of the hash map"
)]
pub(super) fn count_values(value: &Value, limit: u64) -> u64 {
    let mut count = 1;
    match value {
        Value::List(items) => {
            for item in items.iter() {
                count += count_values(item, limit - count.min(limit));
                if count > limit {
                    break;
                }
            }
        }
        Value::Map(map) => {
            for item in map.map.values() {
                count += 1 + count_values(item, limit - count.min(limit));
                if count > limit {
                    break;
                }
            }
        }
        Value::String(text) => count += text.len() as u64 / 64,
        Value::Bytes(bytes) => count += bytes.len() as u64 / 64,
        Value::Opaque(opaque) => {
            if let Some(inner) = opaque.downcast_ref::<OptionalValue>().and_then(|it| it.value()) {
                count += count_values(inner, limit);
            }
        }
        _ => {}
    }
    count
}

/// The size of a value as CEL's `size()` counts it; 1 for values without a size.
fn cel_size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) => items.len() as u64,
        Value::Map(map) => map.map.len() as u64,
        Value::Opaque(opaque) => {
            let optional = opaque.downcast_ref::<OptionalValue>();
            optional.and_then(|optional| optional.value()).map_or(1, cel_size)
        }
        _ => 1,
    }
}

fn is_owner_text(arguments: &[&Value]) -> bool {
    matches!(arguments.first(), Some(Value::String(_) | Value::Bytes(_)))
}

/// The cost of visiting every part of a value.
fn traversal_cost(value: &Value) -> u64 {
    match value {
        Value::String(text) => scaled_rounding_down(text.len() as u64, CHARACTER_COST),
        Value::Bytes(bytes) => scaled_rounding_down(bytes.len() as u64, CHARACTER_COST),
        Value::List(items) => items.iter().map(traversal_cost).sum(),
        Value::Map(map) => map.map.values().map(|value| 1 + traversal_cost(value)).sum(),
        _ => 1,
    }
}

fn pattern_cost(text_size: u64, pattern_size: u64) -> u64 {
    scaled_rounding_up(text_size + 1, CHARACTER_COST)
        .saturating_mul(scaled_rounding_up(pattern_size, PATTERN_COST))
}

/// A size times a factor, rounded up.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are rounded as in cel-go; a cast of a large number saturates"
)]
pub(super) fn scaled_rounding_up(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "costs are rounded as in cel-go; a cast of a large number saturates"
)]
fn scaled_rounding_down(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}
