//! Validation of `ResourceQuota`.

use crate::admission::checks::quantity_milli;
use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{list, map, text},
};

/// Quota names without a slash that count objects.
const OBJECT_COUNT_NAMES: [&str; 9] = [
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
/// Quota scopes that accept operators other than `Exists`.
const SCOPES_WITH_VALUES: [&str; 2] = ["PriorityClass", "VolumeAttributesClass"];
const CONFLICTING_SCOPES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub(in crate::admission) fn check_quota(
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    for (name, quantity) in map(new, &["spec", "hard"]).into_iter().flatten() {
        check_hard_limit(name, quantity, errors);
    }
    check_scopes(new, errors);
    check_scope_selector(new, errors);
    let scopes = |quota: &Value| quota["spec"]["scopes"].clone();
    if old.is_some_and(|old| scopes(old) != scopes(new)) {
        errors.invalid("spec.scopes", &scopes(new), "field is immutable");
    }
}

fn check_hard_limit(name: &str, bound: &Value, errors: &mut FieldErrors) {
    let path = format!("spec.hard[{name}]");
    if !name.contains('/') && !is_standard_quota_resource(name) {
        for rule in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for quota",
        ] {
            errors.invalid(path.clone(), &name.into(), rule);
        }
    }
    if quantity_milli(bound) < 0 {
        errors.invalid(path.clone(), bound, "must be greater than or equal to 0");
    }
    let is_count = OBJECT_COUNT_NAMES.contains(&name)
        || (name.contains('/') && !name.contains("kubernetes.io/") && !is_request_name(name));
    if is_count && quantity_milli(bound) % 1000 != 0 {
        errors.invalid(path, bound, "must be an integer");
    }
}

fn is_request_name(name: &str) -> bool {
    name.starts_with("requests.")
}

fn is_standard_quota_resource(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").unwrap_or(name);
    OBJECT_COUNT_NAMES.contains(&name)
        || bare.starts_with("hugepages-")
        || name == "requests.storage"
        || is_compute_resource(name)
}

fn is_compute_resource(name: &str) -> bool {
    let bare = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits."));
    matches!(bare.unwrap_or(name), "cpu" | "memory" | "ephemeral-storage")
}

fn check_scopes(quota: &Value, errors: &mut FieldErrors) {
    let (path, all) = ("spec.scopes", &quota["spec"]["scopes"]);
    let scopes: Vec<&str> =
        list(quota, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(path, all, "unsupported scope");
        }
        check_scope_resources(quota, scope, path, all, errors);
    }
    check_scope_conflicts(&scopes, path, all, errors);
}

/// Checks `spec.scopeSelector` of a quota.
fn check_scope_selector(quota: &Value, errors: &mut FieldErrors) {
    let path = "spec.scopeSelector.matchExpressions";
    let expressions = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    for expression in expressions {
        let scope = text(expression, &["scopeName"]);
        if !SCOPES.contains(&scope) {
            errors.invalid(format!("{path}.scopeName"), &scope.into(), "unsupported scope");
        }
        let selector = &quota["spec"]["scopeSelector"];
        check_scope_resources(quota, scope, path, selector, errors);
        check_scope_operator(expression, errors);
    }
    let scopes: Vec<&str> =
        expressions.iter().map(|expression| text(expression, &["scopeName"])).collect();
    // The API server shows `spec.scopes` in this error, too.
    check_scope_conflicts(&scopes, path, &quota["spec"]["scopes"], errors);
}

fn check_scope_operator(expression: &Value, errors: &mut FieldErrors) {
    let path = |field: &str| format!("spec.scopeSelector.matchExpressions.{field}");
    let (scope, operator) = (text(expression, &["scopeName"]), text(expression, &["operator"]));
    let values = list(expression, &["values"]);
    if SCOPES.contains(&scope) && !SCOPES_WITH_VALUES.contains(&scope) && operator != "Exists" {
        let rule = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                    ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.invalid(path("operator"), &operator.into(), rule);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let rule =
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(path("values"), rule);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let rule =
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(path("values"), &values.into(), rule);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let rule = "not a valid selector operator";
            errors.invalid(path("operator"), &operator.into(), rule);
        }
    }
}

/// Checks that a scope can limit every standard resource that the quota names.
fn check_scope_resources(
    quota: &Value,
    scope: &str,
    path: &str,
    shown: &Value,
    errors: &mut FieldErrors,
) {
    let names = map(quota, &["spec", "hard"]).into_iter().flatten().map(|(name, _)| name);
    for _ in names.filter(|name| is_standard_quota_resource(name) && !scope_applies_to(scope, name))
    {
        errors.invalid(path, shown, "unsupported scope applied to resource");
    }
}

fn check_scope_conflicts(scopes: &[&str], path: &str, shown: &Value, errors: &mut FieldErrors) {
    for pair in CONFLICTING_SCOPES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(path, shown, "conflicting scopes");
        }
    }
}

/// Whether a quota with the scope `scope` can limit the resource `name`.
fn scope_applies_to(scope: &str, name: &str) -> bool {
    match scope {
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => name == "pods" || (is_compute_resource(name) && !name.ends_with("ephemeral-storage")),
    }
}
