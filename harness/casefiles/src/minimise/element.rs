//! The elements of a case that can be dropped, and the cluster without them. A cluster stays one that
//! could exist: pods leave with their node and their pod group, the children of a queue move to its
//! parent, and a gang that loses a pod needs one less.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use schedlab_api::{Map, Value, annotations::POD_GROUP_NAME, json, object};
use schedlab_scheduler::snapshot_file::CapturedCluster;

use crate::pod_spec::drop_mounts;

/// Namespace and name of an object.
pub(super) type Key = (String, String);

/// A part of a case that can be dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A pod group with its pods.
    Group(Key),
    /// A pod without a pod group, such as one of another scheduler.
    SinglePod(Key),
    /// A queue; its children move to its parent.
    Queue(String),
    /// A node with the pods on it.
    Node(String),
    /// One pod of a pod group, which needs one pod less if it needs all.
    Member(Key),
    /// An object of another kind: array, namespace and name.
    Object(String, Key),
    /// A field of all objects of an array: array and JSON pointer.
    Field(&'static str, &'static str),
    /// A setting of one queue that becomes its default: name and position in [`QUEUE_DEFAULTS`].
    QueueSetting(String, usize),
    /// The requests of all pods for a resource.
    Request(String),
    /// A label of all objects.
    Label(String),
}

/// Classes of elements, in the order in which they are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Groups,
    SinglePods,
    Queues,
    Nodes,
    Objects,
    Members,
    Fields,
    QueueSettings,
    Requests,
    Labels,
}

/// All classes: those first that remove the most.
pub(super) const CLASSES: &[Class] = &[
    // A node leaves with its pods, so that a full cluster stays full.
    Class::Nodes,
    Class::Groups,
    Class::SinglePods,
    Class::Queues,
    Class::Objects,
    Class::Members,
    Class::Fields,
    Class::QueueSettings,
    Class::Requests,
    Class::Labels,
];

/// Fields that many objects have and few claims need.
const FIELDS: &[(&str, &str)] = &[
    ("pods", "/spec/affinity"),
    ("pods", "/spec/tolerations"),
    ("pods", "/spec/nodeSelector"),
    ("pods", "/spec/topologySpreadConstraints"),
    ("pods", "/spec/volumes"),
    ("pods", "/spec/initContainers"),
    ("pods", "/spec/overhead"),
    ("pods", "/spec/resourceClaims"),
    ("pods", "/spec/priorityClassName"),
    ("pods", "/spec/priority"),
    ("pods", "/spec/preemptionPolicy"),
    ("pods", "/spec/terminationGracePeriodSeconds"),
    ("pods", "/metadata/ownerReferences"),
    ("podGroups", "/spec/topologyConstraint"),
    ("podGroups", "/spec/subGroups"),
    ("podGroups", "/spec/priorityClassName"),
    ("podGroups", "/spec/preemptibility"),
    ("podGroups", "/spec/stalenessGracePeriod"),
    ("podGroups", "/spec/preemptionDelay"),
    ("podGroups", "/spec/schedulingBackoff"),
    ("podGroups", "/spec/markUnschedulable"),
    ("podGroups", "/status"),
    ("podGroups", "/metadata/ownerReferences"),
    ("nodes", "/spec/taints"),
    ("nodes", "/status/images"),
    ("queues", "/spec/displayName"),
];

/// Defaults of the settings of a queue: pointer and value; null drops the field.
const QUEUE_DEFAULTS: &[(&str, i64)] = &[
    ("/spec/resources/gpu/limit", -1),
    ("/spec/resources/gpu/overQuotaWeight", 1),
    ("/spec/resources/gpu/quota", 0),
    ("/spec/resources/cpu/quota", -1),
    ("/spec/resources/cpu/limit", -1),
    ("/spec/resources/cpu/overQuotaWeight", 1),
    ("/spec/resources/memory/quota", -1),
    ("/spec/resources/memory/limit", -1),
    ("/spec/resources/memory/overQuotaWeight", 1),
    ("/spec/priority", 100),
];

