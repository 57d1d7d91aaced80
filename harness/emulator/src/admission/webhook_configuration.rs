//! Defaults and validation of webhook configurations.

use super::match_conditions;
use crate::admission::defaults::pod_template::list_items_mut;
use crate::admission::webhooks::uses_authorizer;
use crate::api_types::error::FieldErrors;
use crate::api_types::kinds::Kind;
use schedlab_api::{
    Value, json,
    object::{list, number, set_default, text},
};

/// The maximum timeout of a webhook, in seconds.
const TIMEOUT_SECS_MAX: i64 = 30;

pub(super) fn is_webhook_configuration(kind: &Kind) -> bool {
    ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].contains(&&*kind.kind)
        && &*kind.resource.group == "admissionregistration.k8s.io"
}

/// Sets the defaults of the webhooks of a webhook configuration.
pub(super) fn set_webhook_defaults(kind: &Kind, configuration: &mut Value) {
    for webhook in list_items_mut(configuration, "webhooks") {
        set_default(webhook, &["failurePolicy"], "Fail");
        set_default(webhook, &["matchPolicy"], "Equivalent");
        set_default(webhook, &["namespaceSelector"], json!({}));
        set_default(webhook, &["objectSelector"], json!({}));
        set_default(webhook, &["timeoutSeconds"], 10);
        if &*kind.kind == "MutatingWebhookConfiguration" {
            set_default(webhook, &["reinvocationPolicy"], "Never");
        }
        if webhook["clientConfig"]["service"].is_object() {
            set_default(webhook, &["clientConfig", "service", "port"], 443);
        }
        for rule in list_items_mut(webhook, "rules") {
            set_default(rule, &["scope"], "*");
        }
    }
}

pub(super) fn check_webhook_configuration(configuration: &Value, errors: &mut FieldErrors) {
    let mut names: Vec<&str> = Vec::new();
    for (index, webhook) in list(configuration, &["webhooks"]).iter().enumerate() {
        let field_path = format!("webhooks[{index}]");
        let name = text(webhook, &["name"]);
        check_name(&field_path, name, errors);
        check_webhook(&field_path, webhook, errors);
        check_client_config(
            &format!("{field_path}.clientConfig"),
            &webhook["clientConfig"],
            errors,
        );
        for (rule, found) in list(webhook, &["rules"]).iter().enumerate() {
            check_rule(&format!("{field_path}.rules[{rule}]"), found, errors);
        }
        check_match_conditions(&field_path, webhook, errors);
        if names.contains(&name) {
            errors.duplicate(format!("{field_path}.name"), &name.into());
        }
        names.push(name);
    }
}

fn check_name(field_path: &str, name: &str, errors: &mut FieldErrors) {
    let field = format!("{field_path}.name");
    if name.is_empty() {
        return errors.required(field, "");
    }
    if name.split('.').filter(|part| !part.is_empty()).count() < 3 {
        let rule = "should be a domain with at least three segments separated by dots";
        errors.invalid(field, &name.into(), rule);
    }
}

fn check_webhook(field_path: &str, webhook: &Value, errors: &mut FieldErrors) {
    let at = |field: &str| format!("{field_path}.{field}");
    let versions = list(webhook, &["admissionReviewVersions"]);
    if versions.is_empty() {
        let rule = "must specify one of v1, v1beta1";
        errors.required(at("admissionReviewVersions"), rule);
    } else if !versions.iter().any(|version| version == "v1") {
        let rule = "must include at least one of v1, v1beta1";
        errors.invalid(at("admissionReviewVersions"), &webhook["admissionReviewVersions"], rule);
    }
    if webhook["sideEffects"].is_null() {
        errors.required(at("sideEffects"), "must specify one of None, NoneOnDryRun");
    }
    let choices: [(&str, &[&str]); 4] = [
        ("sideEffects", &["None", "NoneOnDryRun"]),
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ];
    for (field, allowed) in choices {
        let found = &webhook[field];
        if found.as_str().is_some_and(|found| !allowed.contains(&found)) {
            errors.unsupported(at(field), found, allowed);
        }
    }
    let timeout = number(webhook, &["timeoutSeconds"]).unwrap_or(1);
    if !(1..=TIMEOUT_SECS_MAX).contains(&timeout) {
        let rule = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(at("timeoutSeconds"), &timeout.into(), rule);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        for (index, one) in list(webhook, &[field, "matchExpressions"]).iter().enumerate() {
            let operator = text(one, &["operator"]);
            if !["In", "NotIn", "Exists", "DoesNotExist"].contains(&operator) {
                let field_path = format!("{}.matchExpressions[{index}].operator", at(field));
                errors.invalid(field_path, &operator.into(), "not a valid selector operator");
            }
        }
    }
}

