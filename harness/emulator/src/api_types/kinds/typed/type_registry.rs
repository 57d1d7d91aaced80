//! The registry of built-in types: the `k8s-openapi` type of each kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use schemars::{JsonSchema, SchemaGenerator};

use super::compiled_type::compile;
use super::{CompiledType, older_types};
use crate::api_types::kubernetes_version::KubernetesVersion;

/// Adds the schema of a type to the generator and returns its name.
type Describe = fn(&mut SchemaGenerator) -> String;

struct Entry {
    describe: Describe,
    compiled: BTreeMap<KubernetesVersion, OnceLock<Option<CompiledType>>>,
}

/// The entries are leaked, so that types are `'static` references.
static REGISTRY: LazyLock<HashMap<(&str, &str), &'static Entry>> = LazyLock::new(|| {
    let entry = |(group, kind, describe): (&'static str, &'static str, Describe)| {
        let entry: &'static Entry =
            Box::leak(Box::new(Entry { describe, compiled: not_compiled() }));
        ((group, kind), entry)
    };
    ENTRIES.iter().copied().map(entry).collect()
});

/// The type of the metadata of every kind.
pub(super) fn metadata() -> Option<&'static CompiledType> {
    static METADATA: LazyLock<Option<CompiledType>> = LazyLock::new(|| {
        compile_described(describe_type::<ObjectMeta>, KubernetesVersion::default())
    });
    METADATA.as_ref()
}

fn not_compiled() -> BTreeMap<KubernetesVersion, OnceLock<Option<CompiledType>>> {
    KubernetesVersion::ALL.into_iter().map(|version| (version, OnceLock::new())).collect()
}

/// The type of a built-in kind in a version of Kubernetes.
pub(super) fn compiled_type(
    version: KubernetesVersion,
    group: &str,
    kind: &str,
) -> Option<&'static CompiledType> {
    let entry: &'static Entry = REGISTRY.get(&(group, kind)).copied()?;
    let compiled = entry.compiled.get(&version)?;
    compiled.get_or_init(|| compile_described(entry.describe, version)).as_ref()
}

/// Adds the schema of a built-in kind to the generator and returns its name.
pub(super) fn describe(group: &str, kind: &str, generator: &mut SchemaGenerator) -> Option<String> {
    REGISTRY.get(&(group, kind)).map(|entry| (entry.describe)(generator))
}

fn compile_described(describe: Describe, version: KubernetesVersion) -> Option<CompiledType> {
    let mut generator = SchemaGenerator::default();
    let name = describe(&mut generator);
    let mut definitions = generator.take_definitions(true).into();
    older_types::to_version(version, &mut definitions);
    compile(&definitions, &name)
}

fn describe_type<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

