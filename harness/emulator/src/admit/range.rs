//! Limit ranges: their defaults, and that least, default and most are in this order.

use std::collections::BTreeSet;

use super::container::amount;
use crate::error::FieldErrors;
use crate::object::{self, list, map, text};
use schedlab_json::{Map, Text, Value};

/// What follows from the rest where it is left out: a limit from the most there is, a request from
/// the limit, or else from the least.
pub(super) fn fill(range: &mut Value) {
    let Some(Value::Array(limits)) = range["spec"].get_mut("limits") else { return };
    for limit in limits.iter_mut().filter(|limit| limit["type"] == "Container") {
        let steps = [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")];
        for (from, to) in steps {
            let amounts = map(limit, &[from]).cloned().unwrap_or_default();
            for (name, amount) in &amounts {
                object::set_default(limit, &[to, name], amount.clone());
            }
        }
    }
}

/// Checks a limit range.
pub(super) fn check(range: &Value, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    for (index, limit) in list(range, &["spec", "limits"]).iter().enumerate() {
        let place = format!("spec.limits[{index}]");
        let of = text(limit, &["type"]);
        if !types.insert(of) {
            errors.duplicate(format!("{place}.type"), &of.into());
        }
        let bounds = ["max", "min", "default", "defaultRequest"].into_iter();
        let bounds = bounds.filter_map(|field| map(limit, &[field]));
        for name in bounds.flat_map(Map::keys).collect::<BTreeSet<&Text>>() {
            check_order(limit, (&place, name), errors);
        }
    }
}

/// A bound, how it is told, and which of the two is shown where they are out of order.
type Bound = (&'static str, &'static str);

fn check_order(limit: &Value, (place, name): (&str, &str), errors: &mut FieldErrors) {
    const MIN: Bound = ("min", "min value");
    const MAX: Bound = ("max", "max value");
    const DEFAULT: Bound = ("default", "default value");
    const REQUEST: Bound = ("defaultRequest", "default request value");
    const LIMIT: Bound = ("default", "default limit value");
    // What may not exceed what, and under whose name which of them is shown.
    for (low, high, at, shown) in [
        (MIN, MAX, "min", "min"),
        (MIN, REQUEST, "defaultRequest", "defaultRequest"),
        (REQUEST, MAX, "defaultRequest", "defaultRequest"),
        (REQUEST, LIMIT, "defaultRequest", "defaultRequest"),
        (MIN, DEFAULT, "default", "min"),
        (DEFAULT, MAX, "default", "max"),
    ] {
        let (least, most) = (&limit[low.0][name], &limit[high.0][name]);
        if least.is_null() || most.is_null() || amount(least) <= amount(most) {
            continue;
        }
        let in_words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (least, most) = (in_words(least), in_words(most));
        let rule = format!("{} {least} is greater than {} {most}", low.1, high.1);
        errors.invalid(format!("{place}.{at}[{name}]"), &limit[shown][name], &rule);
    }
}
