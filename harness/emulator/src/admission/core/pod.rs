//! Admission of pods: the mutating admission plugins of the API server, and the validation of pod
//! specs.

pub(in crate::admission) mod pod_resources;
mod qos_class;
pub(in crate::admission) mod resource_claims;
mod service_account;
pub(in crate::admission) mod status_resources;
pub(in crate::admission) mod subresources;
mod update;

use super::affinity::{check_placement, check_tolerations};
use super::container::{check_containers, security};
use crate::admission::checks::check_timing_annotations;
use crate::admission::{Admission, limit_ranger, scheduling};
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::kinds::metadata::{check_annotations, check_labels};
use crate::api_types::names;
use crate::api_types::resource::Resource;
use crate::store::Key;
use schedlab_api::{
    Map, Value, conditions, json,
    object::{self, list, map, text},
    taints,
};

/// The maximum number of DNS servers of a pod.
const NAMESERVERS_MAX: usize = 3;
const GATED_MESSAGE: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// Runs the mutating admission plugins on a new pod and sets its status.
pub(in crate::admission) fn complete(
    admission: &Admission<'_>,
    pod: &mut Value,
) -> Result<(), ApiError> {
    if !admission.kind.is("", "Pod") {
        return Ok(());
    }
    limit_ranger::fill(admission, pod);
    service_account::complete(admission, pod)?;
    add_default_tolerations(pod);
    scheduling::complete(admission, pod)?;
    add_overhead(admission, pod)?;
    let quality = qos_class::qos_class(&pod["spec"]);
    object::set(pod, &["status"], json!({"phase": "Pending", "qosClass": quality}));
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        let condition = json!({
            "type": conditions::POD_SCHEDULED,
            "status": "False",
            "reason": "SchedulingGated",
            "message": GATED_MESSAGE,
            "lastProbeTime": null,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        });
        object::set(pod, &["status", "conditions"], json!([condition]));
    }
    Ok(())
}

/// Sets the defaults that the API server sets again on every update: a manifest that is applied
/// again does not contain them.
pub(in crate::admission) fn complete_update(admission: &Admission<'_>, pod: &mut Value) {
    if admission.kind.is("", "Pod") {
        add_default_tolerations(pod);
        drop_empty_overhead(&mut pod["spec"]);
    }
}

/// Removes an empty overhead, which counts as none.
pub(in crate::admission) fn drop_empty_overhead(spec: &mut Value) {
    if map(spec, &["overhead"]).is_some_and(Map::is_empty) {
        object::remove(spec, &["overhead"]);
    }
}

/// Tolerates a not-ready or unreachable node for 300 seconds (`DefaultTolerationSeconds`), unless the
/// pod has such a toleration.
fn add_default_tolerations(pod: &mut Value) {
    let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
    for key in [taints::NOT_READY, taints::UNREACHABLE] {
        let is_tolerated = tolerations.iter().any(|toleration| {
            let (own, effect) = (text(toleration, &["key"]), text(toleration, &["effect"]));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !is_tolerated {
            tolerations.push(json!({
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }));
        }
    }
    object::set(pod, &["spec", "tolerations"], tolerations.into());
}

/// Sets the overhead, node selector and tolerations of the pod's runtime class.
fn add_overhead(admission: &Admission<'_>, pod: &mut Value) -> Result<(), ApiError> {
    let name = text(pod, &["spec", "runtimeClassName"]);
    if name.is_empty() {
        return Ok(());
    }
    let Some(class) = runtime_class(admission, pod) else {
        return Err(rejected(admission, &format!("RuntimeClass \"{name}\" not found")));
    };
    if let Some(overhead) = object::at(class, &["overhead", "podFixed"]) {
        let own = map(pod, &["spec", "overhead"]).filter(|own| !own.is_empty());
        if own.is_some() && pod["spec"]["overhead"] != *overhead {
            let why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead";
            return Err(rejected(admission, why));
        }
        object::set(pod, &["spec", "overhead"], overhead.clone());
    }
    for (key, value) in map(class, &["scheduling", "nodeSelector"]).into_iter().flatten() {
        object::set(pod, &["spec", "nodeSelector", key], value.clone());
    }
    let more = list(class, &["scheduling", "tolerations"]);
    if !more.is_empty() {
        let mut tolerations = list(pod, &["spec", "tolerations"]).to_vec();
        tolerations.extend(more.iter().cloned());
        object::set(pod, &["spec", "tolerations"], tolerations.into());
    }
    Ok(())
}

/// Rejects an overhead that no runtime class defines.
pub(in crate::admission) fn check_overhead(
    admission: &Admission<'_>,
    pod: &Value,
) -> Result<(), ApiError> {
    if !admission.kind.is("", "Pod") || pod["spec"]["overhead"].is_null() {
        return Ok(());
    }
    let class = runtime_class(admission, pod);
    if class.is_some_and(|class| object::at(class, &["overhead", "podFixed"]).is_some()) {
        return Ok(());
    }
    let why = "Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(rejected(admission, why))
}

fn runtime_class<'s>(admission: &Admission<'s>, pod: &Value) -> Option<&'s Value> {
    let classes = Resource::new("node.k8s.io", "runtimeclasses");
    let key = Key::new(classes, "", text(pod, &["spec", "runtimeClassName"]));
    admission.store.find(&key).map(|class| &**class)
}

fn rejected(admission: &Admission<'_>, why: &str) -> ApiError {
    let why = format!("pod rejected: {why}");
    ApiError::forbidden(&admission.key.resource, &admission.key.name, &why)
}

