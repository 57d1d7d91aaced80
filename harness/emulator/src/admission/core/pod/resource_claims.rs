//! Validation of resource claims of pods and containers.

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use crate::api_types::error::go_format::{GoField, format_go_struct};
use crate::api_types::names;
use schedlab_api::{
    Value, json,
    object::{list, set_default, text},
};

const CLAIM_FIELDS: &[GoField] = &[
    GoField("name", &[]),
    GoField("resourceClaimName", &[]),
    GoField("resourceClaimTemplateName", &[]),
];

/// Checks the resource claims of the pod spec at `field`.
pub(crate) fn check_pod_claims(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in list(spec, &["resourceClaims"]).iter().enumerate() {
        let path = format!("{field}.resourceClaims[{index}]");
        let name = text(claim, &["name"]);
        if name.is_empty() {
            errors.required(format!("{path}.name"), "");
        } else if !seen.insert(name) {
            errors.duplicate(format!("{path}.name"), &name.into());
        } else if let Some(rule) = names::dns_label_violation(name) {
            errors.invalid(format!("{path}.name"), &name.into(), &rule);
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let present = fields.iter().filter(|reference| !claim[**reference].is_null());
        let rule = match present.clone().count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        };
        if let Some(rule) = rule {
            let mut shown = claim.clone();
            set_default(&mut shown, &["name"], json!(""));
            errors.invalid_as_shown(&*path, &format_go_struct(&shown, CLAIM_FIELDS), rule);
        }
        for reference in present {
            let name = text(claim, &[reference]);
            if let Some(rule) = names::dns_subdomain_violation(name) {
                errors.invalid(format!("{path}.{reference}"), &name.into(), &rule);
            }
        }
    }
}

/// Checks the `claims` of the container resources at `path` against the claims of the pod.
pub(crate) fn check_container_claims(
    spec: &Value,
    resources: &Value,
    path: &str,
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
        let path = format!("{path}.claims[{index}]");
        let (name, request) = (text(claim, &["name"]), text(claim, &["request"]));
        if name.is_empty() {
            errors.required(path, "");
            continue;
        }
        if !request.is_empty()
            && let Some(rule) = names::dns_label_violation(request)
        {
            errors.invalid(format!("{path}.request"), &request.into(), &rule);
        }
        // An entry without a request uses the whole claim.
        let overlaps = |(other, part): &(&str, &str)| {
            *other == name && (request.is_empty() || part.is_empty())
        };
        if seen.iter().any(overlaps) {
            errors.duplicate(&*path, &name.into());
        } else if seen.contains(&(name, request)) {
            errors.duplicate(&*path, &format!("{name}/{request}").into());
        }
        seen.push((name, request));
        if !known.contains(&name) {
            let rule = "must be one of the names in pod.spec.resourceClaims";
            let rule = if known.is_empty() {
                format!("{rule} which is empty")
            } else {
                format!("{rule}: {}", known.join(", "))
            };
            errors.not_found_with_detail(path, &name.into(), &rule);
        }
    }
}
