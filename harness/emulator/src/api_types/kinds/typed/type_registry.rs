//! The registry of built-in types: the `k8s-openapi` type of each kind.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, OnceLock};

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
use schemars::{JsonSchema, SchemaGenerator};

use super::compiled_type::compile_type;
use super::{CompiledType, older_types};
use crate::api_types::kubernetes_version::KubernetesVersion;

/// Adds the JSON schema of a type to the generator and returns the name of the schema.
type AddSchema = fn(&mut SchemaGenerator) -> String;

struct Entry {
    add_schema: AddSchema,
    compiled: BTreeMap<KubernetesVersion, OnceLock<Option<CompiledType>>>,
}

/// The built-in types by group and kind. The entries are leaked, so that types are `'static`
/// references.
static REGISTRY: LazyLock<HashMap<(&str, &str), &'static Entry>> = LazyLock::new(|| {
    let entry = |(group, kind, add_schema): (&'static str, &'static str, AddSchema)| {
        let entry: &'static Entry =
            Box::leak(Box::new(Entry { add_schema, compiled: not_compiled() }));
        ((group, kind), entry)
    };
    ENTRIES.iter().copied().map(entry).collect()
});

/// The type of the metadata of every kind.
pub(super) fn metadata_type() -> Option<&'static CompiledType> {
    static METADATA: LazyLock<Option<CompiledType>> = LazyLock::new(|| {
        compile_type_from_schema(add_type_schema::<ObjectMeta>, KubernetesVersion::default())
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
    compiled.get_or_init(|| compile_type_from_schema(entry.add_schema, version)).as_ref()
}

/// Adds the JSON schema of a built-in kind to the generator and returns the name of the schema.
pub(super) fn add_kind_schema(
    group: &str,
    kind: &str,
    generator: &mut SchemaGenerator,
) -> Option<String> {
    REGISTRY.get(&(group, kind)).map(|entry| (entry.add_schema)(generator))
}

fn compile_type_from_schema(
    add_schema: AddSchema,
    version: KubernetesVersion,
) -> Option<CompiledType> {
    let mut generator = SchemaGenerator::default();
    let name = add_schema(&mut generator);
    let mut definitions = generator.take_definitions(true).into();
    older_types::to_version(version, &mut definitions);
    compile_type(&definitions, &name)
}

fn add_type_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

const ENTRIES: &[(&str, &str, AddSchema)] = &[
    ("", "Binding", add_type_schema::<api::core::v1::Binding>),
    ("", "ConfigMap", add_type_schema::<api::core::v1::ConfigMap>),
    ("", "Endpoints", add_type_schema::<api::core::v1::Endpoints>),
    ("", "Event", add_type_schema::<api::core::v1::Event>),
    ("", "LimitRange", add_type_schema::<api::core::v1::LimitRange>),
    ("", "Namespace", add_type_schema::<api::core::v1::Namespace>),
    ("", "Node", add_type_schema::<api::core::v1::Node>),
    ("", "PersistentVolumeClaim", add_type_schema::<api::core::v1::PersistentVolumeClaim>),
    ("", "PersistentVolume", add_type_schema::<api::core::v1::PersistentVolume>),
    ("", "Pod", add_type_schema::<api::core::v1::Pod>),
    ("", "PodTemplate", add_type_schema::<api::core::v1::PodTemplate>),
    ("", "ReplicationController", add_type_schema::<api::core::v1::ReplicationController>),
    ("", "ResourceQuota", add_type_schema::<api::core::v1::ResourceQuota>),
    ("", "Secret", add_type_schema::<api::core::v1::Secret>),
    ("", "ServiceAccount", add_type_schema::<api::core::v1::ServiceAccount>),
    ("", "Service", add_type_schema::<api::core::v1::Service>),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        add_type_schema::<api::admissionregistration::v1::MutatingWebhookConfiguration>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        add_type_schema::<api::admissionregistration::v1::ValidatingAdmissionPolicy>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        add_type_schema::<api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        add_type_schema::<api::admissionregistration::v1::ValidatingWebhookConfiguration>,
    ),
    (
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        add_type_schema::<CustomResourceDefinition>,
    ),
    ("apps", "ControllerRevision", add_type_schema::<api::apps::v1::ControllerRevision>),
    ("apps", "DaemonSet", add_type_schema::<api::apps::v1::DaemonSet>),
    ("apps", "Deployment", add_type_schema::<api::apps::v1::Deployment>),
    ("apps", "ReplicaSet", add_type_schema::<api::apps::v1::ReplicaSet>),
    ("apps", "StatefulSet", add_type_schema::<api::apps::v1::StatefulSet>),
    (
        "autoscaling",
        "HorizontalPodAutoscaler",
        add_type_schema::<api::autoscaling::v2::HorizontalPodAutoscaler>,
    ),
    ("autoscaling", "Scale", add_type_schema::<api::autoscaling::v1::Scale>),
    ("batch", "CronJob", add_type_schema::<api::batch::v1::CronJob>),
    ("batch", "Job", add_type_schema::<api::batch::v1::Job>),
    ("coordination.k8s.io", "Lease", add_type_schema::<api::coordination::v1::Lease>),
    ("discovery.k8s.io", "EndpointSlice", add_type_schema::<api::discovery::v1::EndpointSlice>),
    ("meta.k8s.io", "DeleteOptions", add_type_schema::<DeleteOptions>),
    ("networking.k8s.io", "IngressClass", add_type_schema::<api::networking::v1::IngressClass>),
    ("networking.k8s.io", "Ingress", add_type_schema::<api::networking::v1::Ingress>),
    ("networking.k8s.io", "NetworkPolicy", add_type_schema::<api::networking::v1::NetworkPolicy>),
    ("node.k8s.io", "RuntimeClass", add_type_schema::<api::node::v1::RuntimeClass>),
    ("policy", "Eviction", add_type_schema::<api::policy::v1::Eviction>),
    ("policy", "PodDisruptionBudget", add_type_schema::<api::policy::v1::PodDisruptionBudget>),
    (
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        add_type_schema::<api::rbac::v1::ClusterRoleBinding>,
    ),
    ("rbac.authorization.k8s.io", "ClusterRole", add_type_schema::<api::rbac::v1::ClusterRole>),
    ("rbac.authorization.k8s.io", "RoleBinding", add_type_schema::<api::rbac::v1::RoleBinding>),
    ("rbac.authorization.k8s.io", "Role", add_type_schema::<api::rbac::v1::Role>),
    ("resource.k8s.io", "DeviceClass", add_type_schema::<api::resource::v1::DeviceClass>),
    ("resource.k8s.io", "DeviceTaintRule", add_type_schema::<api::resource::v1::DeviceTaintRule>),
    ("resource.k8s.io", "ResourceClaim", add_type_schema::<api::resource::v1::ResourceClaim>),
    (
        "resource.k8s.io",
        "ResourceClaimTemplate",
        add_type_schema::<api::resource::v1::ResourceClaimTemplate>,
    ),
    ("resource.k8s.io", "ResourceSlice", add_type_schema::<api::resource::v1::ResourceSlice>),
    (
        "scheduling.k8s.io",
        "CompositePodGroup",
        add_type_schema::<api::scheduling::v1alpha3::CompositePodGroup>,
    ),
    ("scheduling.k8s.io", "PodGroup", add_type_schema::<api::scheduling::v1beta1::PodGroup>),
    ("scheduling.k8s.io", "PriorityClass", add_type_schema::<api::scheduling::v1::PriorityClass>),
    ("scheduling.k8s.io", "Workload", add_type_schema::<api::scheduling::v1beta1::Workload>),
    ("storage.k8s.io", "CSIDriver", add_type_schema::<api::storage::v1::CSIDriver>),
    ("storage.k8s.io", "CSINode", add_type_schema::<api::storage::v1::CSINode>),
    (
        "storage.k8s.io",
        "CSIStorageCapacity",
        add_type_schema::<api::storage::v1::CSIStorageCapacity>,
    ),
    ("storage.k8s.io", "StorageClass", add_type_schema::<api::storage::v1::StorageClass>),
    ("storage.k8s.io", "VolumeAttachment", add_type_schema::<api::storage::v1::VolumeAttachment>),
];
