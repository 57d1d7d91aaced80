//! Devices that a pod claims, and which of its containers get them.

use std::collections::BTreeSet;

use crate::error::FieldErrors;
use crate::error::in_go::{Field, in_go};
use crate::names;
use crate::object::{list, set_default, text};
use schedlab_json::{Value, json};

const CLAIM: &[Field] =
    &[Field("name", &[]), Field("resourceClaimName", &[]), Field("resourceClaimTemplateName", &[])];

/// Checks the claims of the pod spec that stands at `field`.
pub(crate) fn check(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in list(spec, &["resourceClaims"]).iter().enumerate() {
        let place = format!("{field}.resourceClaims[{index}]");
        let name = text(claim, &["name"]);
        if name.is_empty() {
            errors.required(format!("{place}.name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(format!("{place}.name"), &name.into());
        } else if let Some(rule) = names::dns_label(name) {
            errors.invalid(format!("{place}.name"), &name.into(), &rule);
        }
        let ways = ["resourceClaimName", "resourceClaimTemplateName"];
        let there = ways.iter().filter(|way| !claim[**way].is_null());
        let rule = match there.clone().count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        };
        if let Some(rule) = rule {
            let mut shown = claim.clone();
            set_default(&mut shown, &["name"], json!(""));
            errors.invalid_in_go(&*place, &in_go(&shown, CLAIM), rule);
        }
        for way in there {
            let name = text(claim, &[way]);
            if let Some(rule) = names::dns_subdomain(name) {
                errors.invalid(format!("{place}.{way}"), &name.into(), &rule);
            }
        }
    }
}

/// Checks which claims of its pod's a container gets, whose resources stand at `place`.
pub(crate) fn check_used(
    (spec, resources): (&Value, &Value),
    place: &str,
    errors: &mut FieldErrors,
) {
    let used = list(resources, &["claims"]);
    if used.is_empty() {
        return;
    }
    let known: Vec<&str> =
        list(spec, &["resourceClaims"]).iter().map(|claim| text(claim, &["name"])).collect();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, claim) in used.iter().enumerate() {
        let place = format!("{place}.claims[{index}]");
        let (name, request) = (text(claim, &["name"]), text(claim, &["request"]));
        if name.is_empty() {
            errors.required(place, "");
            continue;
        }
        if !request.is_empty()
            && let Some(rule) = names::dns_label(request)
        {
            errors.invalid(format!("{place}.request"), &request.into(), &rule);
        }
        // A whole claim leaves no part of it for another request.
        let overlaps = |(other, part): &(&str, &str)| {
            *other == name && (request.is_empty() || part.is_empty())
        };
        if seen.iter().any(overlaps) {
            errors.duplicate(&*place, &name.into());
        } else if seen.contains(&(name, request)) {
            errors.duplicate(&*place, &format!("{name}/{request}").into());
        }
        seen.push((name, request));
        if !known.contains(&name) {
            let rule = "must be one of the names in pod.spec.resourceClaims";
            let rule = if known.is_empty() {
                format!("{rule} which is empty")
            } else {
                format!("{rule}: {}", known.join(", "))
            };
            errors.missing_as(place, &name.into(), &rule);
        }
    }
}
