//! Validation of roles and role bindings. The emulator does not authorize requests; it only rejects
//! invalid objects.

use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, text},
};

const GROUP: &str = "rbac.authorization.k8s.io";
const SUBJECTS: [&str; 3] = ["ServiceAccount", "User", "Group"];

pub(super) fn check(kind: &Kind, object: &Value, errors: &mut FieldErrors) {
    match &*kind.kind {
        "Role" => check_policy_rules(object, true, errors),
        "ClusterRole" => check_policy_rules(object, false, errors),
        "RoleBinding" => check_binding(object, &["Role", "ClusterRole"], true, errors),
        "ClusterRoleBinding" => check_binding(object, &["ClusterRole"], false, errors),
        _ => {}
    }
}

fn check_policy_rules(role: &Value, is_namespaced: bool, errors: &mut FieldErrors) {
    for (index, right) in list(role, &["rules"]).iter().enumerate() {
        let path = format!("rules[{index}]");
        let is_empty = |field: &str| list(right, &[field]).is_empty();
        if is_empty("verbs") {
            errors.required(format!("{path}.verbs"), "");
        }
        if !is_empty("nonResourceURLs") {
            let has_resources = !is_empty("apiGroups") || !is_empty("resources");
            let why = match (is_namespaced, has_resources) {
                (true, _) => "namespaced rules cannot apply to non-resource URLs",
                (_, true) => "rules cannot apply to both regular resources and non-resource URLs",
                (false, false) => continue,
            };
            errors.invalid(format!("{path}.nonResourceURLs"), &right["nonResourceURLs"], why);
            continue;
        }
        for (field, one) in [("apiGroups", "api group"), ("resources", "resource")] {
            if is_empty(field) {
                let why = format!("resource rules must supply at least one {one}");
                errors.required(format!("{path}.{field}"), &why);
            }
        }
    }
    let aggregation = &role["aggregationRule"];
    if !aggregation.is_null() && list(aggregation, &["clusterRoleSelectors"]).is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required("aggregationRule.clusterRoleSelectors", why);
    }
}

fn check_binding(binding: &Value, roles: &[&str], is_namespaced: bool, errors: &mut FieldErrors) {
    let role = &binding["roleRef"];
    let (group, kind) = (text(role, &["apiGroup"]), text(role, &["kind"]));
    if !["", GROUP].contains(&group) {
        errors.unsupported("roleRef.apiGroup", &group.into(), &[GROUP]);
    }
    if !roles.contains(&kind) {
        errors.unsupported("roleRef.kind", &kind.into(), roles);
    }
    if text(role, &["name"]).is_empty() {
        errors.required("roleRef.name", "");
    }
    for (index, subject) in list(binding, &["subjects"]).iter().enumerate() {
        check_subject(subject, &format!("subjects[{index}]"), is_namespaced, errors);
    }
}

fn check_subject(subject: &Value, path: &str, is_namespaced: bool, errors: &mut FieldErrors) {
    let (name, kind) = (text(subject, &["name"]), text(subject, &["kind"]));
    if name.is_empty() {
        errors.required(format!("{path}.name"), "");
    }
    let group = text(subject, &["apiGroup"]);
    let allowed = match kind {
        "ServiceAccount" => {
            if let Some(rule) = names::dns_subdomain_violation(name).filter(|_| !name.is_empty()) {
                errors.invalid(format!("{path}.name"), &name.into(), &rule);
            }
            if !is_namespaced && text(subject, &["namespace"]).is_empty() {
                errors.required(format!("{path}.namespace"), "");
            }
            ""
        }
        "User" | "Group" => GROUP,
        _ => return errors.unsupported(format!("{path}.kind"), &kind.into(), &SUBJECTS),
    };
    if !["", allowed].contains(&group) {
        errors.unsupported(format!("{path}.apiGroup"), &group.into(), &[allowed]);
    }
}
