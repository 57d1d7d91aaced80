//! The declared types of all kinds: those of Kubernetes from `k8s-openapi`, those of KAI from our
//! `CustomResourceDefinition`s.

use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
        policy::v1::PodDisruptionBudget,
        resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice},
        scheduling::v1::PriorityClass,
        storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use schedlab_api::crds::{
    BindRequestSpec, BindRequestStatus, PodGroupSpec, PodGroupStatus, QueueSpec, QueueStatus,
    TopologySpec, TopologyStatus,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::FieldType;
use crate::{
    config::Flavor,
    watch::{Kind, StorageKind},
};

/// The types of all kinds in a snapshot.
struct DeclaredTypes {
    kinds: BTreeMap<Kind, FieldType>,
    named: Vec<FieldType>,
}

static DECLARED_TYPES: LazyLock<DeclaredTypes> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    let kinds = Kind::watched(Flavor::Kai).iter();
    let kinds: Vec<_> = kinds.map(|kind| (*kind, declared_schema(*kind, &mut generator))).collect();
    let definitions = generator.take_definitions(true);
    let names: Vec<&str> = definitions.keys().map(String::as_str).collect();
    DeclaredTypes {
        kinds: kinds
            .iter()
            .map(|(kind, schema)| (*kind, FieldType::from_schema(schema.as_value(), &names)))
            .collect(),
        named: definitions.values().map(|schema| FieldType::from_schema(schema, &names)).collect(),
    }
});

/// The type of the objects of a kind, and the shared definitions; `None` if the type is not
/// declared.
pub(super) fn field_type(kind: Kind) -> Option<(&'static FieldType, &'static [FieldType])> {
    Some((DECLARED_TYPES.kinds.get(&kind)?, &DECLARED_TYPES.named))
}

fn declared_schema(kind: Kind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        Kind::Namespace => generator.subschema_for::<Namespace>(),
        Kind::Node => generator.subschema_for::<Node>(),
        Kind::PriorityClass => generator.subschema_for::<PriorityClass>(),
        Kind::Queue => custom_resource_schema::<QueueSpec, QueueStatus>(generator),
        Kind::Topology => custom_resource_schema::<TopologySpec, TopologyStatus>(generator),
        Kind::NodeResourceTopology => node_resource_topology_schema(generator),
        // Not part of snapshots.
        Kind::Karta | Kind::SchedulingGroup => {
            custom_resource_schema::<serde_json::Value, serde_json::Value>(generator)
        }
        Kind::PodDisruptionBudget => generator.subschema_for::<PodDisruptionBudget>(),
        Kind::DeviceClass => generator.subschema_for::<DeviceClass>(),
        Kind::ResourceSlice => generator.subschema_for::<ResourceSlice>(),
        Kind::DeviceTaintRule => generator.subschema_for::<DeviceTaintRule>(),
        Kind::ResourceClaim => generator.subschema_for::<ResourceClaim>(),
        Kind::Storage(StorageKind::Class) => generator.subschema_for::<StorageClass>(),
        Kind::Storage(StorageKind::Volume) => generator.subschema_for::<PersistentVolume>(),
        Kind::Storage(StorageKind::Claim) => generator.subschema_for::<PersistentVolumeClaim>(),
        Kind::Storage(StorageKind::Driver) => generator.subschema_for::<CSIDriver>(),
        Kind::Storage(StorageKind::Capacity) => generator.subschema_for::<CSIStorageCapacity>(),
        Kind::Storage(StorageKind::Node) => generator.subschema_for::<CSINode>(),
        Kind::Storage(StorageKind::Attachment) => generator.subschema_for::<VolumeAttachment>(),
        Kind::ConfigMap => generator.subschema_for::<ConfigMap>(),
        Kind::PodGroup => custom_resource_schema::<PodGroupSpec, PodGroupStatus>(generator),
        Kind::BindRequest => {
            custom_resource_schema::<BindRequestSpec, BindRequestStatus>(generator)
        }
        Kind::Pod => generator.subschema_for::<Pod>(),
    }
}

fn custom_resource_schema<Spec: JsonSchema, Status: JsonSchema>(
    generator: &mut SchemaGenerator,
) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": generator.subschema_for::<ObjectMeta>(),
            "spec": generator.subschema_for::<Spec>(),
            "status": generator.subschema_for::<Status>(),
        },
    })
}

/// The schema of the fields of a `NodeResourceTopology` that are used; neither Kubernetes nor KAI
/// declares this kind here.
fn node_resource_topology_schema(generator: &mut SchemaGenerator) -> Schema {
    let text = json_schema!({ "type": "string" });
    let object = |properties: Schema| json_schema!({ "type": "object", "properties": properties });
    let list = |items: Schema| json_schema!({ "type": "array", "items": items });
    let amount = generator.subschema_for::<Quantity>();
    let resource = object(json_schema!({
        "name": text, "capacity": amount, "allocatable": amount, "available": amount,
    }));
    let zone = object(json_schema!({ "name": text, "type": text, "resources": list(resource) }));
    let attribute = object(json_schema!({ "name": text, "value": text }));
    object(json_schema!({
        "metadata": generator.subschema_for::<ObjectMeta>(),
        "topologyPolicies": list(text.clone()),
        "attributes": list(attribute),
        "zones": list(zone),
    }))
}