fn check_client_config(field_path: &str, client: &Value, errors: &mut FieldErrors) {
    let (url, service) = (text(client, &["url"]), &client["service"]);
    if client["url"].is_null() == service.is_null() {
        errors.required(field_path, "exactly one of url or service is required");
        return;
    }
    if service.is_null() {
        check_url(&format!("{field_path}.url"), url, errors);
        return;
    }
    for field in ["name", "namespace"] {
        if text(service, &[field]).is_empty() {
            errors.required(format!("{field_path}.service.{field}"), "");
        }
    }
    let path = text(service, &["path"]);
    if !path.is_empty() && !path.starts_with('/') {
        let field = format!("{field_path}.service.path");
        errors.invalid(field.clone(), &path.into(), "must start with a '/'");
        errors.invalid(field, &path.into(), "segment[0] may not be empty");
    }
    let port = number(service, &["port"]).unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let rule = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(format!("{field_path}.service.port"), &port.into(), rule);
    }
}

fn check_url(field_path: &str, url: &str, errors: &mut FieldErrors) {
    const FORM: &str = "desired format: https://host[/path]";
    let Some(rest) = url.strip_prefix("https://") else {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let rule = format!("'https' is the only allowed URL scheme; {FORM}");
        return errors.invalid(field_path, &scheme.into(), &rule);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() {
        errors.invalid(field_path, &"".into(), &format!("host must be specified; {FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = rest.split('/').next().and_then(|host| host.split_once('@')).map(|(user, _)| user);
    for (found, rule) in [
        (user.unwrap_or_default(), "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !found.is_empty() {
            errors.invalid(field_path, &found.into(), rule);
        }
    }
}

fn check_rule(field_path: &str, rule: &Value, errors: &mut FieldErrors) {
    let at = |field: &str| format!("{field_path}.{field}");
    let plurals = [
        ("apiGroups", "API groups"),
        ("apiVersions", "API versions"),
        ("operations", "operations"),
    ];
    for (field, plural) in plurals {
        let found = list(rule, &[field]);
        if found.is_empty() {
            errors.required(at(field), "");
        }
        if found.len() > 1 && found.iter().any(|one| one == "*") {
            let why = format!("if '*' is present, must not specify other {plural}");
            errors.invalid(at(field), &rule[field], &why);
        }
    }
    check_resources(&at("resources"), &rule["resources"], errors);
    for (index, operation) in list(rule, &["operations"]).iter().enumerate() {
        let allowed = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !allowed.contains(&operation.as_str().unwrap_or_default()) {
            errors.unsupported(format!("{field_path}.operations[{index}]"), operation, &allowed);
        }
    }
    let scopes = ["*", "Cluster", "Namespaced"];
    if !scopes.contains(&text(rule, &["scope"])) {
        errors.unsupported(at("scope"), &rule["scope"], &scopes);
    }
}

fn check_resources(field_path: &str, resources: &Value, errors: &mut FieldErrors) {
    let all: Vec<&str> =
        resources.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if all.is_empty() {
        return errors.required(field_path, "");
    }
    for (index, resource) in all.iter().enumerate() {
        let Some((plural, part)) = resource.split_once('/').filter(|_| *resource != "*/*") else {
            continue;
        };
        for wider in [format!("{plural}/*"), format!("*/{part}")] {
            if all.iter().take(index).any(|other| *other == wider) {
                let why = format!("if '{wider}' is present, must not specify {resource}");
                errors.invalid(format!("{field_path}[{index}]"), &(*resource).into(), &why);
            }
        }
    }
    if all.contains(&"*/*") {
        if all.len() > 1 {
            let why = "if '*/*' is present, must not specify other resources";
            errors.invalid(field_path, resources, why);
        }
        return;
    }
    let is_plain = |resource: &&str| !resource.contains('/') && *resource != "*";
    if all.contains(&"*") && all.iter().any(is_plain) {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(field_path, resources, why);
    }
}

fn check_match_conditions(field_path: &str, webhook: &Value, errors: &mut FieldErrors) {
    for (index, condition) in list(webhook, &["matchConditions"]).iter().enumerate() {
        let field_path = format!("{field_path}.matchConditions[{index}]");
        let expression = text(condition, &["expression"]);
        let field = format!("{field_path}.expression");
        if text(condition, &["name"]).is_empty() {
            errors.required(format!("{field_path}.name"), "");
        }
        if expression.trim().is_empty() {
            errors.required(field, "");
        } else if uses_authorizer(expression) {
            let rule = "schedlab's emulator has no authorizer: match conditions can use only \
                        object, oldObject and request";
            errors.invalid(field, &expression.into(), rule);
        } else {
            match_conditions::check_match_condition(expression, &field, errors);
        }
    }
}
