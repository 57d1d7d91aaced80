//! Defaults of the built-in kinds, as the API server fills them in.

pub(super) mod pod_template;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::webhook_configuration;
use crate::admission::core::service;
use crate::admission::defaults::pod_template::{fill_spec, items_mut};
use crate::api_types::kinds::Kind;
use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::{
    Value, json,
    object::{self, fill_count, fill_text, set_default},
};

/// The initial status of kinds whose status in Go has fields without `omitempty`.
pub(super) fn fill_status(kind: &Kind, object: &mut Value) {
    let status = match (&*kind.resource.group, &*kind.kind) {
        ("apps", "Deployment")
        | ("batch", "Job" | "CronJob")
        | ("", "ResourceQuota")
        | ("resource.k8s.io", "ResourceClaim" | "DeviceTaintRule")
        | ("scheduling.k8s.io", "PodGroup" | "CompositePodGroup")
        | ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => json!({}),
        ("networking.k8s.io", "Ingress") => json!({"loadBalancer": {}}),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => json!({"replicas": 0}),
        ("apps", "StatefulSet") => json!({"availableReplicas": 0, "replicas": 0}),
        ("apps", "DaemonSet") => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0,
            "numberMisscheduled": 0, "numberReady": 0,
        }),
        ("autoscaling", "HorizontalPodAutoscaler") => json!({"desiredReplicas": 0}),
        ("policy", "PodDisruptionBudget") => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        _ => return,
    };
    set_default(object, &["status"], status);
}

/// Sets the defaults of fields that the client left out.
pub(super) fn fill(kind: &Kind, object: &mut Value) {
    match (&*kind.resource.group, &*kind.kind) {
        ("", "Pod") => fill_pod(kind.kubernetes, object),
        ("", "PodTemplate") => fill_template(&mut object["template"]),
        ("", "Service") => fill_service(&mut object["spec"]),
        ("", "Secret") => fill_secret(object),
        ("", "LimitRange") => super::limit_range::fill(object),
        ("", "Endpoints") => items_mut(object, "subsets").for_each(fill_protocols),
        ("discovery.k8s.io", "EndpointSlice") => fill_slice(object),
        ("networking.k8s.io", "NetworkPolicy") => fill_network_policy(&mut object["spec"]),
        ("", "PersistentVolumeClaim") => {
            set_default(object, &["spec", "volumeMode"], "Filesystem");
            fill_text(object, &["status", "phase"], "Pending");
        }
        ("", "PersistentVolume") => {
            fill_text(object, &["spec", "persistentVolumeReclaimPolicy"], "Retain");
            if object["spec"]["hostPath"].is_object() {
                set_default(object, &["spec", "hostPath", "type"], "");
            }
            set_default(object, &["spec", "volumeMode"], "Filesystem");
            fill_text(object, &["status", "phase"], "Pending");
        }
        ("apps", "Deployment") => fill_deployment(object),
        ("apps", "ReplicaSet") => {
            set_default(object, &["spec", "replicas"], 1);
            fill_template(&mut object["spec"]["template"]);
        }
        ("", "ReplicationController") => {
            set_default(object, &["spec", "replicas"], 1);
            fill_template(&mut object["spec"]["template"]);
            let labels = object["spec"]["template"]["metadata"]["labels"].clone();
            if labels.is_object() {
                set_default(object, &["spec", "selector"], labels.clone());
                set_default(object, &["metadata", "labels"], labels);
            }
        }
        ("apps", "StatefulSet") => fill_stateful_set(kind.kubernetes, object),
        ("apps", "DaemonSet") => fill_daemon_set(object),
        ("autoscaling", "HorizontalPodAutoscaler") => crate::admission::autoscaling::fill(object),
        ("batch", "Job") => fill_job(&mut object["spec"]),
        ("batch", "CronJob") => fill_cron_job(object),
        ("resource.k8s.io", "ResourceClaim") => fill_claim(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            set_default(object, &["spec", "metadata"], json!({}));
            fill_claim(&mut object["spec"]["spec"]);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            set_default(object, &["value"], 0);
            set_default(object, &["preemptionPolicy"], "PreemptLowerPriority");
        }
        ("scheduling.k8s.io", "PodGroup" | "CompositePodGroup") => {
            set_default(object, &["spec", "disruptionMode"], json!({"single": {}}));
        }
        _ if webhook_configuration::is_configuration(kind) => {
            webhook_configuration::fill(kind, object);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            fill_text(object, &["spec", "failurePolicy"], "Fail");
            fill_match_resources(&mut object["spec"]["matchConstraints"]);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            fill_match_resources(&mut object["spec"]["matchResources"]);
        }
        ("storage.k8s.io", "CSIDriver") => fill_driver(kind.kubernetes, &mut object["spec"]),
        ("storage.k8s.io", "StorageClass") => {
            set_default(object, &["reclaimPolicy"], "Delete");
            set_default(object, &["volumeBindingMode"], "Immediate");
        }
        _ => {}
    }
}

