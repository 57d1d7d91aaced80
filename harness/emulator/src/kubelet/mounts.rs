//! The `ConfigMaps` and Secrets that containers wait for, in volumes and in the environment.
//!
//! Left out: volume claims. Objects of kinds that are not watched count as present.

use crate::reconcile::resources::{CONFIG_MAPS, PODS, SECRETS};
use crate::reconcile::{InformerCache, ObjectChange};
use crate::store::{Key, Resource};
use schedlab_api::{
    Value,
    object::{at, list, namespace, text},
    object_names,
};

use crate::reconcile::pod_status::{is_finished, node_name};

/// A `ConfigMap` or Secret that a pod requires.
struct RequiredObject<'p> {
    resource: &'static Resource,
    name: &'p str,
    /// The name of the volume that mounts the object; `None` if an environment variable needs it.
    volume: Option<&'p str>,
    /// The key that must exist in the object; `None` if any content will do.
    key: Option<&'p str>,
}

/// A missing `ConfigMap` or Secret, as status and event of the pod report it.
pub(super) struct MissingObject {
    /// The reason of the waiting state.
    pub(super) state: &'static str,
    /// The message of the waiting state; empty if only the event has a message.
    pub(super) message: String,
    /// The reason and message of the event.
    pub(super) event: (&'static str, String),
}

/// The first missing `ConfigMap` or Secret of a pod. Volumes come before environment variables.
pub(super) fn first_missing_object(pod: &Value, cache: &InformerCache) -> Option<MissingObject> {
    let mut objects = required_objects(pod);
    objects.sort_by_key(|object| object.volume.is_none());
    objects.iter().find_map(|object| missing_object_error(object, namespace(pod), cache))
}

/// The pods that wait for the changed `ConfigMap` or Secret, and may start because of the change.
pub(super) fn pods_waiting_for(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let Key { resource, namespace, name } = &change.key;
    let is_needed = |pod: &Value| {
        required_objects(pod)
            .iter()
            .any(|object| *object.resource == *resource && *object.name == **name)
    };
    let pods = cache
        .objects_in_namespace(&PODS, namespace)
        .filter(|(_, pod)| !node_name(pod).is_empty() && !is_finished(pod) && is_needed(pod));
    pods.map(|(key, _)| key.clone()).collect()
}

fn missing_object_error(
    object: &RequiredObject,
    space: &str,
    cache: &InformerCache,
) -> Option<MissingObject> {
    let (kind, kind_in_message) = if *object.resource == *SECRETS {
        ("secret", "Secret")
    } else {
        ("configmap", "ConfigMap")
    };
    if !cache.is_watched(object.resource) {
        return None;
    }
    let key = Key::new(object.resource.clone(), space, object.name);
    let why = match (cache.get(&key), object.key) {
        (None, _) => format!("{kind} \"{}\" not found", object.name),
        (Some(found), Some(key)) if !has_key(found, key) => {
            format!("couldn't find key {key} in {kind_in_message} {space}/{}", object.name)
        }
        (Some(_), _) => return None,
    };
    Some(match object.volume {
        Some(volume) => MissingObject {
            state: "ContainerCreating",
            message: String::new(),
            event: (
                "FailedMount",
                format!("MountVolume.SetUp failed for volume \"{volume}\" : {why}"),
            ),
        },
        None => MissingObject {
            state: "CreateContainerConfigError",
            event: ("Failed", format!("Error: {why}")),
            message: why,
        },
    })
}

fn has_key(object: &Value, key: &str) -> bool {
    ["data", "binaryData"].iter().any(|field| at(object, &[*field, key]).is_some())
}

fn required_objects(pod: &Value) -> Vec<RequiredObject<'_>> {
    let volumes = list(pod, &["spec", "volumes"]).iter();
    let mut objects: Vec<RequiredObject<'_>> = volumes.flat_map(volume_references).collect();
    let containers = ["initContainers", "containers"].into_iter();
    for container in containers.flat_map(|kind| list(pod, &["spec", kind])) {
        let whole = list(container, &["envFrom"]).iter();
        objects.extend(
            whole.flat_map(|from| required_references(from, ["configMapRef", "secretRef"], "name")),
        );
        let single = list(container, &["env"]).iter().map(|one| &one["valueFrom"]);
        objects.extend(single.flat_map(|from| {
            let refs = ["configMapKeyRef", "secretKeyRef"];
            let key = refs.iter().find_map(|field| from[*field]["key"].as_str());
            required_references(from, refs, "name")
                .map(move |object| RequiredObject { key, ..object })
        }));
    }
    // Every namespace of a real cluster has it.
    objects.retain(|object| object.name != object_names::ROOT_CA_CONFIG_MAP);
    objects
}

fn volume_references(volume: &Value) -> Vec<RequiredObject<'_>> {
    let single = required_references(volume, ["configMap", ""], "name");
    let single = single.chain(required_references(volume, ["", "secret"], "secretName"));
    let sources = list(volume, &["projected", "sources"]).iter();
    let projected =
        sources.flat_map(|source| required_references(source, ["configMap", "secret"], "name"));
    let name = Some(text(volume, &["name"]));
    single.chain(projected).map(|object| RequiredObject { volume: name, ..object }).collect()
}

/// The non-optional references to a `ConfigMap` and to a Secret in two fields of `holder`.
fn required_references<'p>(
    holder: &'p Value,
    fields: [&'static str; 2],
    name: &'static str,
) -> impl Iterator<Item = RequiredObject<'p>> {
    let resources: [&'static Resource; 2] = [&CONFIG_MAPS, &SECRETS];
    resources.into_iter().zip(fields).filter_map(move |(resource, field)| {
        let found = holder.get(field).filter(|found| found["optional"] != true)?;
        let name = found[name].as_str().filter(|name| !name.is_empty())?;
        Some(RequiredObject { resource, name, volume: None, key: None })
    })
}
