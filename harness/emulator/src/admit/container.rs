//! Rules for containers and their resources.

mod environment;
mod ephemeral;
mod mounts;
mod probe;
pub(super) mod security;

use std::collections::{BTreeMap, BTreeSet};

use super::pod::claims;
use super::{ports, source};
use crate::error::FieldErrors;
use crate::names;
use crate::object::{list, map, number, text};
use crate::quantity::{self, Milli};
use schedlab_json::Value;

/// The volumes of a pod by their names.
type Volumes<'v> = BTreeMap<&'v str, &'v Value>;

/// Checks the containers of a pod spec that stands at `field`, and what they have in common.
pub(super) fn check_containers(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let volumes = volumes(spec, field, errors);
    claims::check(spec, field, errors);
    if list(spec, &["containers"]).is_empty() {
        errors.required(format!("{field}.containers"), "");
    }
    let mut seen = BTreeSet::new();
    let grace = number(spec, &["terminationGracePeriodSeconds"]).unwrap_or(30);
    for kind in ["containers", "initContainers"] {
        for (index, container) in list(spec, &[kind]).iter().enumerate() {
            let place = format!("{field}.{kind}[{index}]");
            check_container((spec, container), (&place, &volumes), errors);
            let name = text(container, &["name"]);
            if !name.is_empty() && !seen.insert(name) {
                errors.duplicate(format!("{place}.name"), &name.into());
            }
            if kind == "containers" || container["restartPolicy"] == "Always" {
                probe::check(container, (&place, grace), errors);
            } else {
                probe::check_absent(container, &place, errors);
            }
        }
        if kind == "containers" {
            ports::check_host(spec, field, errors);
        }
    }
    ephemeral::check(spec, (field, &volumes), errors);
}

fn check_container(
    (spec, container): (&Value, &Value),
    (place, volumes): (&str, &Volumes<'_>),
    errors: &mut FieldErrors,
) {
    check_name(text(container, &["name"]), &format!("{place}.name"), errors);
    let image = text(container, &["image"]);
    if image.is_empty() {
        errors.required(format!("{place}.image"), "");
    } else if image != image.trim() {
        let rule = "must not have leading or trailing whitespace";
        errors.invalid(format!("{place}.image"), &image.into(), rule);
    }
    let policies = ["File", "FallbackToLogsOnError"];
    check_choice(container, (place, "terminationMessagePolicy"), &policies, errors);
    ports::check(container, place, errors);
    environment::check(container, place, errors);
    mounts::check(container, (place, volumes), errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    check_choice(container, (place, "imagePullPolicy"), &policies, errors);
    let resources = &container["resources"];
    check_resources(resources, &format!("{place}.resources"), errors);
    claims::check_used((spec, resources), &format!("{place}.resources"), errors);
    security::check(&container["securityContext"], &format!("{place}.securityContext"), errors);
}

fn check_choice(
    container: &Value,
    (place, field): (&str, &str),
    allowed: &[&str],
    errors: &mut FieldErrors,
) {
    let value = text(container, &[field]);
    if !value.is_empty() && !allowed.contains(&value) {
        errors.unsupported(format!("{place}.{field}"), &value.into(), allowed);
    }
}

fn check_name(name: &str, place: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(place, "");
    } else if let Some(rule) = names::dns_label(name) {
        errors.invalid(place, &name.into(), &rule);
    }
}

fn volumes<'v>(spec: &'v Value, field: &str, errors: &mut FieldErrors) -> Volumes<'v> {
    let mut seen = Volumes::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let place = format!("{field}.volumes[{index}]");
        source::check(volume, (&place, &source::OF_PODS), errors);
        let name = text(volume, &["name"]);
        check_name(name, &format!("{place}.name"), errors);
        if !name.is_empty() && seen.insert(name, volume).is_some() {
            errors.duplicate(format!("{place}.name"), &name.into());
        }
    }
    seen
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

/// Whether containers know it without a domain.
pub(super) fn is_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Checks the name of what containers have, which is said at `place`.
pub(super) fn check_resource_name(name: &str, place: &str, errors: &mut FieldErrors) {
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
