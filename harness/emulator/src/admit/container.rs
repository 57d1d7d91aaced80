//! Rules for containers, their resources, and their mounts.

use std::collections::BTreeSet;

use super::ports;
use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, map, text};
use crate::quantity::{self, Milli};
use schedlab_json::Value;

/// Types of volumes, in the order in which the real server looks for them.
const SOURCES: [&str; 10] = [
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
    "csi",
    "ephemeral",
];

/// Checks the containers of a pod spec that stands at `field`.
pub(super) fn check_containers(spec: &Value, field: &str, errors: &mut FieldErrors) {
    if list(spec, &["containers"]).is_empty() {
        errors.required(format!("{field}.containers"), "");
    }
    ports::check_host(spec, field, errors);
    let volumes = volumes(spec, field, errors);
    let mut seen = BTreeSet::new();
    for kind in ["initContainers", "containers"] {
        for (index, container) in list(spec, &[kind]).iter().enumerate() {
            let place = format!("{field}.{kind}[{index}]");
            let name = text(container, &["name"]);
            check_name(name, &format!("{place}.name"), errors);
            if !name.is_empty() && !seen.insert(name) {
                errors.duplicate(format!("{place}.name"), &name.into());
            }
            let image = text(container, &["image"]);
            if image.is_empty() {
                errors.required(format!("{place}.image"), "");
            } else if image != image.trim() {
                let rule = "must not have leading or trailing whitespace";
                errors.invalid(format!("{place}.image"), &image.into(), rule);
            }
            check_choices(container, &place, errors);
            check_probes(container, &place, errors);
            check_resources(&container["resources"], &format!("{place}.resources"), errors);
            ports::check(container, &place, errors);
            check_mounts(container, (&place, &volumes), errors);
        }
    }
}

/// A probe asks in some way.
fn check_probes(container: &Value, place: &str, errors: &mut FieldErrors) {
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = &container[field];
        let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
        if !probe.is_null() && handlers.iter().all(|handler| probe[*handler].is_null()) {
            errors.required(format!("{place}.{field}"), "must specify a handler type");
        }
    }
}

fn check_choices(container: &Value, place: &str, errors: &mut FieldErrors) {
    let choices: [(&str, &[&str]); 2] = [
        ("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]),
        ("imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ];
    for (field, allowed) in choices {
        let value = text(container, &[field]);
        if !value.is_empty() && !allowed.contains(&value) {
            errors.unsupported(format!("{place}.{field}"), &value.into(), allowed);
        }
    }
    for (index, variable) in list(container, &["env"]).iter().enumerate() {
        let name = text(variable, &["name"]);
        let is_name = name.chars().all(|c| (' '..='~').contains(&c) && c != '=');
        let place = format!("{place}.env[{index}].name");
        if name.is_empty() {
            errors.required(place, "");
        } else if !is_name {
            let rule = "a valid environment variable name must consist only of printable ASCII \
                        characters other than '='";
            errors.invalid(place, &name.into(), rule);
        }
    }
}

fn check_name(name: &str, place: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(place, "");
    } else if let Some(rule) = names::dns_label(name) {
        errors.invalid(place, &name.into(), &rule);
    }
}

fn volumes<'v>(spec: &'v Value, field: &str, errors: &mut FieldErrors) -> BTreeSet<&'v str> {
    let mut seen = BTreeSet::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let name = text(volume, &["name"]);
        let place = format!("{field}.volumes[{index}].name");
        check_name(name, &place, errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(place, &name.into());
        }
        let claim = &volume["persistentVolumeClaim"];
        if !claim.is_null() && text(claim, &["claimName"]).is_empty() {
            let place = format!("{field}.volumes[{index}].persistentVolumeClaim.claimName");
            errors.required(place, "");
        }
        let there = SOURCES.iter().filter(|source| !volume[**source].is_null());
        for source in there.skip(1) {
            let place = format!("{field}.volumes[{index}].{source}");
            errors.forbidden(place, "may not specify more than 1 volume type");
        }
    }
    seen
}

fn check_mounts(
    container: &Value,
    (place, volumes): (&str, &BTreeSet<&str>),
    errors: &mut FieldErrors,
) {
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let name = text(mount, &["name"]);
        let place = format!("{place}.volumeMounts[{index}]");
        if name.is_empty() {
            errors.required(format!("{place}.name"), "");
        } else if !volumes.contains(name) {
            errors.missing(format!("{place}.name"), &name.into());
        }
        if text(mount, &["mountPath"]).is_empty() {
            errors.required(format!("{place}.mountPath"), "");
        }
    }
}

/// Checks `requests` and `limits` that stand at `field`.
pub(super) fn check_resources(resources: &Value, field: &str, errors: &mut FieldErrors) {
    let of = |kind: &str| map(resources, &[kind]);
    for kind in ["limits", "requests"] {
        for (name, amount) in of(kind).into_iter().flatten() {
            let place = format!("{field}.{kind}[{name}]");
            check_resource_name(name, &place, errors);
            check_quantity(&place, (name, amount), errors);
        }
    }
    for (name, request) in of("requests").into_iter().flatten() {
        let limit = of("limits").and_then(|limits| limits.get(name));
        let place = format!("{field}.requests");
        let Some(limit) = limit else {
            if !may_overcommit(name) {
                let rule = "Limit must be set for non overcommitable resources";
                errors.required(format!("{field}.limits"), rule);
            }
            continue;
        };
        let (asked, most) = (amount(request), amount(limit));
        if asked != most && !may_overcommit(name) {
            let rule = format!("must be equal to {name} limit of {}", bare(limit));
            errors.invalid(place, request, &rule);
        } else if asked > most {
            let rule = format!("must be less than or equal to {name} limit of {}", bare(limit));
            errors.invalid(place, request, &rule);
        }
    }
}

fn bare(quantity: &Value) -> &str {
    quantity.as_str().unwrap_or_default()
}

/// A quantity that decoding let through, in thousandths.
pub(super) fn amount(quantity: &Value) -> Milli {
    quantity.as_str().and_then(|text| quantity::parse(text).ok()).unwrap_or(0)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Extended resources and huge pages come in what was asked for, no more.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

fn check_resource_name(name: &str, place: &str, errors: &mut FieldErrors) {
    let value = Value::from(name);
    let rules = names::qualified_name(name);
    for rule in &rules {
        errors.invalid(place, &value, rule);
    }
    if rules.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(place, &value, "must be a standard resource type or fully qualified");
        errors.invalid(place, &value, "must be a standard resource for containers");
    }
}

/// Not negative, and whole where parts cannot be handed out.
pub(super) fn check_quantity(
    place: &str,
    (name, quantity): (&str, &Value),
    errors: &mut FieldErrors,
) {
    let amount = amount(quantity);
    if amount < 0 {
        errors.invalid(place, quantity, "must be greater than or equal to 0");
    }
    if !is_native(name) && amount % 1000 != 0 {
        errors.invalid(place, quantity, "must be an integer");
    }
    let page = name.strip_prefix("hugepages-").and_then(|size| quantity::parse(size).ok());
    if page.is_some_and(|page| page <= 0 || amount % page != 0) {
        let rule = format!("{} is not positive integer multiple of {name}", bare(quantity));
        errors.invalid(place, quantity, &rule);
    }
}
