//! Validation of containers and their resources.

mod environment;
mod ephemeral;
mod mounts;
mod probe;
pub(in crate::admission) mod security;

use std::collections::{BTreeMap, BTreeSet};

use super::pod::resource_claims;
use super::{ports, volume_source};
use crate::admission::checks::{
    check_quantity, check_resource_name, may_overcommit_resource, quantity_milli, quantity_text,
};
use crate::api_types::error::FieldErrors;
use crate::api_types::names;
use schedlab_api::{
    Value,
    object::{list, map, number, text},
};

/// The volumes of a pod by name.
type VolumesByName<'v> = BTreeMap<&'v str, &'v Value>;

/// Checks the containers, volumes and resource claims of the pod spec at `field`.
pub(in crate::admission) fn check_containers(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let volumes = checked_volumes_by_name(spec, field, errors);
    resource_claims::check_pod_claims(spec, field, errors);
    if list(spec, &["containers"]).is_empty() {
        errors.required(format!("{field}.containers"), "");
    }
    let mut seen = BTreeSet::new();
    let grace = number(spec, &["terminationGracePeriodSeconds"]).unwrap_or(30);
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(spec, &[kind]).iter().enumerate() {
            let path = format!("{field}.{kind}[{index}]");
            check_container(spec, container, &path, &volumes, errors);
            let name = text(container, &["name"]);
            if !name.is_empty() && !seen.insert(name) {
                errors.duplicate(format!("{path}.name"), &name.into());
            }
            if kind == "containers" || container["restartPolicy"] == "Always" {
                probe::check_probes_and_hooks(container, &path, grace, errors);
            } else {
                probe::check_no_probes_or_hooks(container, &path, errors);
            }
        }
        if kind == "containers" {
            ports::check_host_ports(spec, field, errors);
        }
    }
    ephemeral::check_ephemeral_containers(spec, field, &volumes, errors);
}

fn check_container(
    spec: &Value,
    container: &Value,
    path: &str,
    volumes: &VolumesByName<'_>,
    errors: &mut FieldErrors,
) {
    check_container_name(text(container, &["name"]), &format!("{path}.name"), errors);
    let image = text(container, &["image"]);
    if image.is_empty() {
        errors.required(format!("{path}.image"), "");
    } else if image != image.trim() {
        let rule = "must not have leading or trailing whitespace";
        errors.invalid(format!("{path}.image"), &image.into(), rule);
    }
    let policies = ["File", "FallbackToLogsOnError"];
    check_choice(container, path, "terminationMessagePolicy", &policies, errors);
    ports::check_container_ports(container, path, errors);
    environment::check_environment(container, path, errors);
    mounts::check_mounts_and_devices(container, path, volumes, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    check_choice(container, path, "imagePullPolicy", &policies, errors);
    let resources = &container["resources"];
    check_resources(resources, &format!("{path}.resources"), errors);
    resource_claims::check_container_claims(spec, resources, &format!("{path}.resources"), errors);
    security::check_container_security(
        &container["securityContext"],
        &format!("{path}.securityContext"),
        errors,
    );
}

fn check_choice(
    container: &Value,
    path: &str,
    field: &str,
    allowed: &[&str],
    errors: &mut FieldErrors,
) {
    let value = text(container, &[field]);
    if !value.is_empty() && !allowed.contains(&value) {
        errors.unsupported(format!("{path}.{field}"), &value.into(), allowed);
    }
}

fn check_container_name(name: &str, path: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path, "");
    } else if let Some(rule) = names::dns_label_violation(name) {
        errors.invalid(path, &name.into(), &rule);
    }
}

fn checked_volumes_by_name<'v>(
    spec: &'v Value,
    field: &str,
    errors: &mut FieldErrors,
) -> VolumesByName<'v> {
    let mut seen = VolumesByName::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = format!("{field}.volumes[{index}]");
        volume_source::check_volume_sources(
            volume,
            &path,
            &volume_source::POD_VOLUME_SOURCES,
            errors,
        );
        let name = text(volume, &["name"]);
        check_container_name(name, &format!("{path}.name"), errors);
        if !name.is_empty() && seen.insert(name, volume).is_some() {
            errors.duplicate(format!("{path}.name"), &name.into());
        }
    }
    seen
}

/// Checks the container resources at `field`: `requests`, `limits` and their relation.
pub(in crate::admission) fn check_resources(
    resources: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    let of = |kind: &str| map(resources, &[kind]);
    for kind in ["limits", "requests"] {
        for (name, quantity) in of(kind).into_iter().flatten() {
            let path = format!("{field}.{kind}[{name}]");
            check_resource_name(name, &path, errors);
            check_quantity(&path, name, quantity, errors);
        }
    }
    for (name, request) in of("requests").into_iter().flatten() {
        let limit = of("limits").and_then(|limits| limits.get(name));
        let path = format!("{field}.requests");
        let Some(limit) = limit else {
            if !may_overcommit_resource(name) {
                let rule = "Limit must be set for non overcommitable resources";
                errors.required(format!("{field}.limits"), rule);
            }
            continue;
        };
        let (requested, most) = (quantity_milli(request), quantity_milli(limit));
        if requested != most && !may_overcommit_resource(name) {
            let rule = format!("must be equal to {name} limit of {}", quantity_text(limit));
            errors.invalid(path, request, &rule);
        } else if requested > most {
            let rule =
                format!("must be less than or equal to {name} limit of {}", quantity_text(limit));
            errors.invalid(path, request, &rule);
        }
    }
}
