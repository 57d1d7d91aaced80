//! The built-in kinds, as the discovery API of the API server describes them.
//!
//! Left out: kinds without effect on scheduling (flow control, certificates, component statuses),
//! and versions other than the newest one.

use std::sync::Arc;

use super::{Generation, Kind, Origin, Path, Resource, Scale, Version};
use crate::api_types::feature_gates::FeatureGates;
use crate::api_types::kubernetes_version::KubernetesVersion;

/// The properties of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trait {
    Namespaced,
    Status,
    Generation,
    Scale,
    All,
    View,
    /// Served from this version on.
    Since(KubernetesVersion),
    /// Served when the feature gate is enabled.
    Gate(&'static str),
    /// Its objects have a generation when the feature gate is enabled.
    GenerationGate(&'static str),
}
use KubernetesVersion::V1_37;
use Trait::{
    All, Gate, Generation as Gen, GenerationGate as GenGate, Namespaced as Ns, Since, Status, View,
};

struct Row(&'static str, &'static str, &'static str, &'static [&'static str], &'static [Trait]);

/// Group and version, plural, kind, short names, traits.
const ROWS: &[Row] = &[
    Row("v1", "configmaps", "ConfigMap", &["cm"], &[Ns]),
    Row("v1", "endpoints", "Endpoints", &["ep"], &[Ns]),
    Row("v1", "events", "Event", &["ev"], &[Ns]),
    Row("v1", "limitranges", "LimitRange", &["limits"], &[Ns]),
    Row("v1", "namespaces", "Namespace", &["ns"], &[Status]),
    Row("v1", "nodes", "Node", &["no"], &[Status]),
    Row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", &["pvc"], &[Ns, Status]),
    Row("v1", "persistentvolumes", "PersistentVolume", &["pv"], &[Status]),
    Row("v1", "pods", "Pod", &["po"], &[Ns, Status, Gen, All]),
    Row("v1", "podtemplates", "PodTemplate", &[], &[Ns, Gen]),
    Row(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        &["rc"],
        &[Ns, Status, Gen, Trait::Scale, All],
    ),
    Row("v1", "resourcequotas", "ResourceQuota", &["quota"], &[Ns, Status]),
    Row("v1", "secrets", "Secret", &[], &[Ns]),
    Row("v1", "serviceaccounts", "ServiceAccount", &["sa"], &[Ns]),
    Row("v1", "services", "Service", &["svc"], &[Ns, Status, All]),
    Row(
        "admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        &[],
        &[Gen],
    ),
    Row(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        &[],
        &[Status, Gen],
    ),
    Row(
        "admissionregistration.k8s.io/v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        &[],
        &[Gen],
    ),
    Row(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &[],
        &[Gen],
    ),
    Row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        &[Status, Gen],
    ),
    Row("apps/v1", "controllerrevisions", "ControllerRevision", &[], &[Ns]),
    Row("apps/v1", "daemonsets", "DaemonSet", &["ds"], &[Ns, Status, Gen, All]),
    Row("apps/v1", "deployments", "Deployment", &["deploy"], &[Ns, Status, Gen, Trait::Scale, All]),
    Row("apps/v1", "replicasets", "ReplicaSet", &["rs"], &[Ns, Status, Gen, Trait::Scale, All]),
    Row("apps/v1", "statefulsets", "StatefulSet", &["sts"], &[Ns, Status, Gen, Trait::Scale, All]),
    Row(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        &["hpa"],
        &[Ns, Status, GenGate("HPAGeneration"), All],
    ),
    Row("batch/v1", "cronjobs", "CronJob", &["cj"], &[Ns, Status, Gen, All]),
    Row("batch/v1", "jobs", "Job", &[], &[Ns, Status, Gen, All]),
    Row("coordination.k8s.io/v1", "leases", "Lease", &[], &[Ns]),
    Row("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", &[], &[Ns, Gen]),
    Row("events.k8s.io/v1", "events", "Event", &["ev"], &[Ns, View]),
    Row("networking.k8s.io/v1", "ingressclasses", "IngressClass", &[], &[Gen]),
    Row("networking.k8s.io/v1", "ingresses", "Ingress", &["ing"], &[Ns, Status, Gen]),
    Row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", &["netpol"], &[Ns, Gen]),
    Row("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", &[], &[]),
    Row("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", &["pdb"], &[Ns, Status, Gen]),
    Row("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", &[], &[]),
    Row("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", &[], &[]),
    Row("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", &[], &[Ns]),
    Row("rbac.authorization.k8s.io/v1", "roles", "Role", &[], &[Ns]),
    Row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", &[], &[Gen]),
    Row(
        "resource.k8s.io/v1",
        "devicetaintrules",
        "DeviceTaintRule",
        &[],
        &[Status, Gen, Since(V1_37), Gate("DRADeviceTaintRules")],
    ),
    Row("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", &[], &[Ns, Status]),
    Row("resource.k8s.io/v1", "resourceclaimtemplates", "ResourceClaimTemplate", &[], &[Ns]),
    Row("resource.k8s.io/v1", "resourceslices", "ResourceSlice", &[], &[Gen]),
    Row(
        "scheduling.k8s.io/v1alpha3",
        "compositepodgroups",
        "CompositePodGroup",
        &[],
        &[Ns, Status, Since(V1_37), Gate("CompositePodGroup")],
    ),
    Row(
        "scheduling.k8s.io/v1beta1",
        "podgroups",
        "PodGroup",
        &[],
        &[Ns, Status, Since(V1_37), Gate("GenericWorkload")],
    ),
    Row(
        "scheduling.k8s.io/v1beta1",
        "workloads",
        "Workload",
        &[],
        &[Ns, Since(V1_37), Gate("GenericWorkload")],
    ),
    Row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", &["pc"], &[Gen]),
    Row("storage.k8s.io/v1", "csidrivers", "CSIDriver", &[], &[]),
    Row("storage.k8s.io/v1", "csinodes", "CSINode", &[], &[]),
    Row("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity", &[], &[Ns]),
    Row("storage.k8s.io/v1", "storageclasses", "StorageClass", &["sc"], &[]),
    Row("storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", &[], &[Status]),
];

/// The kinds that are served with the feature gates.
pub(super) fn built_in(gates: &FeatureGates) -> impl Iterator<Item = Kind> {
    let is_served = |row: &&Row| {
        row.4.iter().all(|condition| match condition {
            Since(version) => gates.version() >= *version,
            Gate(gate) => gates.is_enabled(gate),
            Ns | Status | Gen | GenGate(_) | Trait::Scale | All | View => true,
        })
    };
    ROWS.iter().filter(is_served).map(|row| kind(row, gates))
}

fn kind(row: &Row, gates: &FeatureGates) -> Kind {
    let Row(group_version, plural, kind, short_names, traits) = row;
    let has_generation = |condition: &Trait| match condition {
        Gen => true,
        GenGate(gate) => gates.is_enabled(gate),
        Ns | Status | Trait::Scale | All | View | Since(_) | Gate(_) => false,
    };
    let (group, newest) = group_version.split_once('/').unwrap_or(("", group_version));
    let has = |expected: Trait| traits.contains(&expected);
    let version = |name: &str| Version {
        name: name.into(),
        served: true,
        status: has(Status),
        scale: has(Trait::Scale).then(replicas),
        columns: Vec::new(),
        schema: None,
        selectable: Vec::new(),
    };
    let older = (group == "autoscaling").then(|| version("v1"));
    Kind {
        resource: Resource::new(group, plural),
        kind: Arc::from(*kind),
        list_kind: format!("{kind}List").into(),
        singular: kind.to_lowercase().into(),
        short_names: short_names.iter().map(|&name| Arc::from(name)).collect(),
        categories: if has(All) { vec![Arc::from("all")] } else { Vec::new() },
        namespaced: has(Ns),
        generation: if traits.iter().any(has_generation) {
            Generation::OnSpec
        } else {
            Generation::None
        },
        versions: std::iter::once(version(newest)).chain(older).collect(),
        storage: newest.into(),
        origin: if has(View) { Origin::View } else { Origin::BuiltIn },
        schema_revision: 0,
        kubernetes: gates.version(),
    }
}

fn replicas() -> Scale {
    let path = |fields: &[&str]| -> Path { fields.iter().map(|&field| Arc::from(field)).collect() };
    Scale {
        spec_replicas: path(&["spec", "replicas"]),
        status_replicas: path(&["status", "replicas"]),
        selector: Some(path(&["spec", "selector"])),
    }
}
