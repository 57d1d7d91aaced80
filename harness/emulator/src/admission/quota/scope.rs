//! Scopes of quotas.

use super::CountedObject;
use schedlab_api::{
    Value,
    object::{at, list, text},
};

/// Whether the object matches `scopes` and `scopeSelector` of a quota; scopes match pods only.
pub(super) fn is_in_scope(quota: &Value, item: CountedObject<'_>) -> bool {
    let scopes = list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str);
    let mut scopes = scopes.map(|scope| (scope, "Exists", &[][..]));
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]).iter();
    let mut expressions = expressions.map(|expression| {
        let part = |field| text(expression, &[field]);
        (part("scopeName"), part("operator"), list(expression, &["values"]))
    });
    let is_pod = item.resource.is("", "pods");
    let fits = |(scope, operator, values): (&str, &str, &[Value])| {
        is_pod && matches_scope(item.object, scope, operator, values)
    };
    scopes.all(fits) && expressions.all(fits)
}

fn matches_scope(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let is_best_effort = text(pod, &["status", "qosClass"]) == "BestEffort";
    let ends_in_time =
        at(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|secs| !secs.is_null());
    match scope {
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "Terminating" => ends_in_time,
        "NotTerminating" => !ends_in_time,
        "PriorityClass" => matches_priority_class(pod, operator, values),
        _ => false,
    }
}

fn matches_priority_class(pod: &Value, operator: &str, values: &[Value]) -> bool {
    let class = text(pod, &["spec", "priorityClassName"]);
    let listed = values.iter().any(|value| value == class);
    match operator {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        _ => false,
    }
}
