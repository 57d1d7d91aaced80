//! Defaults of the built-in kinds, as the API server fills them in.

pub(super) mod pod_template;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::webhook_configuration;
use crate::admission::core::service;
use crate::admission::defaults::pod_template::{list_items_mut, set_pod_spec_defaults};
use crate::api_types::kinds::Kind;
use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::{
    Value, json,
    object::{self, fill_count, fill_text, set_default},
};

/// Sets the initial status of kinds whose Go status type has fields without `omitempty`: these are
/// always written.
pub(super) fn set_initial_status(kind: &Kind, object: &mut Value) {
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

/// Sets the defaults of the fields that a client left out of an object of a built-in kind.
pub(super) fn set_defaults(kind: &Kind, object: &mut Value) {
    match (&*kind.resource.group, &*kind.kind) {
        ("", "Pod") => set_pod_defaults(kind.kubernetes, object),
        ("", "PodTemplate") => set_template_defaults(&mut object["template"]),
        ("", "Service") => set_service_defaults(&mut object["spec"]),
        ("", "Secret") => set_secret_defaults(object),
        ("", "LimitRange") => super::limit_range::set_limit_defaults(object),
        ("", "Endpoints") => list_items_mut(object, "subsets").for_each(set_protocol_defaults),
        ("discovery.k8s.io", "EndpointSlice") => set_slice_defaults(object),
        ("networking.k8s.io", "NetworkPolicy") => set_network_policy_defaults(&mut object["spec"]),
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
        ("apps", "Deployment") => set_deployment_defaults(object),
        ("apps", "ReplicaSet") => {
            set_default(object, &["spec", "replicas"], 1);
            set_template_defaults(&mut object["spec"]["template"]);
        }
        ("", "ReplicationController") => {
            set_default(object, &["spec", "replicas"], 1);
            set_template_defaults(&mut object["spec"]["template"]);
            let labels = object["spec"]["template"]["metadata"]["labels"].clone();
            if labels.is_object() {
                set_default(object, &["spec", "selector"], labels.clone());
                set_default(object, &["metadata", "labels"], labels);
            }
        }
        ("apps", "StatefulSet") => set_stateful_set_defaults(kind.kubernetes, object),
        ("apps", "DaemonSet") => set_daemon_set_defaults(object),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            crate::admission::autoscaling::set_autoscaler_defaults(object);
        }
        ("batch", "Job") => set_job_defaults(&mut object["spec"]),
        ("batch", "CronJob") => set_cron_job_defaults(object),
        ("resource.k8s.io", "ResourceClaim") => set_claim_defaults(&mut object["spec"]),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            set_default(object, &["spec", "metadata"], json!({}));
            set_claim_defaults(&mut object["spec"]["spec"]);
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            set_default(object, &["value"], 0);
            set_default(object, &["preemptionPolicy"], "PreemptLowerPriority");
        }
        ("scheduling.k8s.io", "PodGroup" | "CompositePodGroup") => {
            set_default(object, &["spec", "disruptionMode"], json!({"single": {}}));
        }
        _ if webhook_configuration::is_webhook_configuration(kind) => {
            webhook_configuration::set_webhook_defaults(kind, object);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            fill_text(object, &["spec", "failurePolicy"], "Fail");
            set_match_resources_defaults(&mut object["spec"]["matchConstraints"]);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            set_match_resources_defaults(&mut object["spec"]["matchResources"]);
        }
        ("storage.k8s.io", "CSIDriver") => {
            set_csi_driver_defaults(kind.kubernetes, &mut object["spec"]);
        }
        ("storage.k8s.io", "StorageClass") => {
            set_default(object, &["reclaimPolicy"], "Delete");
            set_default(object, &["volumeBindingMode"], "Immediate");
        }
        _ => {}
    }
}

/// Sets the defaults of `matchConstraints` or `matchResources` of an admission policy or its
/// binding.
fn set_match_resources_defaults(resources: &mut Value) {
    if !resources.is_object() {
        return;
    }
    fill_text(resources, &["matchPolicy"], "Equivalent");
    set_default(resources, &["namespaceSelector"], json!({}));
    set_default(resources, &["objectSelector"], json!({}));
    for field in ["resourceRules", "excludeResourceRules"] {
        list_items_mut(resources, field).for_each(|rule| fill_text(rule, &["scope"], "*"));
    }
}

/// Sets the defaults of a `CSIDriver`.
fn set_csi_driver_defaults(version: KubernetesVersion, spec: &mut Value) {
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

/// Sets the default mode of the device requests of a ResourceClaim: exactly one device.
fn set_claim_defaults(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in list_items_mut(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            set_device_count_default(exactly);
        }
        for alternative in list_items_mut(request, "firstAvailable") {
            set_device_count_default(alternative);
        }
    }
}

fn set_device_count_default(request: &mut Value) {
    for toleration in list_items_mut(request, "tolerations") {
        fill_text(toleration, &["operator"], "Equal");
    }
    fill_text(request, &["allocationMode"], "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill_count(request, "count", 1);
    } else if request["count"] == 0 {
        object::remove(request, &["count"]);
    }
}

