//! Variables of containers: their names, and where their values come from.

use crate::error::FieldErrors;
use crate::names;
use crate::object::{at, list, text};
use schedlab_json::Value;

const NAME: &str = "a valid environment variable name must consist only of printable ASCII characters other than \
     '='";
const ONE: &str = "may not have more than one field specified at a time";

const FIELDS: [&str; 9] = [
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
/// Fields that pods are known by, of which containers are not told.
const OTHER_FIELDS: [&str; 6] = [
    "metadata.annotations",
    "metadata.labels",
    "spec.hostNetwork",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks the variables of the container that stands at `place`.
pub(super) fn check(container: &Value, place: &str, errors: &mut FieldErrors) {
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let place = format!("{place}.env[{index}]");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            errors.required(format!("{place}.name"), "");
        } else if !is_name(name) {
            errors.invalid(format!("{place}.name"), &name.into(), NAME);
        }
        if variable["valueFrom"].is_object() {
            check_origin(variable, &format!("{place}.valueFrom"), errors);
        }
    }
    for (index, origin) in list(container, &["envFrom"]).iter().enumerate() {
        check_origins(origin, &format!("{place}.envFrom"), index, errors);
    }
}

fn is_name(name: &str) -> bool {
    name.chars().all(|c| (' '..='~').contains(&c) && c != '=')
}

fn check_origin(variable: &Value, place: &str, errors: &mut FieldErrors) {
    let from = &variable["valueFrom"];
    let ways = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let there: Vec<&str> = ways.into_iter().filter(|way| !from[*way].is_null()).collect();
    for way in &there {
        let (origin, place) = (&from[*way], format!("{place}.{way}"));
        match *way {
            "fieldRef" => check_field(origin, &place, errors),
            "resourceFieldRef" => check_resource(origin, &place, errors),
            "fileKeyRef" => {}
            _ => check_key(origin, &place, errors),
        }
    }
    let rule = match there.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, &["value"]).is_empty() => {
            "may not be specified when `value` is not empty"
        }
        1 => return,
        _ => ONE,
    };
    errors.invalid(place, &"".into(), rule);
}

fn check_field(origin: &Value, place: &str, errors: &mut FieldErrors) {
    let path = text(origin, &["fieldPath"]);
    let version = text(origin, &["apiVersion"]);
    let field = format!("{place}.fieldPath");
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
        let Some(key) = rest.strip_suffix("']").filter(|_| OTHER_FIELDS[..2].contains(&map)) else {
            return refuse(&format!("field label does not support subscript: {path}"));
        };
        let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        for rule in names::qualified_name(&key) {
            errors.invalid(place, &key.as_str().into(), &rule);
        }
    } else if OTHER_FIELDS.contains(&path) {
        errors.unsupported(field, &path.into(), &FIELDS);
    } else if !FIELDS.contains(&path) {
        refuse(&format!("field label not supported: {path}"));
    }
}

fn check_resource(origin: &Value, place: &str, errors: &mut FieldErrors) {
    let resource = text(origin, &["resource"]);
    let place = format!("{place}.resource");
    if resource.is_empty() {
        errors.required(place, "");
    } else if !RESOURCES.contains(&resource) && !resource.contains(".hugepages-") {
        errors.unsupported(place, &resource.into(), &RESOURCES);
    }
}

fn check_key(origin: &Value, place: &str, errors: &mut FieldErrors) {
    let name = text(origin, &["name"]);
    if let Some(rule) = names::dns_subdomain(name) {
        errors.invalid(format!("{place}.name"), &name.into(), &rule);
    }
    let key = text(origin, &["key"]);
    if key.is_empty() {
        errors.required(format!("{place}.key"), "");
    } else if let Some(rule) = names::config_key(key) {
        errors.invalid(format!("{place}.key"), &key.into(), rule);
    }
}

/// All that a config map or a secret has becomes variables.
fn check_origins(origin: &Value, place: &str, index: usize, errors: &mut FieldErrors) {
    let prefix = text(origin, &["prefix"]);
    if !is_name(prefix) {
        errors.invalid(format!("{place}[{index}].prefix"), &prefix.into(), NAME);
    }
    let ways = ["configMapRef", "secretRef"];
    let there = ways.iter().filter_map(|way| Some((way, at(origin, &[way])?)));
    let there: Vec<_> = there.filter(|(_, found)| !found.is_null()).collect();
    for (way, found) in &there {
        let place = format!("{place}[{index}].{way}.name");
        let name = text(found, &["name"]);
        if name.is_empty() {
            errors.required(place, "");
        } else if let Some(rule) = names::dns_subdomain(name) {
            errors.invalid(place, &name.into(), &rule);
        }
    }
    match there.len() {
        0 => {
            let rule = "must specify one of: `configMapRef` or `secretRef`";
            errors.invalid(place, &"".into(), rule);
        }
        1 => {}
        _ => errors.invalid(place, &"".into(), ONE),
    }
}
