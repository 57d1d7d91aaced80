//! The types of older versions of Kubernetes, as differences from those of `k8s-openapi`.

use crate::api_types::kubernetes_version::KubernetesVersion;
use schedlab_api::{Map, json, object};

/// A type, and fields of it.
type Fields = (&'static str, &'static [&'static str]);

/// The fields that the types of 1.35 do not have.
const SINCE_1_36: &[Fields] = &[
    ("autoscaling.v1.HorizontalPodAutoscalerCondition", &["observedGeneration"]),
    ("autoscaling.v2.HorizontalPodAutoscalerCondition", &["observedGeneration"]),
    ("batch.v1.JobSpec", &["scheduling"]),
    ("core.v1.ClusterTrustBundleProjection", &["user"]),
    ("core.v1.ConfigMapVolumeSource", &["defaultUser"]),
    ("core.v1.DownwardAPIVolumeFile", &["user"]),
    ("core.v1.DownwardAPIVolumeSource", &["defaultUser"]),
    ("core.v1.EmptyDirVolumeSource", &["mode"]),
    ("core.v1.GRPCAction", &["mode"]),
    ("core.v1.HTTPGetAction", &["protocol"]),
    ("core.v1.KeyToPath", &["user"]),
    ("core.v1.NodeSpec", &["podPreemptionPolicy"]),
    ("core.v1.NodeSystemInfo", &["runningInUserNamespace"]),
    ("core.v1.PersistentVolumeClaimStatus", &["healthStatus"]),
    ("core.v1.PodCertificateProjection", &["user"]),
    ("core.v1.PodSpec", &["evictionResponders", "schedulingGroup"]),
    ("core.v1.PodStatus", &["nodeAllocatableResourceClaimStatuses", "volumeHealth"]),
    ("core.v1.ProjectedVolumeSource", &["defaultUser"]),
    ("core.v1.ResourceHealth", &["message"]),
    ("core.v1.SecretVolumeSource", &["defaultUser"]),
    ("core.v1.ServiceAccountTokenProjection", &["user"]),
    ("core.v1.VolumeMount", &["bindMountOptions"]),
    ("core.v1.VolumeMountStatus", &["volumeStatus"]),
    ("resource.v1.Device", &["nodeAllocatableResources"]),
    ("resource.v1.DeviceAttribute", &["bools", "ints", "strings", "versions"]),
    ("resource.v1.DeviceCounterConsumption", &["compatibilityGroups"]),
    ("resource.v1.DeviceRequestAllocationResult", &["skipNodeOperations"]),
    ("resource.v1.DeviceSubRequest", &["derivedAttributes"]),
    ("resource.v1.ExactDeviceRequest", &["derivedAttributes"]),
    ("resource.v1.ResourceSliceSpec", &["partitionTypeAttribute", "skipNodeOperations"]),
    ("storage.v1.CSIDriverSpec", &["preventPodSchedulingIfMissing"]),
    ("storage.v1.CSINode", &["status"]),
];

const PREFIX: &str = "io.k8s.api.";

/// Turns the JSON schemas of the newest types into those of a version.
pub(super) fn to_version(version: KubernetesVersion, definitions: &mut Map) {
    match version {
        KubernetesVersion::V1_35 => {
            for (name, fields) in SINCE_1_36 {
                let Some(definition) = definitions.get_mut(&format!("{PREFIX}{name}")) else {
                    continue;
                };
                for field in *fields {
                    object::remove(definition, &["properties", field]);
                }
            }
            add_workload_reference(definitions);
        }
        KubernetesVersion::V1_37 => {}
    }
}

/// Adds `spec.workloadRef` of pods, which only 1.35 has.
fn add_workload_reference(definitions: &mut Map) {
    let Some(pod_spec) = definitions.get_mut(&format!("{PREFIX}core.v1.PodSpec")) else { return };
    let name = format!("{PREFIX}core.v1.WorkloadReference");
    pod_spec["properties"]["workloadRef"] = json!({
        "description": "The Workload and the PodGroup of it that the pod belongs to.",
        "allOf": [{ "$ref": format!("#/$defs/{name}") }],
    });
    let text = json!({ "type": "string" });
    let reference = json!({
        "description": "A reference to a Workload.",
        "type": "object",
        "required": ["name", "podGroup"],
        "properties": { "name": text, "podGroup": text, "podGroupReplicaKey": text },
    });
    definitions.insert(name, reference);
}
