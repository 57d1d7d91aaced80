//! Validation and defaults of kinds with few rules (`PodDisruptionBudget`, Lease, `RuntimeClass`),
//! and the choice of the module for the other small kinds.

pub(super) mod affinity;
pub(super) mod config_map_and_secret;
pub(super) mod container;
pub(super) mod event;
pub(super) mod namespace;
pub(super) mod node;
pub(super) mod pod;
pub(super) mod ports;
pub(super) mod resource_quota;
pub(super) mod service;
pub(super) mod volume;
pub(super) mod volume_expansion;
pub(super) mod volume_source;

use super::{Admission, limit_range, selector};
use crate::admission::scheduling;
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::Kind;
use crate::api_types::names;
use schedlab_api::{
    Value, json,
    object::{self, number, text},
};

/// Sets the server-owned fields of a new object.
pub(super) fn set_server_fields(
    admission: &Admission<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    match (&*admission.kind.resource.group, &*admission.kind.kind) {
        ("", "Service") => assign_cluster_ip(admission, object),
        ("", "PersistentVolumeClaim") => volume::set_new_claim_fields(admission, object),
        ("", "PersistentVolume") => volume::set_new_volume_fields(object),
        ("scheduling.k8s.io", "PriorityClass") => {
            scheduling::check_single_default_class(admission, object)?;
        }
        ("scheduling.k8s.io", _) => scheduling::pod_group::set_server_fields(admission, object)?,
        _ => {}
    }
    Ok(())
}

/// Sets the first free cluster IP, counting up from 10.96.0.0.
fn assign_cluster_ip(admission: &Admission<'_>, service: &mut Value) {
    let spec = &service["spec"];
    if spec["type"] != "ExternalName" && text(spec, &["clusterIP"]).is_empty() {
        let taken = |address: &str| {
            let mut services = admission.store.list(&admission.key.resource, None);
            services.any(|other| text(other, &["spec", "clusterIP"]) == address)
        };
        let count = admission.store.count(&admission.key.resource);
        let address = (count + 1..65_536)
            .map(|number| format!("10.96.{}.{}", number / 256, number % 256))
            .find(|address| !taken(address));
        if let Some(address) = address {
            object::set(service, &["spec", "clusterIP"], address.into());
        }
    }
    let address = service["spec"]["clusterIP"].clone();
    if !address.is_null() {
        object::set_default(service, &["spec", "clusterIPs"], json!([address]));
    }
    object::set(service, &["status"], json!({"loadBalancer": {}}));
}

pub(super) fn check_core_object(
    kind: &Kind,
    old: Option<&Value>,
    new: &Value,
    errors: &mut FieldErrors,
) {
    match (&*kind.resource.group, &*kind.kind) {
        ("", "ConfigMap" | "Secret") => {
            config_map_and_secret::check_config_map_or_secret(kind, old, new, errors);
        }
        ("", "PodTemplate") => {
            pod::check_template_metadata(&new["template"], "template", errors);
            pod::check_spec(&new["template"]["spec"], "template.spec", errors);
        }
        ("rbac.authorization.k8s.io", _) => super::rbac::check_role_or_binding(kind, new, errors),
        ("node.k8s.io", "RuntimeClass") => check_runtime_class(new, errors),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            crate::admission::autoscaling::check_autoscaler(new, errors);
        }
        ("", "ResourceQuota") => resource_quota::check_quota(old, new, errors),
        ("coordination.k8s.io", "Lease") => check_lease(new, errors),
        ("", "Service") => service::check_service(old, new, errors),
        ("", "LimitRange") => limit_range::check_limit_range(new, errors),
        ("", "PersistentVolumeClaim") => {
            volume::check_claim_spec(&new["spec"], "spec", errors);
            if let Some(old) = old {
                volume::check_claim_update(old, new, errors);
            }
        }
        ("", "PersistentVolume") => volume::check_volume(new, errors),
        ("storage.k8s.io", "StorageClass") => volume::check_storage_class(new, errors),
        ("storage.k8s.io", _) => crate::admission::storage::check_storage_object(kind, new, errors),
        ("policy", "PodDisruptionBudget") => check_disruption_budget(new, errors),
        _ => {}
    }
}

fn check_lease(lease: &Value, errors: &mut FieldErrors) {
    for (field, lowest, rule) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if let Some(value) = number(lease, &["spec", field]).filter(|value| *value < lowest) {
            errors.invalid(format!("spec.{field}"), &value.into(), rule);
        }
    }
}

fn check_runtime_class(class: &Value, errors: &mut FieldErrors) {
    let handler = text(class, &["handler"]);
    if handler.is_empty() {
        errors.required("handler", "");
    } else if let Some(rule) = names::dns_label_violation(handler) {
        errors.invalid("handler", &handler.into(), &rule);
    }
    let overhead = json!({"limits": class["overhead"]["podFixed"]});
    container::check_resources(&overhead, "overhead", errors);
    affinity::check_tolerations(&class["scheduling"], "scheduling", errors);
}

fn check_disruption_budget(budget: &Value, errors: &mut FieldErrors) {
    let spec = &budget["spec"];
    selector::check_label_selector(&spec["selector"], "spec.selector", errors);
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let selector = &spec["selector"];
        let (least, most) = (&spec["minAvailable"], &spec["maxUnavailable"]);
        let policy = &spec["unhealthyPodEvictionPolicy"];
        let shown = format!(
            "{{\"MinAvailable\":{least},\"Selector\":{selector},\"MaxUnavailable\":{most},\
             \"UnhealthyPodEvictionPolicy\":{policy}}}"
        );
        let rule = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid_as_shown("spec", &shown, rule);
    }
    let policy = text(spec, &["unhealthyPodEvictionPolicy"]);
    let allowed = ["AlwaysAllow", "IfHealthyBudget"];
    if !policy.is_empty() && !allowed.contains(&policy) {
        errors.unsupported("spec.unhealthyPodEvictionPolicy", &policy.into(), &allowed);
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = format!("spec.{field}");
        let value = &spec[field];
        if let Some(count) = value.as_i64().filter(|count| *count < 0) {
            errors.invalid(path, &count.into(), "must be greater than or equal to 0");
        } else if let Some(text) = value.as_str() {
            let percent = text.strip_suffix('%').and_then(|number| number.parse::<u32>().ok());
            if percent.is_some_and(|percent| percent > 100) {
                errors.invalid(path, value, "must not be greater than 100%");
            } else if percent.is_none() {
                let rule = "a valid percent string must be a numeric string followed by an ending \
                            '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                errors.invalid(path, value, rule);
            }
        }
    }
}
