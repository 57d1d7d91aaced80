//! Validation of what a pod status says about resources: the health of allocated resources, and the
//! claim of extended resources.

use std::collections::BTreeSet;

use crate::api_types::error::FieldErrors;
use schedlab_api::{
    Value,
    object::{list, text},
};

const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

pub(in crate::admission) fn check(pod: &Value, errors: &mut FieldErrors) {
    for (field, kind) in STATUSES {
        for (index, status) in list(pod, &["status", field]).iter().enumerate() {
            let containers = list(pod, &["spec", kind]);
            let container = containers.iter().find(|container| container["name"] == status["name"]);
            let path = format!("status.{field}[{index}].allocatedResourcesStatus");
            if let Some(container) = container {
                check_allocated(pod, container, status, &path, errors);
            }
        }
    }
    check_extended_resource_claim(pod, errors);
}

fn check_allocated(
    pod: &Value,
    container: &Value,
    status: &Value,
    path: &str,
    errors: &mut FieldErrors,
) {
    for (index, allocated) in list(status, &["allocatedResourcesStatus"]).iter().enumerate() {
        let name = text(allocated, &["name"]);
        let (is_known, rule) = match name.strip_prefix("claim:") {
            Some(claim) => (
                has_claim(pod, container, claim),
                "must match one of the container's resource claims as \
                 'claim:<claimName>/<requestName>' when container.resources.claims[*].request is \
                 set or 'claim:<claimName>' when it is empty",
            ),
            None => (
                !container["resources"]["requests"][name].is_null(),
                "must match one of the container's resource requests",
            ),
        };
        if !is_known {
            errors.invalid(format!("{path}[{index}].name"), &name.into(), rule);
        }
    }
}

/// Whether a container uses a claim `NAME` or `NAME/REQUEST`, or one for its extended resources.
fn has_claim(pod: &Value, container: &Value, claim: &str) -> bool {
    let extended = &pod["status"]["extendedResourceClaimStatus"];
    let (name, request) = claim.split_once('/').unwrap_or((claim, ""));
    let is_claim =
        |used: &Value| text(used, &["name"]) == name && text(used, &["request"]) == request;
    let is_mapping = |mapping: &Value| {
        mapping["containerName"] == container["name"] && text(mapping, &["requestName"]) == request
    };
    list(container, &["resources", "claims"]).iter().any(is_claim)
        || text(extended, &["resourceClaimName"]) == name
            && list(extended, &["requestMappings"]).iter().any(is_mapping)
}

fn check_extended_resource_claim(pod: &Value, errors: &mut FieldErrors) {
    let status = &pod["status"]["extendedResourceClaimStatus"];
    let path = "status.extendedResourceClaimStatus.requestMappings";
    if status.is_null() {
        return;
    }
    let mappings = list(status, &["requestMappings"]);
    if mappings.is_empty() {
        errors.required(path, "at least one request mapping is required");
    }
    let parts = ["initContainers", "containers"].map(|kind| list(pod, &["spec", kind]));
    let mut seen = BTreeSet::new();
    for (index, mapping) in mappings.iter().enumerate() {
        let [container, resource, request] =
            ["containerName", "resourceName", "requestName"].map(|field| text(mapping, &[field]));
        let mut containers = parts.iter().copied().flatten();
        match containers.find(|one| text(one, &["name"]) == container) {
            Some(found) if found["resources"]["requests"][resource].is_null() => {
                let rule = "must match the extended resource name of an entry in \
                            spec.initContainers.resources.requests or \
                            spec.containers.resources.requests";
                errors.invalid(format!("{path}[{index}].resourceName"), &resource.into(), rule);
            }
            Some(_) => {}
            None => {
                let rule = "must match the name of an entry in spec.initContainers.name or \
                            spec.containers.name";
                errors.invalid(format!("{path}[{index}].containerName"), &container.into(), rule);
            }
        }
        if !seen.insert((container, resource, request)) {
            for field in ["containerName", "resourceName", "requestName"] {
                errors.duplicate(format!("{path}[{index}].{field}"), &mapping[field]);
            }
        }
    }
    if text(status, &["resourceClaimName"]).is_empty() {
        errors.required("status.extendedResourceClaimStatus.resourceClaimName", "");
    }
}
