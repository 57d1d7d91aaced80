//! Fields of feature gates that are off in Kubernetes 1.35. Like the API server, a write drops them
//! silently, unless the old object uses the feature already.

use super::Admission;
use schedlab_api::{Map, Value, object};

/// A feature gate, and the fields that it guards below a part of an object. `*` stands for every
/// item of a list or of a map.
struct Feature(&'static str, &'static [&'static str]);

const POD_SPEC: &[Feature] = &[
    Feature("GenericWorkload", &["schedulingGroup"]),
    Feature(
        "ContainerStopSignals",
        &[
            "containers.*.lifecycle.stopSignal",
            "initContainers.*.lifecycle.stopSignal",
            "ephemeralContainers.*.lifecycle.stopSignal",
        ],
    ),
    Feature("ClusterTrustBundleProjection", &["volumes.*.projected.sources.*.clusterTrustBundle"]),
    Feature("PodCertificateRequest", &["volumes.*.projected.sources.*.podCertificate"]),
];

const POD_STATUS: &[Feature] = &[
    Feature("DRAExtendedResource", &["extendedResourceClaimStatus"]),
    Feature("InPlacePodLevelResourcesVerticalScaling", &["resources", "allocatedResources"]),
    Feature(
        "ResourceHealthStatus",
        &[
            "containerStatuses.*.allocatedResourcesStatus",
            "initContainerStatuses.*.allocatedResourcesStatus",
            "ephemeralContainerStatuses.*.allocatedResourcesStatus",
        ],
    ),
];

const JOB_SPEC: &[Feature] = &[Feature("WorkloadWithJob", &["scheduling"])];

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

const STATEFUL_SET_SPEC: &[Feature] =
    &[Feature("MaxUnavailableStatefulSet", &["updateStrategy.rollingUpdate.maxUnavailable"])];

const LEASE_SPEC: &[Feature] =
    &[Feature("CoordinatedLeaderElection", &["strategy", "preferredHolder"])];

const CLASS_SPEC: &[Feature] = &[Feature("DRAExtendedResource", &["extendedResourceName"])];

const SLICE_SPEC: &[Feature] = &[
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
];

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
        ("batch", "Job") => &[(&["spec", "template", "spec"], POD_SPEC), (&["spec"], JOB_SPEC)],
        ("apps", "StatefulSet") => {
            &[(&["spec", "template", "spec"], POD_SPEC), (&["spec"], STATEFUL_SET_SPEC)]
        }
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
                || admission.store.is_enabled(gate)
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