impl Class {
    /// The elements of this class in a cluster, in the order of their names.
    pub(super) fn elements(self, cluster: &CapturedCluster) -> Vec<Element> {
        let mut elements = self.unordered_elements(cluster);
        elements.sort();
        elements.dedup();
        elements
    }

    fn unordered_elements(self, cluster: &CapturedCluster) -> Vec<Element> {
        let objects = |array: &str| cluster.objects.get(array).into_iter().flatten();
        let names = |array: &str| objects(array).map(|it| object::name(it).to_owned());
        match self {
            Self::Groups => objects("podGroups").map(|group| Element::Group(key(group))).collect(),
            Self::SinglePods => {
                let single = objects("pods").filter(|pod| group_of(pod).is_none());
                single.map(|pod| Element::SinglePod(key(pod))).collect()
            }
            Self::Queues => names("queues").map(Element::Queue).collect(),
            Self::Nodes => names("nodes").map(Element::Node).collect(),
            Self::Members => {
                let members = objects("pods").filter(|pod| group_of(pod).is_some());
                members.map(|pod| Element::Member(key(pod))).collect()
            }
            Self::Objects => {
                let main = ["pods", "podGroups", "queues", "nodes"];
                let others = cluster.objects.iter().filter(|(array, _)| !main.contains(&&***array));
                others
                    .flat_map(|(array, objects)| {
                        objects.iter().map(|it| Element::Object(array.clone(), key(it)))
                    })
                    .collect()
            }
            Self::Fields => {
                let is_there = |array: &str, pointer: &str| {
                    objects(array).any(|object| object.pointer(pointer).is_some())
                };
                let fields = FIELDS.iter().filter(|(array, pointer)| is_there(array, pointer));
                fields.map(|(array, pointer)| Element::Field(array, pointer)).collect()
            }
            Self::QueueSettings => objects("queues").flat_map(|queue| settings(queue)).collect(),
            Self::Requests => {
                let containers = objects("pods").flat_map(|pod| containers(pod));
                let maps = containers.flat_map(|container| {
                    ["/resources/requests", "/resources/limits"].map(|at| container.pointer(at))
                });
                let keys = maps.flatten().filter_map(Value::as_object).flat_map(Map::keys);
                keys.map(|name| Element::Request(name.to_string())).collect()
            }
            Self::Labels => {
                let all = ["pods", "podGroups", "nodes", "queues"].into_iter().flat_map(objects);
                let labels = all.filter_map(|it| it.pointer("/metadata/labels")?.as_object());
                labels.flat_map(Map::keys).map(|it| Element::Label(it.to_string())).collect()
            }
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group((namespace, name)) => write!(f, "pod group {namespace}/{name}"),
            Self::SinglePod((namespace, name)) | Self::Member((namespace, name)) => {
                write!(f, "pod {namespace}/{name}")
            }
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::Node(name) => write!(f, "node {name}"),
            Self::Object(array, (_, name)) => write!(f, "{name} of {array}"),
            Self::Field(array, pointer) => write!(f, "field {pointer} of {array}"),
            Self::QueueSetting(queue, setting) => {
                write!(f, "setting {} of queue {queue}", QUEUE_DEFAULTS[*setting].0)
            }
            Self::Request(resource) => write!(f, "requests for {resource}"),
            Self::Label(key) => write!(f, "label {key}"),
        }
    }
}

/// The settings of a queue that differ from the defaults.
fn settings(queue: &Value) -> Vec<Element> {
    let name = object::name(queue);
    let differs = |(pointer, default): &(&str, i64)| {
        queue.pointer(pointer).is_some_and(|found| found.as_i64() != Some(*default))
    };
    let all = QUEUE_DEFAULTS.iter().enumerate().filter(|(_, default)| differs(default));
    all.map(|(at, _)| Element::QueueSetting(name.to_owned(), at)).collect()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/spec/containers", "/spec/initContainers"].into_iter();
    lists.filter_map(|at| pod.pointer(at)?.as_array()).flatten()
}