const ENTRIES: &[(&str, &str, Describe)] = &[
    ("", "Binding", describe_type::<api::core::v1::Binding>),
    ("", "ConfigMap", describe_type::<api::core::v1::ConfigMap>),
    ("", "Endpoints", describe_type::<api::core::v1::Endpoints>),
    ("", "Event", describe_type::<api::core::v1::Event>),
    ("", "LimitRange", describe_type::<api::core::v1::LimitRange>),
    ("", "Namespace", describe_type::<api::core::v1::Namespace>),
    ("", "Node", describe_type::<api::core::v1::Node>),
    ("", "PersistentVolumeClaim", describe_type::<api::core::v1::PersistentVolumeClaim>),
    ("", "PersistentVolume", describe_type::<api::core::v1::PersistentVolume>),
    ("", "Pod", describe_type::<api::core::v1::Pod>),
    ("", "PodTemplate", describe_type::<api::core::v1::PodTemplate>),
    ("", "ReplicationController", describe_type::<api::core::v1::ReplicationController>),
    ("", "ResourceQuota", describe_type::<api::core::v1::ResourceQuota>),
    ("", "Secret", describe_type::<api::core::v1::Secret>),
    ("", "ServiceAccount", describe_type::<api::core::v1::ServiceAccount>),
    ("", "Service", describe_type::<api::core::v1::Service>),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        describe_type::<api::admissionregistration::v1::MutatingWebhookConfiguration>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        describe_type::<api::admissionregistration::v1::ValidatingAdmissionPolicy>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        describe_type::<api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        describe_type::<api::admissionregistration::v1::ValidatingWebhookConfiguration>,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", describe_type::<CustomResourceDefinition>),
    ("apps", "ControllerRevision", describe_type::<api::apps::v1::ControllerRevision>),
    ("apps", "DaemonSet", describe_type::<api::apps::v1::DaemonSet>),
    ("apps", "Deployment", describe_type::<api::apps::v1::Deployment>),
    ("apps", "ReplicaSet", describe_type::<api::apps::v1::ReplicaSet>),
    ("apps", "StatefulSet", describe_type::<api::apps::v1::StatefulSet>),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        describe_type::<api::autoscaling::v2::HorizontalPodAutoscaler>,
    ),
    ("autoscaling", "Scale", describe_type::<api::autoscaling::v1::Scale>),
    ("batch", "CronJob", describe_type::<api::batch::v1::CronJob>),
    ("batch", "Job", describe_type::<api::batch::v1::Job>),
    ("coordination.k8s.io", "Lease", describe_type::<api::coordination::v1::Lease>),
    ("discovery.k8s.io", "EndpointSlice", describe_type::<api::discovery::v1::EndpointSlice>),
    ("meta.k8s.io", "DeleteOptions", describe_type::<DeleteOptions>),
    ("networking.k8s.io", "IngressClass", describe_type::<api::networking::v1::IngressClass>),
    ("networking.k8s.io", "Ingress", describe_type::<api::networking::v1::Ingress>),
    ("networking.k8s.io", "NetworkPolicy", describe_type::<api::networking::v1::NetworkPolicy>),
    ("node.k8s.io", "RuntimeClass", describe_type::<api::node::v1::RuntimeClass>),
    ("policy", "Eviction", describe_type::<api::policy::v1::Eviction>),
    ("policy", "PodDisruptionBudget", describe_type::<api::policy::v1::PodDisruptionBudget>),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        describe_type::<api::rbac::v1::ClusterRoleBinding>,
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", describe_type::<api::rbac::v1::ClusterRole>),
    ("rbac.authorization.k8s.io", "RoleBinding", describe_type::<api::rbac::v1::RoleBinding>),
    ("rbac.authorization.k8s.io", "Role", describe_type::<api::rbac::v1::Role>),
    ("resource.k8s.io", "DeviceClass", describe_type::<api::resource::v1::DeviceClass>),
    ("resource.k8s.io", "DeviceTaintRule", describe_type::<api::resource::v1::DeviceTaintRule>),
    ("resource.k8s.io", "ResourceClaim", describe_type::<api::resource::v1::ResourceClaim>),
    (
        "resource.k8s.io",
        "ResourceClaimTemplate",
        describe_type::<api::resource::v1::ResourceClaimTemplate>,
    ),
    ("resource.k8s.io", "ResourceSlice", describe_type::<api::resource::v1::ResourceSlice>),
    (
        "scheduling.k8s.io",
        "CompositePodGroup",
        describe_type::<api::scheduling::v1alpha3::CompositePodGroup>,
    ),
    ("scheduling.k8s.io", "PodGroup", describe_type::<api::scheduling::v1beta1::PodGroup>),
    ("scheduling.k8s.io", "PriorityClass", describe_type::<api::scheduling::v1::PriorityClass>),
    ("scheduling.k8s.io", "Workload", describe_type::<api::scheduling::v1beta1::Workload>),
    ("storage.k8s.io", "CSIDriver", describe_type::<api::storage::v1::CSIDriver>),
    ("storage.k8s.io", "CSINode", describe_type::<api::storage::v1::CSINode>),
    ("storage.k8s.io", "CSIStorageCapacity", describe_type::<api::storage::v1::CSIStorageCapacity>),
    ("storage.k8s.io", "StorageClass", describe_type::<api::storage::v1::StorageClass>),
    ("storage.k8s.io", "VolumeAttachment", describe_type::<api::storage::v1::VolumeAttachment>),
];
