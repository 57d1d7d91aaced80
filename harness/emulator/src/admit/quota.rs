//! What a resource quota may say.

use super::container::amount;
use crate::error::FieldErrors;
use crate::object::{list, map, text};
use schedlab_json::Value;

/// Names without a slash under which quotas count whole objects.
const OBJECTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Scopes about which an expression can say more than that they hold.
const WITH_VALUES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];
const CONFLICTS: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub(super) fn check(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    for (name, amount) in map(new, &["spec", "hard"]).into_iter().flatten() {
        check_bound(name, amount, errors);
    }
    check_scopes(new, errors);
    check_selector(new, errors);
    let scopes = |quota: &Value| quota["spec"]["scopes"].clone();
    if old.is_some_and(|old| scopes(old) != scopes(new)) {
        errors.invalid("spec.scopes", &scopes(new), "field is immutable");
    }
}

fn check_bound(name: &str, bound: &Value, errors: &mut FieldErrors) {
    let place = format!("spec.hard[{name}]");
    if !name.contains('/') && !is_standard(name) {
        for rule in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for quota",
        ] {
            errors.invalid(place.clone(), &name.into(), rule);
        }
    }
    if amount(bound) < 0 {
        errors.invalid(place.clone(), bound, "must be greater than or equal to 0");
    }
    let is_count = OBJECTS.contains(&name)
        || (name.contains('/') && !name.contains("kubernetes.io/") && !is_asked_for(name));
    if is_count && amount(bound) % 1000 != 0 {
        errors.invalid(place, bound, "must be an integer");
    }
}

fn is_asked_for(name: &str) -> bool {
    name.starts_with("requests.")
}

fn is_standard(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").unwrap_or(name);
    OBJECTS.contains(&name)
        || bare.starts_with("hugepages-")
        || name == "requests.storage"
        || is_computed(name)
}

fn is_computed(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    matches!(bare.unwrap_or(name), "cpu" | "memory" | "ephemeral-storage")
}

fn check_scopes(quota: &Value, errors: &mut FieldErrors) {
    let (place, all) = ("spec.scopes", &quota["spec"]["scopes"]);
    let scopes: Vec<&str> =
        list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(place, all, "unsupported scope");
        }
        check_reach(quota, scope, (place, all), errors);
    }
    check_conflicts(&scopes, (place, all), errors);
}

/// Scopes as expressions about them.
fn check_selector(quota: &Value, errors: &mut FieldErrors) {
    let place = "spec.scopeSelector.matchExpressions";
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    for expression in expressions {
        let scope = text(expression, &["scopeName"]);
        if !SCOPES.contains(&scope) {
            errors.invalid(format!("{place}.scopeName"), &scope.into(), "unsupported scope");
        }
        let selector = &quota["spec"]["scopeSelector"];
        check_reach(quota, scope, (place, selector), errors);
        check_operator(expression, errors);
    }
    let scopes: Vec<&str> =
        expressions.iter().map(|expression| text(expression, &["scopeName"])).collect();
    // What is shown is the other list of scopes.
    check_conflicts(&scopes, (place, &quota["spec"]["scopes"]), errors);
}

fn check_operator(expression: &Value, errors: &mut FieldErrors) {
    let place = |field: &str| format!("spec.scopeSelector.matchExpressions.{field}");
    let (scope, operator) = (text(expression, &["scopeName"]), text(expression, &["operator"]));
    let values = list(expression, &["values"]);
    if SCOPES.contains(&scope) && !WITH_VALUES.contains(&scope) && operator != "Exists" {
        let rule = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                    ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(place("operator"), &operator.into(), rule);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let rule =
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(place("values"), rule);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let rule =
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(place("values"), &values.into(), rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let rule = "not a valid selector operator";
            errors.invalid(place("operator"), &operator.into(), rule);
        }
    }
}

/// Each standard name that the quota bounds must be one that the scope can be about.
fn check_reach(
    quota: &Value,
    scope: &str,
    (place, shown): (&str, &Value),
    errors: &mut FieldErrors,
) {
    let names = map(quota, &["spec", "hard"]).into_iter().flatten().map(|(name, _)| name);
    for _ in names.filter(|name| is_standard(name) && !reaches(scope, name)) {
        errors.invalid(place, shown, "unsupported scope applied to resource");
    }
}

fn check_conflicts(scopes: &[&str], (place, shown): (&str, &Value), errors: &mut FieldErrors) {
    for pair in CONFLICTS {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(place, shown, "conflicting scopes");
        }
    }
}

/// Can a quota with this scope bound this?
fn reaches(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => name == "pods" || (is_computed(name) && !name.ends_with("ephemeral-storage")),
    }
}