pub(super) fn key(object: &Value) -> Key {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}

/// The pod group of a pod.
pub(super) fn group_of(pod: &Value) -> Option<Key> {
    let group = object::annotation(pod, POD_GROUP_NAME)?;
    Some((object::namespace(pod).to_owned(), group.to_owned()))
}

/// The cluster without these elements.
pub(super) fn without(cluster: &CapturedCluster, dropped: &[Element]) -> CapturedCluster {
    let mut result = cluster.clone();
    drop_objects(&mut result, dropped);
    for element in dropped {
        drop_field(&mut result, element);
    }
    result
}

/// Removes an element that is a part of objects.
fn drop_field(cluster: &mut CapturedCluster, element: &Element) {
    match element {
        Element::Field(array, pointer) => {
            let path: Vec<&str> = pointer.split('/').skip(1).collect();
            let has_field = |object: &Value| object.pointer(pointer).is_some();
            edit_those(cluster, array, has_field, |object| {
                object::remove(object, &path);
                if (*array, *pointer) == ("pods", "/spec/volumes") {
                    drop_mounts(object);
                }
            });
        }
        Element::QueueSetting(queue, setting) => {
            let (pointer, default) = QUEUE_DEFAULTS[*setting];
            let is_it = |object: &Value| object::name(object) == queue;
            edit_those(cluster, "queues", is_it, |object| {
                if let Some(value) = object.pointer_mut(pointer) {
                    *value = json!(default);
                }
            });
        }
        Element::Request(resource) => edit(cluster, "pods", |pod| drop_request(pod, resource)),
        Element::Label(label) => {
            for array in ["pods", "podGroups", "nodes", "queues"] {
                let has_label = |object: &Value| object::label(object, label).is_some();
                edit_those(cluster, array, has_label, |object| {
                    object::remove(object, &["metadata", "labels", label]);
                });
            }
        }
        Element::Group(_)
        | Element::SinglePod(_)
        | Element::Queue(_)
        | Element::Node(_)
        | Element::Member(_)
        | Element::Object(..) => {}
    }
}

/// Removes a resource from all containers of a pod.
fn drop_request(pod: &mut Value, resource: &str) {
    for list in ["/spec/containers", "/spec/initContainers"] {
        let containers = pod.pointer_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for kind in ["requests", "limits"] {
                object::remove(container, &["resources", kind, resource]);
            }
        }
    }
}

/// Removes objects, and what cannot exist without them.
fn drop_objects(cluster: &mut CapturedCluster, dropped: &[Element]) {
    let mut groups = BTreeSet::new();
    let mut pods = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    let mut queues = BTreeSet::new();
    let mut others: BTreeMap<&str, BTreeSet<&Key>> = BTreeMap::new();
    for element in dropped {
        match element {
            Element::Group(key) => drop(groups.insert(key.clone())),
            Element::SinglePod(key) | Element::Member(key) => drop(pods.insert(key.clone())),
            Element::Node(name) => drop(nodes.insert(name.clone())),
            Element::Queue(name) => drop(queues.insert(name.clone())),
            Element::Object(array, key) => drop(others.entry(array).or_default().insert(key)),
            Element::Field(..)
            | Element::QueueSetting(..)
            | Element::Request(_)
            | Element::Label(_) => {}
        }
    }
    for (array, keys) in others {
        retain(cluster, array, |object| !keys.contains(&key(object)));
    }
    let leaves = |pod: &Value| {
        pods.contains(&key(pod))
            || group_of(pod).is_some_and(|group| groups.contains(&group))
            || nodes.contains(object::text(pod, &["spec", "nodeName"]))
    };
    shrink_groups(cluster, &leaves);
    retain(cluster, "pods", |pod| !leaves(pod));
    retain(cluster, "nodes", |node| !nodes.contains(object::name(node)));
    retain(cluster, "podGroups", |group| !groups.contains(&key(group)));
    // A workload names its queue, so that the queue stays with it.
    for group in cluster.objects.get("podGroups").into_iter().flatten() {
        queues.remove(object::text(group, &["spec", "queue"]));
    }
    drop_queues(cluster, &queues);
}

