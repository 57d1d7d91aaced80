//! Limit ranges: their defaults, what they may bound, and that least, default and most are in
//! this order.

use std::collections::BTreeSet;

use super::container::{amount, check_resource_name, is_standard};
use super::limits::quotient;
use crate::error::FieldErrors;
use crate::names;
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

const FIELDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// Checks a limit range.
pub(super) fn check(range: &Value, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    for (index, limit) in list(range, &["spec", "limits"]).iter().enumerate() {
        let place = format!("spec.limits[{index}]");
        let of = text(limit, &["type"]);
        if !types.insert(of) {
            errors.duplicate(format!("{place}.type"), &of.into());
        }
        check_type(limit, (&place, of), errors);
        for field in FIELDS {
            for name in map(limit, &[field]).into_iter().flat_map(Map::keys) {
                check_name(name, (&format!("{place}.{field}[{name}]"), of), errors);
            }
        }
        let bounds = FIELDS.into_iter().filter_map(|field| map(limit, &[field]));
        for name in bounds.flat_map(Map::keys).collect::<BTreeSet<&Text>>() {
            check_order(limit, (&place, name), errors);
            check_ratio(limit, (&place, name), errors);
        }
    }
}

/// What is bounded, and whether all that it needs is there.
fn check_type(limit: &Value, (place, of): (&str, &str), errors: &mut FieldErrors) {
    let field = format!("{place}.type");
    let rules = names::qualified_name(of);
    for rule in &rules {
        errors.invalid(&*field, &of.into(), rule);
    }
    match of {
        "Pod" => {
            for field in ["default", "defaultRequest"] {
                if !limit[field].is_null() {
                    let rule = "may not be specified when `type` is 'Pod'";
                    errors.forbidden(format!("{place}.{field}"), rule);
                }
            }
        }
        "PersistentVolumeClaim"
            if ["min", "max"].iter().all(|field| limit[*field]["storage"].is_null()) =>
        {
            let rule = "either minimum or maximum storage value is required, but neither was \
                        provided";
            errors.required(format!("{place}.limits"), rule);
        }
        "PersistentVolumeClaim" | "Container" => {}
        _ if rules.is_empty() && !of.contains('/') => {
            errors.invalid(field, &of.into(), "must be a standard limit type or fully qualified");
        }
        _ => {}
    }
}

fn check_name(name: &str, (place, of): (&str, &str), errors: &mut FieldErrors) {
    if ["Container", "Pod"].contains(&of) {
        check_resource_name(name, place, errors);
    } else if !name.contains('/') && !is_standard(name) && name != "storage" {
        let rule = "must be a standard resource type or fully qualified";
        errors.invalid(place, &name.into(), rule);
    }
}

/// Limits may be at least as much as requests, and no more than most and least allow.
fn check_ratio(limit: &Value, (place, name): (&str, &str), errors: &mut FieldErrors) {
    let of = |field: &str| Some(&limit[field][name]).filter(|found| !found.is_null());
    let Some(ratio) = of("maxLimitRequestRatio") else { return };
    let place = format!("{place}.maxLimitRequestRatio[{name}]");
    let shown = ratio.as_str().unwrap_or_default();
    if amount(ratio) < 1000 {
        errors.invalid(&*place, ratio, &format!("ratio {shown} is less than 1"));
    }
    let (Some(least), Some(most)) = (of("min").map(amount), of("max").map(amount)) else { return };
    if least > 0 && amount(ratio) * least > most * 1000 {
        let bound = quotient(most, least);
        errors.invalid(place, ratio, &format!("ratio {shown} is greater than max/min = {bound}"));
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
    let (most, asked) = (&limit["default"][name], &limit["defaultRequest"][name]);
    if name.contains('/') && !most.is_null() && !asked.is_null() && amount(most) != amount(asked) {
        let in_words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rule = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            in_words(most),
            in_words(asked)
        );
        errors.invalid(format!("{place}.defaultRequest[{name}]"), asked, &rule);
    }
}