/// The resources to which an admission policy applies.
fn fill_match_resources(resources: &mut Value) {
    if !resources.is_object() {
        return;
    }
    fill_text(resources, &["matchPolicy"], "Equivalent");
    set_default(resources, &["namespaceSelector"], json!({}));
    set_default(resources, &["objectSelector"], json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        items_mut(resources, field).for_each(|rule| fill_text(rule, &["scope"], "*"));
    }
}

/// The capabilities of a storage driver.
fn fill_driver(version: KubernetesVersion, spec: &mut Value) {
    if version >= KubernetesVersion::V1_37 {
        set_default(spec, &["preventPodSchedulingIfMissing"], false);
    }
    set_default(spec, &["attachRequired"], true);
    set_default(spec, &["fsGroupPolicy"], "ReadWriteOnceWithFSType");
    set_default(spec, &["volumeLifecycleModes"], json!(["Persistent"]));
    for field in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
        set_default(spec, &[field], false);
    }
}

/// Device requests without a mode ask for exactly one device.
fn fill_claim(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            fill_device_count(exactly);
        }
        for alternative in items_mut(request, "firstAvailable") {
            fill_device_count(alternative);
        }
    }
}

fn fill_device_count(request: &mut Value) {
    for toleration in items_mut(request, "tolerations") {
        fill_text(toleration, &["operator"], "Equal");
    }
    fill_text(request, &["allocationMode"], "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill_count(request, "count", 1);
    } else if request["count"] == 0 {
        object::remove(request, &["count"]);
    }
}

/// `stringData` is moved into `data`, base64-encoded.
fn fill_secret(secret: &mut Value) {
    fill_text(secret, &["type"], "Opaque");
    let texts = object::remove(secret, &["stringData"]);
    for (key, text) in texts.iter().filter_map(Value::as_object).flatten() {
        let text = text.as_str().unwrap_or_default();
        object::set(secret, &["data", key], STANDARD.encode(text).into());
    }
}

fn fill_pod(version: KubernetesVersion, pod: &mut Value) {
    let spec = &mut pod["spec"];
    fill_spec(spec);
    set_default(spec, &["enableServiceLinks"], true);
    for field in ["containers", "initContainers"] {
        for container in items_mut(spec, field) {
            let limits = container["resources"].get("limits").and_then(Value::as_object).cloned();
            for (name, limit) in limits.into_iter().flatten() {
                set_default(container, &["resources", "requests", &name], limit);
            }
        }
    }
    if spec["hostNetwork"] == true {
        fill_host_ports(spec);
    }
    crate::admission::core::pod::pod_resources::fill(version, pod);
}

/// With `hostNetwork` the host port defaults to the container port.
fn fill_host_ports(spec: &mut Value) {
    for field in ["containers", "initContainers"] {
        for port in items_mut(spec, field).flat_map(|container| items_mut(container, "ports")) {
            let number = port["containerPort"].clone();
            set_default(port, &["hostPort"], number);
        }
    }
}

fn fill_template(template: &mut Value) {
    if template.is_object() {
        set_default(template, &["metadata"], json!({}));
        fill_spec(&mut template["spec"]);
        crate::admission::core::pod::drop_empty_overhead(&mut template["spec"]);
    }
}

fn fill_service(spec: &mut Value) {
    fill_text(spec, &["type"], "ClusterIP");
    fill_text(spec, &["sessionAffinity"], "None");
    if spec["type"] != "ExternalName" {
        set_default(spec, &["internalTrafficPolicy"], "Cluster");
        set_default(spec, &["ipFamilies"], json!(["IPv4"]));
        set_default(spec, &["ipFamilyPolicy"], "SingleStack");
    }
    if service::is_externally_reachable(spec) {
        fill_text(spec, &["externalTrafficPolicy"], "Cluster");
    }
    if spec["type"] == "LoadBalancer" {
        set_default(spec, &["allocateLoadBalancerNodePorts"], true);
    }
    fill_protocols(spec);
    for port in items_mut(spec, "ports") {
        let number = port["port"].clone();
        if port["targetPort"] == 0 {
            object::remove(port, &["targetPort"]);
        }
        set_default(port, &["targetPort"], number);
    }
}

