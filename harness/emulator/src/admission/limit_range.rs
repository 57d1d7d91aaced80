//! Defaults and validation of `LimitRange`: limit types, resource names, and `min <= default <=
//! max`.

use std::collections::BTreeSet;

use super::checks::{check_resource_name, is_standard_container_resource, quantity_milli};
use super::limit_ranger::format_ratio;
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Map, Text, Value,
    object::{self, list, map, text},
};

/// Sets missing values of a LimitRange: `default` is `max`, and `defaultRequest` is `default` or
/// else `min`.
pub(super) fn set_limit_defaults(range: &mut Value) {
    let Some(Value::Array(limits)) = range["spec"].get_mut("limits") else { return };
    for limit in limits.iter_mut().filter(|limit| limit["type"] == "Container") {
        let steps = [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")];
        for (from, to) in steps {
            let amounts = map(limit, &[from]).cloned().unwrap_or_default();
            for (name, quantity) in &amounts {
                object::set_default(limit, &[to, name], quantity.clone());
            }
        }
    }
}

const BOUND_FIELDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// Checks a limit range.
pub(super) fn check_limit_range(range: &Value, errors: &mut FieldErrors) {
    let mut types = BTreeSet::new();
    for (index, limit) in list(range, &["spec", "limits"]).iter().enumerate() {
        let path = format!("spec.limits[{index}]");
        let of = text(limit, &["type"]);
        if !types.insert(of) {
            errors.duplicate(format!("{path}.type"), &of.into());
        }
        check_limit_type(limit, &path, of, errors);
        for field in BOUND_FIELDS {
            for name in map(limit, &[field]).into_iter().flat_map(Map::keys) {
                check_limited_resource(name, &format!("{path}.{field}[{name}]"), of, errors);
            }
        }
        let bounds = BOUND_FIELDS.into_iter().filter_map(|field| map(limit, &[field]));
        for name in bounds.flat_map(Map::keys).collect::<BTreeSet<&Text>>() {
            check_bounds_order(limit, &path, name, errors);
            check_ratio_limit(limit, &path, name, errors);
        }
    }
}

/// Checks the type of a limit and the fields that the type requires or forbids.
fn check_limit_type(limit: &Value, path: &str, limit_type: &str, errors: &mut FieldErrors) {
    let field = format!("{path}.type");
    let rules = names::qualified_name_violations(limit_type);
    for rule in &rules {
        errors.invalid(&*field, &limit_type.into(), rule);
    }
    match limit_type {
        "Pod" => {
            for field in ["default", "defaultRequest"] {
                if !limit[field].is_null() {
                    let rule = "may not be specified when `type` is 'Pod'";
                    errors.forbidden(format!("{path}.{field}"), rule);
                }
            }
        }
        "PersistentVolumeClaim"
            if ["min", "max"].iter().all(|field| limit[*field]["storage"].is_null()) =>
        {
            let rule = "either minimum or maximum storage value is required, but neither was \
                        provided";
            errors.required(format!("{path}.limits"), rule);
        }
        "PersistentVolumeClaim" | "Container" => {}
        _ if rules.is_empty() && !limit_type.contains('/') => {
            errors.invalid(
                field,
                &limit_type.into(),
                "must be a standard limit type or fully qualified",
            );
        }
        _ => {}
    }
}

fn check_limited_resource(name: &str, path: &str, limit_type: &str, errors: &mut FieldErrors) {
    if ["Container", "Pod"].contains(&limit_type) {
        check_resource_name(name, path, errors);
    } else if !name.contains('/') && !is_standard_container_resource(name) && name != "storage" {
        let rule = "must be a standard resource type or fully qualified";
        errors.invalid(path, &name.into(), rule);
    }
}

/// Checks that `maxLimitRequestRatio` is at least 1 and at most max/min.
fn check_ratio_limit(limit: &Value, path: &str, name: &str, errors: &mut FieldErrors) {
    let of = |field: &str| Some(&limit[field][name]).filter(|found| !found.is_null());
    let Some(ratio) = of("maxLimitRequestRatio") else { return };
    let path = format!("{path}.maxLimitRequestRatio[{name}]");
    let shown = ratio.as_str().unwrap_or_default();
    if quantity_milli(ratio) < 1000 {
        errors.invalid(&*path, ratio, &format!("ratio {shown} is less than 1"));
    }
    let (Some(least), Some(most)) = (of("min").map(quantity_milli), of("max").map(quantity_milli))
    else {
        return;
    };
    if least > 0 && quantity_milli(ratio) * least > most * 1000 {
        let bound = format_ratio(most, least);
        errors.invalid(path, ratio, &format!("ratio {shown} is greater than max/min = {bound}"));
    }
}

/// The field of a bound in a LimitRange, and the bound's name in messages.
type NamedBound = (&'static str, &'static str);

fn check_bounds_order(limit: &Value, path: &str, name: &str, errors: &mut FieldErrors) {
    const MIN: NamedBound = ("min", "min value");
    const MAX: NamedBound = ("max", "max value");
    const DEFAULT: NamedBound = ("default", "default value");
    const REQUEST: NamedBound = ("defaultRequest", "default request value");
    const LIMIT: NamedBound = ("default", "default limit value");
    // The lower bound, the upper bound, the field of the error and the field whose value is shown.
    for (low, high, at, shown) in [
        (MIN, MAX, "min", "min"),
        (MIN, REQUEST, "defaultRequest", "defaultRequest"),
        (REQUEST, MAX, "defaultRequest", "defaultRequest"),
        (REQUEST, LIMIT, "defaultRequest", "defaultRequest"),
        (MIN, DEFAULT, "default", "min"),
        (DEFAULT, MAX, "default", "max"),
    ] {
        let (least, most) = (&limit[low.0][name], &limit[high.0][name]);
        if least.is_null() || most.is_null() || quantity_milli(least) <= quantity_milli(most) {
            continue;
        }
        let in_words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (least, most) = (in_words(least), in_words(most));
        let rule = format!("{} {least} is greater than {} {most}", low.1, high.1);
        errors.invalid(format!("{path}.{at}[{name}]"), &limit[shown][name], &rule);
    }
    let (most, request) = (&limit["default"][name], &limit["defaultRequest"][name]);
    if name.contains('/')
        && !most.is_null()
        && !request.is_null()
        && quantity_milli(most) != quantity_milli(request)
    {
        let in_words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rule = format!(
            "default value {} must equal to defaultRequest value {} in {name}",
            in_words(most),
            in_words(request)
        );
        errors.invalid(format!("{path}.defaultRequest[{name}]"), request, &rule);
    }
}
