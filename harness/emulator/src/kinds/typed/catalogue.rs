//! Which Rust type describes which kind.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, SchemaGenerator};

use super::Types;
use super::form::compile;

/// Has the type behind a kind described, and names it.
type Describe = fn(&mut SchemaGenerator) -> String;

struct Entry {
    describe: Describe,
    built: OnceLock<Option<Types>>,
}

/// The entries live as long as the program, so that a type can be handed out without counting.
static CATALOGUE: LazyLock<HashMap<(&str, &str), &'static Entry>> = LazyLock::new(|| {
    let entry = |(group, kind, describe): (&'static str, &'static str, Describe)| {
        let entry: &'static Entry = Box::leak(Box::new(Entry { describe, built: OnceLock::new() }));
        ((group, kind), entry)
    };
    ENTRIES.iter().copied().map(entry).collect()
});

/// The type of the metadata of every kind.
pub(super) fn metadata() -> Option<&'static Types> {
    static METADATA: LazyLock<Option<Types>> = LazyLock::new(|| built(of::<ObjectMeta>));
    METADATA.as_ref()
}

/// The type of a built-in kind.
pub(super) fn types(group: &str, kind: &str) -> Option<&'static Types> {
    let entry: &'static Entry = CATALOGUE.get(&(group, kind)).copied()?;
    entry.built.get_or_init(|| built(entry.describe)).as_ref()
}

/// Has the type of a built-in kind described, and names it.
pub(super) fn describe(group: &str, kind: &str, generator: &mut SchemaGenerator) -> Option<String> {
    CATALOGUE.get(&(group, kind)).map(|entry| (entry.describe)(generator))
}

fn built(describe: Describe) -> Option<Types> {
    let mut generator = SchemaGenerator::default();
    let name = describe(&mut generator);
    compile(&generator.take_definitions(true).into(), &name)
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> String {
    generator.subschema_for::<T>();
    T::schema_name().into_owned()
}

const ENTRIES: &[(&str, &str, Describe)] = &[
    ("", "ConfigMap", of::<api::core::v1::ConfigMap>),
    ("", "Endpoints", of::<api::core::v1::Endpoints>),
    ("", "Event", of::<api::core::v1::Event>),
    ("", "LimitRange", of::<api::core::v1::LimitRange>),
    ("", "Namespace", of::<api::core::v1::Namespace>),
    ("", "Node", of::<api::core::v1::Node>),
    ("", "PersistentVolumeClaim", of::<api::core::v1::PersistentVolumeClaim>),
    ("", "PersistentVolume", of::<api::core::v1::PersistentVolume>),
    ("", "Pod", of::<api::core::v1::Pod>),
    ("", "PodTemplate", of::<api::core::v1::PodTemplate>),
    ("", "ReplicationController", of::<api::core::v1::ReplicationController>),
    ("", "ResourceQuota", of::<api::core::v1::ResourceQuota>),
    ("", "Secret", of::<api::core::v1::Secret>),
    ("", "ServiceAccount", of::<api::core::v1::ServiceAccount>),
    ("", "Service", of::<api::core::v1::Service>),
    (
        "admissionregistration.k8s.io",
        "MutatingWebhookConfiguration",
        of::<api::admissionregistration::v1::MutatingWebhookConfiguration>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicy",
        of::<api::admissionregistration::v1::ValidatingAdmissionPolicy>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding",
        of::<api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
    ),
    (
        "admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration",
        of::<api::admissionregistration::v1::ValidatingWebhookConfiguration>,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition", of::<CustomResourceDefinition>),
    ("apps", "ControllerRevision", of::<api::apps::v1::ControllerRevision>),
    ("apps", "DaemonSet", of::<api::apps::v1::DaemonSet>),
    ("apps", "Deployment", of::<api::apps::v1::Deployment>),
    ("apps", "ReplicaSet", of::<api::apps::v1::ReplicaSet>),
    ("apps", "StatefulSet", of::<api::apps::v1::StatefulSet>),
    ("autoscaling", "HorizontalPodAutoscaler", of::<api::autoscaling::v2::HorizontalPodAutoscaler>),
    ("autoscaling", "Scale", of::<api::autoscaling::v1::Scale>),
    ("batch", "CronJob", of::<api::batch::v1::CronJob>),
    ("batch", "Job", of::<api::batch::v1::Job>),
    ("coordination.k8s.io", "Lease", of::<api::coordination::v1::Lease>),
    ("discovery.k8s.io", "EndpointSlice", of::<api::discovery::v1::EndpointSlice>),
    ("networking.k8s.io", "IngressClass", of::<api::networking::v1::IngressClass>),
    ("networking.k8s.io", "Ingress", of::<api::networking::v1::Ingress>),
    ("networking.k8s.io", "NetworkPolicy", of::<api::networking::v1::NetworkPolicy>),
    ("node.k8s.io", "RuntimeClass", of::<api::node::v1::RuntimeClass>),
    ("policy", "PodDisruptionBudget", of::<api::policy::v1::PodDisruptionBudget>),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", of::<api::rbac::v1::ClusterRoleBinding>),
    ("rbac.authorization.k8s.io", "ClusterRole", of::<api::rbac::v1::ClusterRole>),
    ("rbac.authorization.k8s.io", "RoleBinding", of::<api::rbac::v1::RoleBinding>),
    ("rbac.authorization.k8s.io", "Role", of::<api::rbac::v1::Role>),
    ("resource.k8s.io", "DeviceClass", of::<api::resource::v1::DeviceClass>),
    ("resource.k8s.io", "ResourceClaim", of::<api::resource::v1::ResourceClaim>),
    ("resource.k8s.io", "ResourceClaimTemplate", of::<api::resource::v1::ResourceClaimTemplate>),
    ("resource.k8s.io", "ResourceSlice", of::<api::resource::v1::ResourceSlice>),
    ("scheduling.k8s.io", "PriorityClass", of::<api::scheduling::v1::PriorityClass>),
    ("storage.k8s.io", "CSIDriver", of::<api::storage::v1::CSIDriver>),
    ("storage.k8s.io", "CSINode", of::<api::storage::v1::CSINode>),
    ("storage.k8s.io", "CSIStorageCapacity", of::<api::storage::v1::CSIStorageCapacity>),
    ("storage.k8s.io", "StorageClass", of::<api::storage::v1::StorageClass>),
    ("storage.k8s.io", "VolumeAttachment", of::<api::storage::v1::VolumeAttachment>),
];