/// The protocol of a port defaults to TCP.
fn fill_protocols(owner: &mut Value) {
    for port in items_mut(owner, "ports") {
        fill_text(port, &["protocol"], "TCP");
    }
}

fn fill_slice(slice: &mut Value) {
    fill_protocols(slice);
    for port in items_mut(slice, "ports") {
        set_default(port, &["name"], "");
    }
}

fn fill_network_policy(spec: &mut Value) {
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            fill_protocols(rule);
        }
    }
    let types =
        if spec["egress"].is_array() { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    set_default(spec, &["policyTypes"], types);
    set_default(spec, &["podSelector"], json!({}));
}

fn fill_deployment(object: &mut Value) {
    set_default(object, &["spec", "replicas"], 1);
    set_default(object, &["spec", "revisionHistoryLimit"], 10);
    set_default(object, &["spec", "progressDeadlineSeconds"], 600);
    fill_text(object, &["spec", "strategy", "type"], "RollingUpdate");
    if object["spec"]["strategy"]["type"] == "RollingUpdate" {
        let rolling = ["spec", "strategy", "rollingUpdate"];
        for field in ["maxSurge", "maxUnavailable"] {
            set_default(object, &[rolling[0], rolling[1], rolling[2], field], "25%");
        }
    }
    fill_template(&mut object["spec"]["template"]);
}

fn fill_stateful_set(version: KubernetesVersion, object: &mut Value) {
    set_default(object, &["spec", "replicas"], 1);
    fill_text(object, &["spec", "podManagementPolicy"], "OrderedReady");
    set_default(object, &["spec", "revisionHistoryLimit"], 10);
    fill_text(object, &["spec", "updateStrategy", "type"], "RollingUpdate");
    if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "partition"], 0);
        if version >= KubernetesVersion::V1_37 {
            set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
        }
    }
    for field in ["whenDeleted", "whenScaled"] {
        let path = ["spec", "persistentVolumeClaimRetentionPolicy", field];
        set_default(object, &path, "Retain");
    }
    fill_template(&mut object["spec"]["template"]);
    for claim in items_mut(&mut object["spec"], "volumeClaimTemplates") {
        fill_text(claim, &["apiVersion"], "v1");
        set_default(claim, &["kind"], "PersistentVolumeClaim");
        set_default(claim, &["spec", "volumeMode"], "Filesystem");
        fill_text(claim, &["status", "phase"], "Pending");
    }
}

fn fill_daemon_set(object: &mut Value) {
    set_default(object, &["spec", "revisionHistoryLimit"], 10);
    fill_text(object, &["spec", "updateStrategy", "type"], "RollingUpdate");
    if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxSurge"], 0);
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
    }
    fill_template(&mut object["spec"]["template"]);
}

fn fill_job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set_default(spec, &["completions"], 1);
    }
    set_default(spec, &["parallelism"], 1);
    let backoff = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
    set_default(spec, &["backoffLimit"], backoff);
    set_default(spec, &["completionMode"], "NonIndexed");
    set_default(spec, &["suspend"], false);
    set_default(spec, &["manualSelector"], false);
    let replace = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    set_default(spec, &["podReplacementPolicy"], replace);
    let policy = spec.get_mut("podFailurePolicy").into_iter();
    for rule in policy.flat_map(|policy| items_mut(policy, "rules")) {
        for condition in items_mut(rule, "onPodConditions") {
            fill_text(condition, &["status"], "True");
        }
    }
    fill_template(&mut spec["template"]);
}

fn fill_cron_job(object: &mut Value) {
    fill_text(object, &["spec", "concurrencyPolicy"], "Allow");
    set_default(object, &["spec", "suspend"], false);
    set_default(object, &["spec", "successfulJobsHistoryLimit"], 3);
    set_default(object, &["spec", "failedJobsHistoryLimit"], 1);
    set_default(object, &["spec", "jobTemplate", "metadata"], json!({}));
    fill_template(&mut object["spec"]["jobTemplate"]["spec"]["template"]);
}
