//! Fields of feature gates. Like the API server, a write drops the fields of disabled gates
//! silently, unless the old object uses the feature already.

use super::Admission;
use schedlab_api::{Map, Value, object};

/// A feature gate, and the fields that it guards below a part of an object. `*` stands for every
/// item of a list or of a map.
struct Feature(&'static str, &'static [&'static str]);

const POD_SPEC: &[Feature] = &[
    Feature("GenericWorkload", &["workloadRef", "schedulingGroup"]),
    Feature("EvictionRequestAPI", &["evictionResponders"]),
    Feature(
        "ContainerStopSignals",
        &[
            "containers.*.lifecycle.stopSignal",
            "initContainers.*.lifecycle.stopSignal",
            "ephemeralContainers.*.lifecycle.stopSignal",
        ],
    ),
    Feature(
        "H2CContainerProbe",
        &[
            "containers.*.livenessProbe.httpGet.protocol",
            "containers.*.readinessProbe.httpGet.protocol",
            "containers.*.startupProbe.httpGet.protocol",
            "containers.*.lifecycle.postStart.httpGet.protocol",
            "containers.*.lifecycle.preStop.httpGet.protocol",
            "initContainers.*.livenessProbe.httpGet.protocol",
            "initContainers.*.readinessProbe.httpGet.protocol",
            "initContainers.*.startupProbe.httpGet.protocol",
            "initContainers.*.lifecycle.postStart.httpGet.protocol",
            "initContainers.*.lifecycle.preStop.httpGet.protocol",
            "ephemeralContainers.*.livenessProbe.httpGet.protocol",
            "ephemeralContainers.*.readinessProbe.httpGet.protocol",
            "ephemeralContainers.*.startupProbe.httpGet.protocol",
            "ephemeralContainers.*.lifecycle.postStart.httpGet.protocol",
            "ephemeralContainers.*.lifecycle.preStop.httpGet.protocol",
        ],
    ),
    Feature(
        "GRPCContainerProbeTLS",
        &[
            "containers.*.livenessProbe.grpc.mode",
            "containers.*.readinessProbe.grpc.mode",
            "containers.*.startupProbe.grpc.mode",
            "initContainers.*.livenessProbe.grpc.mode",
            "initContainers.*.readinessProbe.grpc.mode",
            "initContainers.*.startupProbe.grpc.mode",
            "ephemeralContainers.*.livenessProbe.grpc.mode",
            "ephemeralContainers.*.readinessProbe.grpc.mode",
            "ephemeralContainers.*.startupProbe.grpc.mode",
        ],
    ),
    Feature(
        "VolumeBindMountOptions",
        &[
            "containers.*.volumeMounts.*.bindMountOptions",
            "initContainers.*.volumeMounts.*.bindMountOptions",
            "ephemeralContainers.*.volumeMounts.*.bindMountOptions",
        ],
    ),
    Feature("EmptyDirVolumeMode", &["volumes.*.emptyDir.mode"]),
    Feature("ClusterTrustBundleProjection", &["volumes.*.projected.sources.*.clusterTrustBundle"]),
    Feature("PodCertificateRequest", &["volumes.*.projected.sources.*.podCertificate"]),
    Feature(
        "AtomicWriteVolumeUserFields",
        &[
            "volumes.*.secret.defaultUser",
            "volumes.*.secret.items.*.user",
            "volumes.*.configMap.defaultUser",
            "volumes.*.configMap.items.*.user",
            "volumes.*.downwardAPI.defaultUser",
            "volumes.*.downwardAPI.items.*.user",
            "volumes.*.projected.defaultUser",
            "volumes.*.projected.sources.*.secret.items.*.user",
            "volumes.*.projected.sources.*.configMap.items.*.user",
            "volumes.*.projected.sources.*.downwardAPI.items.*.user",
            "volumes.*.projected.sources.*.serviceAccountToken.user",
            "volumes.*.projected.sources.*.clusterTrustBundle.user",
            "volumes.*.projected.sources.*.podCertificate.user",
        ],
    ),
];

const POD_STATUS: &[Feature] = &[
    Feature("DRAExtendedResource", &["extendedResourceClaimStatus"]),
    Feature("DRANodeAllocatableResources", &["nodeAllocatableResourceClaimStatuses"]),
    Feature("CSIVolumeHealth", &["volumeHealth"]),
    Feature("InPlacePodLevelResourcesVerticalScaling", &["resources", "allocatedResources"]),
    Feature(
        "ResourceHealthStatus",
        &[
            "containerStatuses.*.allocatedResourcesStatus",
            "initContainerStatuses.*.allocatedResourcesStatus",
            "ephemeralContainerStatuses.*.allocatedResourcesStatus",
        ],
    ),
    Feature(
        "ResourceHealthStatusMessage",
        &[
            "containerStatuses.*.allocatedResourcesStatus.*.resources.*.message",
            "initContainerStatuses.*.allocatedResourcesStatus.*.resources.*.message",
            "ephemeralContainerStatuses.*.allocatedResourcesStatus.*.resources.*.message",
        ],
    ),
    Feature(
        "ImageVolumeWithDigest",
        &[
            "containerStatuses.*.volumeMounts.*.volumeStatus",
            "initContainerStatuses.*.volumeMounts.*.volumeStatus",
            "ephemeralContainerStatuses.*.volumeMounts.*.volumeStatus",
        ],
    ),
];

const WORKLOAD_SPEC: &[Feature] = &[
    Feature("TopologyAwareWorkloadScheduling", &["podGroupTemplates.*.schedulingConstraints"]),
    Feature("DRAWorkloadResourceClaims", &["podGroupTemplates.*.resourceClaims"]),
    Feature(
        "PodGroupPreemptionPolicy",
        &[
            "podGroupTemplates.*.preemptionPolicy",
            "compositePodGroupTemplates.*.preemptionPolicy",
            "compositePodGroupTemplates.*.podGroupTemplates.*.preemptionPolicy",
        ],
    ),
    Feature("CompositePodGroup", &["compositePodGroupTemplates"]),
];

const POD_GROUP_SPEC: &[Feature] = &[
    Feature("TopologyAwareWorkloadScheduling", &["schedulingConstraints"]),
    Feature("DRAWorkloadResourceClaims", &["resourceClaims"]),
    Feature("PodGroupPreemptionPolicy", &["preemptionPolicy"]),
    Feature("CompositePodGroup", &["parentCompositePodGroupName"]),
];

const POD_GROUP_STATUS: &[Feature] =
    &[Feature("DRAWorkloadResourceClaims", &["resourceClaimStatuses"])];

const COMPOSITE_POD_GROUP_SPEC: &[Feature] =
    &[Feature("PodGroupPreemptionPolicy", &["preemptionPolicy"])];

const NODE_SPEC: &[Feature] =
    &[Feature("InPlacePodVerticalScalingSchedulerPreemption", &["podPreemptionPolicy"])];

const NODE_STATUS: &[Feature] = &[
    Feature("NodeDeclaredFeatures", &["declaredFeatures"]),
    Feature("KubeletInUserNamespace", &["nodeInfo.runningInUserNamespace"]),
];

const VOLUME_CLAIM_STATUS: &[Feature] = &[Feature("CSIVolumeHealth", &["healthStatus"])];

const STATEFUL_SET_SPEC: &[Feature] =
    &[Feature("MaxUnavailableStatefulSet", &["updateStrategy.rollingUpdate.maxUnavailable"])];

const JOB_SPEC: &[Feature] = &[Feature("WorkloadWithJob", &["scheduling"])];

const LEASE_SPEC: &[Feature] =
    &[Feature("CoordinatedLeaderElection", &["strategy", "preferredHolder"])];

const DRIVER_SPEC: &[Feature] =
    &[Feature("VolumeLimitScaling", &["preventPodSchedulingIfMissing"])];

const CSI_NODE_STATUS: &[Feature] = &[Feature("CSIVolumeHealth", &["storageHealth"])];

const CLASS_SPEC: &[Feature] = &[Feature("DRAExtendedResource", &["extendedResourceName"])];

const SLICE_SPEC: &[Feature] = &[
    Feature("DRAPartitionableDevicesType", &["partitionTypeAttribute"]),
    Feature("DRADeviceTaints", &["devices.*.taints"]),
    Feature(
        "DRAPartitionableDevices",
        &[
            "sharedCounters",
            "perDeviceNodeSelection",
            "devices.*.consumesCounters",
            "devices.*.nodeName",
            "devices.*.nodeSelector",
            "devices.*.allNodes",
        ],
    ),
    Feature(
        "DRADeviceBindingConditions",
        &[
            "devices.*.bindsToNode",
            "devices.*.bindingConditions",
            "devices.*.bindingFailureConditions",
        ],
    ),
    Feature(
        "DRAConsumableCapacity",
        &["devices.*.allowMultipleAllocations", "devices.*.capacity.*.requestPolicy"],
    ),
    Feature("DRADeviceCompatibilityGroups", &["devices.*.consumesCounters.*.compatibilityGroups"]),
    Feature("DRANodeAllocatableResources", &["devices.*.nodeAllocatableResources"]),
    Feature(
        "DRAListTypeAttributes",
        &[
            "devices.*.attributes.*.bools",
            "devices.*.attributes.*.ints",
            "devices.*.attributes.*.strings",
            "devices.*.attributes.*.versions",
        ],
    ),
    Feature("DRAOptionalNodeOperations", &["skipNodeOperations"]),
];

const CLAIM_SPEC: &[Feature] = &[
    Feature(
        "DRADeviceTaints",
        &[
            "devices.requests.*.exactly.tolerations",
            "devices.requests.*.firstAvailable.*.tolerations",
        ],
    ),
    Feature(
        "DRAConsumableCapacity",
        &[
            "devices.requests.*.exactly.capacity",
            "devices.requests.*.firstAvailable.*.capacity",
            "devices.constraints.*.distinctAttribute",
        ],
    ),
    Feature(
        "DRADerivedAttributes",
        &[
            "devices.requests.*.exactly.derivedAttributes",
            "devices.requests.*.firstAvailable.*.derivedAttributes",
        ],
    ),
];

const CLAIM_STATUS: &[Feature] = &[
    Feature(
        "DRADeviceBindingConditions",
        &[
            "allocation.devices.results.*.bindingConditions",
            "allocation.devices.results.*.bindingFailureConditions",
        ],
    ),
    Feature(
        "DRAConsumableCapacity",
        &[
            "allocation.devices.results.*.shareID",
            "allocation.devices.results.*.consumedCapacity",
            "devices.*.shareID",
        ],
    ),
    Feature("DRAOptionalNodeOperations", &["allocation.devices.results.*.skipNodeOperations"]),
];

const SCALER_SPEC: &[Feature] = &[Feature(
    "HPAConfigurableTolerance",
    &["behavior.scaleDown.tolerance", "behavior.scaleUp.tolerance"],
)];

/// The path of a part of an object, and the features that have fields there.
type Part = (&'static [&'static str], &'static [Feature]);

/// The parts of a kind that contain gated fields.
fn gated_parts(group: &str, kind: &str) -> &'static [Part] {
    match (group, kind) {
        ("", "Pod") => &[(&["spec"], POD_SPEC), (&["status"], POD_STATUS)],
        ("", "PodTemplate") => &[(&["template", "spec"], POD_SPEC)],
        ("", "ReplicationController") | ("apps", "DaemonSet" | "Deployment" | "ReplicaSet") => {
            &[(&["spec", "template", "spec"], POD_SPEC)]
        }
        ("", "Node") => &[(&["spec"], NODE_SPEC), (&["status"], NODE_STATUS)],
        ("", "PersistentVolumeClaim") => &[(&["status"], VOLUME_CLAIM_STATUS)],
        ("apps", "StatefulSet") => {
            &[(&["spec", "template", "spec"], POD_SPEC), (&["spec"], STATEFUL_SET_SPEC)]
        }
        ("autoscaling", "HorizontalPodAutoscaler") => &[(&["spec"], SCALER_SPEC)],
        ("batch", "Job") => &[(&["spec", "template", "spec"], POD_SPEC), (&["spec"], JOB_SPEC)],
        ("batch", "CronJob") => &[
            (&["spec", "jobTemplate", "spec", "template", "spec"], POD_SPEC),
            (&["spec", "jobTemplate", "spec"], JOB_SPEC),
        ],
        ("scheduling.k8s.io", "Workload") => &[(&["spec"], WORKLOAD_SPEC)],
        ("scheduling.k8s.io", "PodGroup") => {
            &[(&["spec"], POD_GROUP_SPEC), (&["status"], POD_GROUP_STATUS)]
        }
        ("scheduling.k8s.io", "CompositePodGroup") => &[(&["spec"], COMPOSITE_POD_GROUP_SPEC)],
        ("coordination.k8s.io", "Lease") => &[(&["spec"], LEASE_SPEC)],
        ("resource.k8s.io", "DeviceClass") => &[(&["spec"], CLASS_SPEC)],
        ("resource.k8s.io", "ResourceSlice") => &[(&["spec"], SLICE_SPEC)],
        ("resource.k8s.io", "ResourceClaim") => {
            &[(&["spec"], CLAIM_SPEC), (&["status"], CLAIM_STATUS)]
        }
        ("storage.k8s.io", "CSIDriver") => &[(&["spec"], DRIVER_SPEC)],
        ("storage.k8s.io", "CSINode") => &[(&["status"], CSI_NODE_STATUS)],
        ("resource.k8s.io", "ResourceClaimTemplate") => &[(&["spec", "spec"], CLAIM_SPEC)],
        _ => &[],
    }
}

/// Removes the fields of disabled features from a new state of an object.
pub(super) fn drop_disabled(admission: &Admission<'_>, old: Option<&Value>, new: &mut Value) {
    for (part_path, features) in gated_parts(&admission.kind.resource.group, &admission.kind.kind) {
        for Feature(gate, fields) in *features {
            let part = |object| object::at(object, part_path);
            let uses_feature = |part: &Value| fields.iter().any(|field| has_field(part, field));
            if !part(new).is_some_and(uses_feature)
                || old.and_then(part).is_some_and(uses_feature)
                || admission.store.feature_gates.is_enabled(gate)
            {
                continue;
            }
            let part = part_path.iter().try_fold(&mut *new, |value, field| value.get_mut(*field));
            let Some(part) = part else { continue };
            for field in *fields {
                remove_field(part, field);
            }
        }
    }
}

/// Whether the value has a field at `path`; `*` matches any item.
fn has_field(value: &Value, path: &str) -> bool {
    let Some((head, rest)) = path.split_once('.') else { return !value[path].is_null() };
    match (head, value) {
        ("*", Value::Array(items)) => items.iter().any(|item| has_field(item, rest)),
        ("*", Value::Object(items)) => items.iter().any(|(_, item)| has_field(item, rest)),
        ("*", _) => false,
        _ => value.get(head).is_some_and(|value| has_field(value, rest)),
    }
}

/// Removes every field that `path` matches, and maps that become empty by it.
fn remove_field(value: &mut Value, path: &str) {
    let Some((head, rest)) = path.split_once('.') else {
        object::remove(value, &[path]);
        return;
    };
    match (head, &mut *value) {
        ("*", Value::Array(items)) => items.iter_mut().for_each(|item| remove_field(item, rest)),
        ("*", Value::Object(items)) => items.values_mut().for_each(|item| remove_field(item, rest)),
        ("*", _) => {}
        _ => {
            let Some(inner) = value.get_mut(head) else { return };
            let was = inner.clone();
            remove_field(inner, rest);
            if *inner != was && inner.as_object().is_some_and(Map::is_empty) {
                object::remove(value, &[head]);
            }
        }
    }
}
