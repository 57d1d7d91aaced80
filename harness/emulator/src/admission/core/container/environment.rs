//! Validation of environment variables of containers.

use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{at, list, text},
};

const VARIABLE_NAME_RULE: &str = "a valid environment variable name must consist only of printable ASCII characters other than \
     '='";
const SINGLE_SOURCE_RULE: &str = "may not have more than one field specified at a time";

const SUPPORTED_POD_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Pod fields that exist but that `fieldRef` of an environment variable does not support.
const UNSUPPORTED_POD_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
const SUPPORTED_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks `env` and `envFrom` of the container at `field_path`.
pub(super) fn check_environment(container: &Value, field_path: &str, errors: &mut FieldErrors) {
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let field_path = format!("{field_path}.env[{index}]");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.required(format!("{field_path}.name"), "");
        } else if !is_variable_name(name) {
            errors.invalid(format!("{field_path}.name"), &name.into(), VARIABLE_NAME_RULE);
        }
        if variable["valueFrom"].is_object() {
            check_value_source(variable, &format!("{field_path}.valueFrom"), errors);
        }
    }
    for (index, origin) in list(container, &["envFrom"]).iter().enumerate() {
        check_env_from(origin, &format!("{field_path}.envFrom"), index, errors);
    }
}

fn is_variable_name(name: &str) -> bool {
    name.chars().all(|c| (' '..='~').contains(&c) && c != '=')
}

fn check_value_source(env_variable: &Value, field_path: &str, errors: &mut FieldErrors) {
    let from = &env_variable["valueFrom"];
    let source_fields =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let present: Vec<&str> =
        source_fields.into_iter().filter(|source| !from[*source].is_null()).collect();
    for source in &present {
        let (origin, field_path) = (&from[*source], format!("{field_path}.{source}"));
        match *source {
            "fieldRef" => check_field_ref(origin, &field_path, errors),
            "resourceFieldRef" => check_resource_field_ref(origin, &field_path, errors),
            "fileKeyRef" => {}
            _ => check_key_ref(origin, &field_path, errors),
        }
    }
    let rule = match present.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(env_variable, &["value"]).is_empty() => {
            "may not be specified when `value` is not empty"
        }
        1 => return,
        _ => SINGLE_SOURCE_RULE,
    };
    errors.invalid(field_path, &"".into(), rule);
}

fn check_field_ref(value_from: &Value, field_path: &str, errors: &mut FieldErrors) {
    let path = text(value_from, &["fieldPath"]);
    let version = text(value_from, &["apiVersion"]);
    let field = format!("{field_path}.fieldPath");
    let mut refuse = |why: &str| {
        errors.invalid(&*field, &path.into(), &format!("error converting fieldPath: {why}"));
    };
    if path.is_empty() {
        return errors.required(field, "");
    }
    if !["", "v1"].contains(&version) {
        return refuse(&format!("unsupported pod version: {version}"));
    }
    if let Some((map, rest)) = path.split_once("['") {
        let Some(key) =
            rest.strip_suffix("']").filter(|_| UNSUPPORTED_POD_FIELDS[..2].contains(&map))
        else {
            return refuse(&format!("field label does not support subscript: {path}"));
        };
        let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        for rule in names::qualified_name_violations(&key) {
            errors.invalid(field_path, &key.as_str().into(), &rule);
        }
    } else if UNSUPPORTED_POD_FIELDS.contains(&path) {
        errors.unsupported(field, &path.into(), &SUPPORTED_POD_FIELDS);
    } else if !SUPPORTED_POD_FIELDS.contains(&path) {
        refuse(&format!("field label not supported: {path}"));
    }
}

fn check_resource_field_ref(value_from: &Value, field_path: &str, errors: &mut FieldErrors) {
    let resource = text(value_from, &["resource"]);
    let field_path = format!("{field_path}.resource");
    if resource.is_empty() {
        errors.required(field_path, "");
    } else if !SUPPORTED_RESOURCES.contains(&resource) && !resource.contains(".hugepages-") {
        errors.unsupported(field_path, &resource.into(), &SUPPORTED_RESOURCES);
    }
}

fn check_key_ref(value_from: &Value, field_path: &str, errors: &mut FieldErrors) {
    let name = text(value_from, &["name"]);
    if let Some(rule) = names::dns_subdomain_violation(name) {
        errors.invalid(format!("{field_path}.name"), &name.into(), &rule);
    }
    let key = text(value_from, &["key"]);
    if key.is_empty() {
        errors.required(format!("{field_path}.key"), "");
    } else if let Some(rule) = names::config_key_violation(key) {
        errors.invalid(format!("{field_path}.key"), &key.into(), rule);
    }
}

/// Checks one entry of `envFrom`.
fn check_env_from(env_from: &Value, field_path: &str, index: usize, errors: &mut FieldErrors) {
    let prefix = text(env_from, &["prefix"]);
    if !is_variable_name(prefix) {
        errors.invalid(format!("{field_path}[{index}].prefix"), &prefix.into(), VARIABLE_NAME_RULE);
    }
    let source_fields = ["configMapRef", "secretRef"];
    let present =
        source_fields.iter().filter_map(|source| Some((source, at(env_from, &[source])?)));
    let present: Vec<_> = present.filter(|(_, found)| !found.is_null()).collect();
    for (source, found) in &present {
        let field_path = format!("{field_path}[{index}].{source}.name");
        let name = text(found, &["name"]);
        if name.is_empty() {
            errors.required(field_path, "");
        } else if let Some(rule) = names::dns_subdomain_violation(name) {
            errors.invalid(field_path, &name.into(), &rule);
        }
    }
    match present.len() {
        0 => {
            let rule = "must specify one of: `configMapRef` or `secretRef`";
            errors.invalid(field_path, &"".into(), rule);
        }
        1 => {}
        _ => errors.invalid(field_path, &"".into(), SINGLE_SOURCE_RULE),
    }
}