/// A gang that needs all of its pods needs as many as are left; a gang without pods leaves.
fn shrink_groups(cluster: &mut CapturedCluster, leaves: &dyn Fn(&Value) -> bool) {
    let mut sizes: BTreeMap<Key, (i64, i64)> = BTreeMap::new();
    for pod in cluster.objects.get("pods").into_iter().flatten() {
        if let Some(group) = group_of(pod) {
            let (before, after) = sizes.entry(group).or_default();
            *before += 1;
            *after += i64::from(!leaves(pod));
        }
    }
    sizes.retain(|_, (before, after)| before != after);
    if sizes.is_empty() {
        return;
    }
    retain(cluster, "podGroups", |group| {
        sizes.get(&key(group)).is_none_or(|(_, after)| *after > 0)
    });
    let has_shrunk = |group: &Value| sizes.contains_key(&key(group));
    edit_those(cluster, "podGroups", has_shrunk, |group| {
        let Some((before, after)) = sizes.get(&key(group)) else { return };
        if let Some(minimum) = group.pointer_mut("/spec/minMember")
            && let Some(needed) = minimum.as_i64()
            && needed > *after
        {
            // What was missing stays missing.
            *minimum = json!((needed - (before - after)).max(1));
        }
    });
}

fn drop_queues(cluster: &mut CapturedCluster, queues: &BTreeSet<String>) {
    if queues.is_empty() {
        return;
    }
    let all = cluster.objects.get("queues").into_iter().flatten();
    let parents: BTreeMap<String, Value> = all
        .map(|queue| {
            let parent = queue.pointer("/spec/parentQueue").cloned().unwrap_or_default();
            (object::name(queue).to_owned(), parent)
        })
        .collect();
    retain(cluster, "queues", |queue| !queues.contains(object::name(queue)));
    let has_lost_parent =
        |queue: &Value| queues.contains(object::text(queue, &["spec", "parentQueue"]));
    edit_those(cluster, "queues", has_lost_parent, |queue| {
        // As often as there are queues, in case their parents form a cycle.
        for _ in 0..parents.len() {
            let Some(parent) = queue.pointer_mut("/spec/parentQueue") else { return };
            let Some(name) = parent.as_str().filter(|name| queues.contains(*name)) else { return };
            *parent = parents.get(name).cloned().unwrap_or_default();
        }
    });
}

fn retain(cluster: &mut CapturedCluster, array: &str, keeps: impl Fn(&Value) -> bool) {
    if let Some(objects) = cluster.objects.get_mut(array) {
        objects.retain(|object| keeps(object));
    }
}

/// Changes all objects of an array; those that stay as they are stay shared.
pub(super) fn edit(cluster: &mut CapturedCluster, array: &str, change: impl Fn(&mut Value)) {
    edit_those(cluster, array, |_| true, change);
}

/// Like [`edit`], for objects of which `is_affected` is true.
pub(super) fn edit_those(
    cluster: &mut CapturedCluster,
    array: &str,
    is_affected: impl Fn(&Value) -> bool,
    change: impl Fn(&mut Value),
) {
    let objects = cluster.objects.get_mut(array).into_iter().flatten();
    for object in objects.filter(|object| is_affected(object)) {
        let mut changed = Value::clone(object);
        change(&mut changed);
        if changed != **object {
            *object = Arc::new(changed);
        }
    }
}