/// Sets the type of a Secret, and moves its `stringData` into `data`, base64-encoded.
fn set_secret_defaults(secret: &mut Value) {
    fill_text(secret, &["type"], "Opaque");
    let texts = object::remove(secret, &["stringData"]);
    for (key, text) in texts.iter().filter_map(Value::as_object).flatten() {
        let text = text.as_str().unwrap_or_default();
        object::set(secret, &["data", key], STANDARD.encode(text).into());
    }
}

fn set_pod_defaults(version: KubernetesVersion, pod: &mut Value) {
    let spec = &mut pod["spec"];
    set_pod_spec_defaults(spec);
    set_default(spec, &["enableServiceLinks"], true);
    for field in ["containers", "initContainers"] {
        for container in list_items_mut(spec, field) {
            let limits = container["resources"].get("limits").and_then(Value::as_object).cloned();
            for (name, limit) in limits.into_iter().flatten() {
                set_default(container, &["resources", "requests", &name], limit);
            }
        }
    }
    if spec["hostNetwork"] == true {
        set_host_port_defaults(spec);
    }
    crate::admission::core::pod::pod_resources::set_pod_level_resources(version, pod);
}

/// Sets the host ports of a pod with `hostNetwork`: a missing host port is the container port.
fn set_host_port_defaults(spec: &mut Value) {
    for field in ["containers", "initContainers"] {
        for port in
            list_items_mut(spec, field).flat_map(|container| list_items_mut(container, "ports"))
        {
            let number = port["containerPort"].clone();
            set_default(port, &["hostPort"], number);
        }
    }
}

fn set_template_defaults(template: &mut Value) {
    if template.is_object() {
        set_default(template, &["metadata"], json!({}));
        set_pod_spec_defaults(&mut template["spec"]);
        crate::admission::core::pod::drop_empty_overhead(&mut template["spec"]);
    }
}

fn set_service_defaults(spec: &mut Value) {
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
    set_protocol_defaults(spec);
    for port in list_items_mut(spec, "ports") {
        let number = port["port"].clone();
        if port["targetPort"] == 0 {
            object::remove(port, &["targetPort"]);
        }
        set_default(port, &["targetPort"], number);
    }
}

/// Sets the default protocol of the `ports` of a container or service: TCP.
fn set_protocol_defaults(owner: &mut Value) {
    for port in list_items_mut(owner, "ports") {
        fill_text(port, &["protocol"], "TCP");
    }
}

fn set_slice_defaults(slice: &mut Value) {
    set_protocol_defaults(slice);
    for port in list_items_mut(slice, "ports") {
        set_default(port, &["name"], "");
    }
}

fn set_network_policy_defaults(spec: &mut Value) {
    for direction in ["ingress", "egress"] {
        for rule in list_items_mut(spec, direction) {
            set_protocol_defaults(rule);
        }
    }
    let types =
        if spec["egress"].is_array() { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
    set_default(spec, &["policyTypes"], types);
    set_default(spec, &["podSelector"], json!({}));
}

fn set_deployment_defaults(object: &mut Value) {
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
    set_template_defaults(&mut object["spec"]["template"]);
}

fn set_stateful_set_defaults(version: KubernetesVersion, object: &mut Value) {
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
    set_template_defaults(&mut object["spec"]["template"]);
    for claim in list_items_mut(&mut object["spec"], "volumeClaimTemplates") {
        fill_text(claim, &["apiVersion"], "v1");
        set_default(claim, &["kind"], "PersistentVolumeClaim");
        set_default(claim, &["spec", "volumeMode"], "Filesystem");
        fill_text(claim, &["status", "phase"], "Pending");
    }
}

fn set_daemon_set_defaults(object: &mut Value) {
    set_default(object, &["spec", "revisionHistoryLimit"], 10);
    fill_text(object, &["spec", "updateStrategy", "type"], "RollingUpdate");
    if object["spec"]["updateStrategy"]["type"] == "RollingUpdate" {
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxSurge"], 0);
        set_default(object, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], 1);
    }
    set_template_defaults(&mut object["spec"]["template"]);
}

fn set_job_defaults(spec: &mut Value) {
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
    for rule in policy.flat_map(|policy| list_items_mut(policy, "rules")) {
        for condition in list_items_mut(rule, "onPodConditions") {
            fill_text(condition, &["status"], "True");
        }
    }
    set_template_defaults(&mut spec["template"]);
}

fn set_cron_job_defaults(object: &mut Value) {
    fill_text(object, &["spec", "concurrencyPolicy"], "Allow");
    set_default(object, &["spec", "suspend"], false);
    set_default(object, &["spec", "successfulJobsHistoryLimit"], 3);
    set_default(object, &["spec", "failedJobsHistoryLimit"], 1);
    set_default(object, &["spec", "jobTemplate", "metadata"], json!({}));
    set_template_defaults(&mut object["spec"]["jobTemplate"]["spec"]["template"]);
}
