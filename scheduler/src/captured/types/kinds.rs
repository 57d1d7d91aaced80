//! Where each kind's types are declared: Kubernetes' own in `k8s-openapi`, KAI's with our
//! `CustomResourceDefinition`s.

use std::{collections::BTreeMap, sync::LazyLock};

use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
        policy::v1::PodDisruptionBudget,
        resource::v1::{DeviceClass, ResourceClaim, ResourceSlice},
        scheduling::v1::PriorityClass,
        storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment},
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::Form;
use crate::{
    config::Flavor,
    crds::{
        BindRequestSpec, BindRequestStatus, PodGroupSpec, PodGroupStatus, QueueSpec, QueueStatus,
        TopologySpec, TopologyStatus,
    },
    watch::{Kind, Storage},
};

/// The forms of all kinds that a snapshot may have.
struct Forms {
    kinds: BTreeMap<Kind, Form>,
    named: Vec<Form>,
}

static FORMS: LazyLock<Forms> = LazyLock::new(|| {
    let mut generator = SchemaGenerator::default();
    let kinds = Kind::watched(Flavor::Kai).iter();
    let kinds: Vec<_> = kinds.map(|kind| (*kind, declared(*kind, &mut generator))).collect();
    let definitions = generator.take_definitions(true);
    let names: Vec<&str> = definitions.keys().map(String::as_str).collect();
    Forms {
        kinds: kinds
            .iter()
            .map(|(kind, schema)| (*kind, Form::of(schema.as_value(), &names)))
            .collect(),
        named: definitions.values().map(|schema| Form::of(schema, &names)).collect(),
    }
});

/// The form of a kind, with those that it names.
pub(super) fn form(kind: Kind) -> Option<(&'static Form, &'static [Form])> {
    Some((FORMS.kinds.get(&kind)?, &FORMS.named))
}

fn declared(kind: Kind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        Kind::Namespace => generator.subschema_for::<Namespace>(),
        Kind::Node => generator.subschema_for::<Node>(),
        Kind::PriorityClass => generator.subschema_for::<PriorityClass>(),
        Kind::Queue => custom::<QueueSpec, QueueStatus>(generator),
        Kind::Topology => custom::<TopologySpec, TopologyStatus>(generator),
        Kind::NodeResourceTopology => node_resource_topology(generator),
        // It is in no snapshot.
        Kind::Karta => custom::<serde_json::Value, serde_json::Value>(generator),
        Kind::PodDisruptionBudget => generator.subschema_for::<PodDisruptionBudget>(),
        Kind::DeviceClass => generator.subschema_for::<DeviceClass>(),
        Kind::ResourceSlice => generator.subschema_for::<ResourceSlice>(),
        Kind::ResourceClaim => generator.subschema_for::<ResourceClaim>(),
        Kind::Storage(Storage::Class) => generator.subschema_for::<StorageClass>(),
        Kind::Storage(Storage::Volume) => generator.subschema_for::<PersistentVolume>(),
        Kind::Storage(Storage::Claim) => generator.subschema_for::<PersistentVolumeClaim>(),
        Kind::Storage(Storage::Driver) => generator.subschema_for::<CSIDriver>(),
        Kind::Storage(Storage::Capacity) => generator.subschema_for::<CSIStorageCapacity>(),
        Kind::Storage(Storage::Node) => generator.subschema_for::<CSINode>(),
        Kind::Storage(Storage::Attachment) => generator.subschema_for::<VolumeAttachment>(),
        Kind::ConfigMap => generator.subschema_for::<ConfigMap>(),
        Kind::PodGroup => custom::<PodGroupSpec, PodGroupStatus>(generator),
        Kind::BindRequest => custom::<BindRequestSpec, BindRequestStatus>(generator),
        Kind::Pod => generator.subschema_for::<Pod>(),
    }
}

fn custom<Spec: JsonSchema, Status: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
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

/// Of a kind that is neither Kubernetes' nor KAI's: as far as it is read.
fn node_resource_topology(generator: &mut SchemaGenerator) -> Schema {
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