/// Keeps the `QoS` class, which a status update cannot change.
pub(in crate::admission) fn complete_status(
    admission: &Admission<'_>,
    old: &Value,
    new: &mut Value,
) {
    if !admission.kind.is("", "Pod") {
        return;
    }
    if let Some(quality) = object::at(old, &["status", "qosClass"]) {
        object::set(new, &["status", "qosClass"], quality.clone());
    }
}

pub(in crate::admission) fn check(old: Option<&Value>, new: &Value, errors: &mut FieldErrors) {
    check_timing_annotations(old, new, "metadata.annotations", errors);
    check_spec(&new["spec"], "spec", errors);
    if old.is_none() && !list(new, &["spec", "ephemeralContainers"]).is_empty() {
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if let Some(old) = old {
        update::check(&old["spec"], &new["spec"], errors);
    }
}

/// Checks labels and annotations of the pod template at `field`.
pub(in crate::admission) fn check_template_metadata(
    template: &Value,
    field: &str,
    errors: &mut FieldErrors,
) {
    check_labels(template, &format!("{field}.labels"), errors);
    check_annotations(template, &format!("{field}.annotations"), errors);
}

/// Checks the pod spec at `field`: of a pod or of a pod template.
pub(in crate::admission) fn check_spec(spec: &Value, field: &str, errors: &mut FieldErrors) {
    check_containers(spec, field, errors);
    let choices: [(&str, &[&str]); 3] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
        ("preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ];
    for (name, allowed) in choices {
        let value = text(spec, &[name]);
        if !value.is_empty() && !allowed.contains(&value) {
            errors.unsupported(format!("{field}.{name}"), &value.into(), allowed);
        }
    }
    security::check_pod(spec, field, errors);
    check_placement(spec, field, errors);
    check_names(spec, field, errors);
    let deadline = object::number(spec, &["activeDeadlineSeconds"]);
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        let rule = "must be between 1 and 2147483647, inclusive";
        errors.invalid(format!("{field}.activeDeadlineSeconds"), &seconds.into(), rule);
    }
    check_tolerations(spec, field, errors);
    check_host_fields(spec, field, errors);
    check_scheduling_group(spec, field, errors);
}

fn check_scheduling_group(spec: &Value, field: &str, errors: &mut FieldErrors) {
    let group = &spec["schedulingGroup"];
    if group.is_null() {
        return;
    }
    let path = format!("{field}.schedulingGroup.podGroupName");
    match group["podGroupName"].as_str() {
        None => errors.invalid(path, &Value::Null, "must specify one of: `podGroupName`"),
        Some(name) => {
            if let Some(rule) = names::dns_subdomain_violation(name) {
                errors.invalid(path, &name.into(), &rule);
            }
        }
    }
}

/// Checks object names and DNS settings in a pod spec.
fn check_names(spec: &Value, field: &str, errors: &mut FieldErrors) {
    type Rule = fn(&str) -> Option<String>;
    let rules: [(&str, Rule); 5] = [
        ("nodeName", names::dns_subdomain_violation),
        ("serviceAccountName", names::dns_subdomain_violation),
        ("hostname", names::dns_label_violation),
        ("subdomain", names::dns_label_violation),
        ("priorityClassName", names::dns_subdomain_violation),
    ];
    for (name, rule) in rules {
        let value = text(spec, &[name]);
        if !value.is_empty()
            && let Some(rule) = rule(value)
        {
            errors.invalid(format!("{field}.{name}"), &value.into(), &rule);
        }
    }
    let servers = list(spec, &["dnsConfig", "nameservers"]);
    if spec["dnsPolicy"] == "None" && spec["dnsConfig"].is_null() {
        let rule = "must provide `dnsConfig` when `dnsPolicy` is None";
        errors.required(format!("{field}.dnsConfig"), rule);
    } else if spec["dnsPolicy"] == "None" && servers.is_empty() {
        let rule = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        errors.required(format!("{field}.dnsConfig.nameservers"), rule);
    }
    if servers.len() > NAMESERVERS_MAX {
        let rule = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(format!("{field}.dnsConfig.nameservers"), &servers.to_vec().into(), &rule);
    }
    for (index, address) in servers.iter().enumerate() {
        let address = address.as_str().unwrap_or_default();
        check_ip_address(address, &format!("{field}.dnsConfig.nameservers[{index}]"), errors);
    }
}

fn check_ip_address(address: &str, path: &str, errors: &mut FieldErrors) {
    if address.parse::<std::net::IpAddr>().is_err() {
        let rule = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid(path, &address.into(), rule);
    }
}

/// Checks host aliases, operating system and node name.
fn check_host_fields(spec: &Value, field: &str, errors: &mut FieldErrors) {
    for (index, alias) in list(spec, &["hostAliases"]).iter().enumerate() {
        let path = format!("{field}.hostAliases[{index}].ip");
        check_ip_address(text(alias, &["ip"]), &path, errors);
        for (number, host) in list(alias, &["hostnames"]).iter().enumerate() {
            if let Some(rule) = names::dns_subdomain_violation(host.as_str().unwrap_or_default()) {
                let path = format!("{field}.hostAliases[{index}].hostnames[{number}]");
                errors.invalid(path, host, &rule);
            }
        }
    }
    let system = text(spec, &["os", "name"]);
    if !system.is_empty() && !["linux", "windows"].contains(&system) {
        errors.unsupported(format!("{field}.os"), &system.into(), &["linux", "windows"]);
    }
    if !list(spec, &["schedulingGates"]).is_empty() && !text(spec, &["nodeName"]).is_empty() {
        let rule = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(format!("{field}.nodeName"), rule);
    }
}
