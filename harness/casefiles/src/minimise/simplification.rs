//! Changes that make a case simpler without dropping a kind of things: equal nodes become one, counts
//! are halved together with fleet and quota, numbers are rounded. Each of them makes a number smaller
//! or rounder, so that only finitely many follow one another.

use std::collections::{BTreeMap, BTreeSet};

use schedlab_api::{Value, json, labels, object, quantity, resources};
use schedlab_scheduler::snapshot_file::CapturedCluster;

use super::element::{self, Element, Key, edit, edit_those, group_of, key};

/// A change that makes a case simpler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Simplification {
    /// Pods of all groups, GPUs of all nodes, and quotas and limits of all queues are halved.
    HalveAll,
    /// GPUs of all pods and nodes, and quotas and limits of all queues are halved.
    HalveGpus,
    /// The pods of a group are halved, and quotas and limits of its queue and the parents of that.
    HalveGroup(Key),
    /// Quota and limit of a queue are halved.
    HalveQueue(String),
    /// The GPUs of a node are halved.
    HalveNode(String),
    /// The second node leaves; its pods and what it has go to the first one.
    MergeNodes(String, String),
    /// The amounts of a resource of all nodes are rounded up.
    RoundNodes(&'static str),
    /// The requests of all pods for a resource are rounded.
    RoundRequests(&'static str),
}

/// Resources whose amounts are rounded, with the unit to which they are rounded, in thousandths.
const ROUNDED: [(&str, quantity::Milli); 2] = [("cpu", 1000), ("memory", 1000 << 30)];

/// The amounts of GPUs of a queue.
const GPU_AMOUNTS: [&str; 2] = ["/spec/resources/gpu/quota", "/spec/resources/gpu/limit"];

/// The changes that a cluster allows: those that remove the most first.
pub(super) fn simplifications(cluster: &CapturedCluster) -> Vec<Simplification> {
    let mut all = vec![Simplification::HalveAll, Simplification::HalveGpus];
    let groups = objects(cluster, "podGroups").map(|group| Simplification::HalveGroup(key(group)));
    all.extend(groups);
    all.extend(equal_nodes(cluster));
    all.extend(names(cluster, "queues").map(Simplification::HalveQueue));
    all.extend(names(cluster, "nodes").map(Simplification::HalveNode));
    for (resource, _) in ROUNDED {
        all.push(Simplification::RoundRequests(resource));
        all.push(Simplification::RoundNodes(resource));
    }
    all.retain(|one| !super::is_same(&one.simplified(cluster), cluster));
    all
}

impl Simplification {
    /// The cluster after the change.
    pub(super) fn simplified(&self, cluster: &CapturedCluster) -> CapturedCluster {
        let mut result = match self {
            Self::HalveAll => {
                let groups = objects(cluster, "podGroups").map(key).collect();
                element::without(cluster, &half_of_members(cluster, &groups))
            }
            Self::HalveGroup(group) => {
                let groups = BTreeSet::from([group.clone()]);
                element::without(cluster, &half_of_members(cluster, &groups))
            }
            Self::HalveGpus
            | Self::HalveQueue(_)
            | Self::HalveNode(_)
            | Self::MergeNodes(..)
            | Self::RoundNodes(_)
            | Self::RoundRequests(_) => cluster.clone(),
        };
        match self {
            Self::HalveAll => {
                edit(&mut result, "nodes", halve_gpus_of_node);
                edit(&mut result, "queues", halve_amounts);
            }
            Self::HalveGpus => {
                edit(&mut result, "pods", halve_gpus_of_pod);
                edit(&mut result, "nodes", halve_gpus_of_node);
                edit(&mut result, "queues", halve_amounts);
            }
            Self::HalveGroup(group) => {
                let family = queue_family(cluster, group);
                let is_of_family = |queue: &Value| family.contains(object::name(queue));
                edit_those(&mut result, "queues", is_of_family, halve_amounts);
            }
            Self::HalveQueue(name) => {
                edit_those(&mut result, "queues", |it| object::name(it) == name, halve_amounts);
            }
            Self::HalveNode(name) => {
                edit_those(&mut result, "nodes", |it| object::name(it) == name, halve_gpus_of_node);
            }
            Self::MergeNodes(kept, dropped) => merge_nodes(&mut result, kept, dropped),
            Self::RoundNodes(resource) => edit(&mut result, "nodes", |node| {
                round(node.pointer_mut(&format!("/status/allocatable/{resource}")), resource);
            }),
            Self::RoundRequests(resource) => edit(&mut result, "pods", |pod| {
                for amounts in amounts_of_pod(pod) {
                    round(amounts.get_mut(resource), resource);
                }
            }),
        }
        result
    }
}

fn objects<'c>(cluster: &'c CapturedCluster, array: &str) -> impl Iterator<Item = &'c Value> {
    cluster.objects.get(array).into_iter().flatten().map(AsRef::as_ref)
}

fn names(cluster: &CapturedCluster, array: &str) -> impl Iterator<Item = String> {
    objects(cluster, array).map(|object| object::name(object).to_owned())
}

/// The second half of the pods of each group.
fn half_of_members(cluster: &CapturedCluster, groups: &BTreeSet<Key>) -> Vec<Element> {
    let mut members: BTreeMap<Key, Vec<Key>> = BTreeMap::new();
    for pod in objects(cluster, "pods") {
        if let Some(group) = group_of(pod).filter(|group| groups.contains(group)) {
            members.entry(group).or_default().push(key(pod));
        }
    }
    let second_half = |mut pods: Vec<Key>| {
        pods.sort();
        pods.split_off(pods.len().div_ceil(2))
    };
    members.into_values().flat_map(second_half).map(Element::Member).collect()
}

/// The queue of a group, and its parents.
fn queue_family(cluster: &CapturedCluster, group: &Key) -> BTreeSet<String> {
    let parents: BTreeMap<&str, &str> = objects(cluster, "queues")
        .map(|queue| (object::name(queue), object::text(queue, &["spec", "parentQueue"])))
        .collect();
    let group = objects(cluster, "podGroups").find(|it| key(it) == *group);
    let mut next = group.map(|group| object::text(group, &["spec", "queue"]));
    let mut family = BTreeSet::new();
    while let Some(queue) = next.filter(|queue| !queue.is_empty()) {
        if !family.insert(queue.to_owned()) {
            break;
        }
        next = parents.get(queue).copied();
    }
    family
}

/// Pairs of nodes that follow one another and differ in their names only.
fn equal_nodes(cluster: &CapturedCluster) -> Vec<Simplification> {
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    let mut pairs = Vec::new();
    for node in objects(cluster, "nodes") {
        let part = |pointer| node.pointer(pointer).cloned().unwrap_or_default();
        let mut own_labels = part("/metadata/labels");
        object::remove(&mut own_labels, &[labels::HOSTNAME]);
        let shape =
            json!([own_labels, part("/spec/taints"), part("/status/allocatable")]).to_string();
        match shapes.get(&shape) {
            Some(first) => {
                let (kept, dropped) = ((*first).to_owned(), object::name(node).to_owned());
                pairs.push(Simplification::MergeNodes(kept, dropped));
            }
            None => drop(shapes.insert(shape, object::name(node))),
        }
    }
    pairs
}

fn merge_nodes(cluster: &mut CapturedCluster, kept: &str, dropped: &str) {
    edit_those(
        cluster,
        "pods",
        |pod| object::text(pod, &["spec", "nodeName"]) == dropped,
        |pod| pod["spec"]["nodeName"] = json!(kept),
    );
    *cluster = element::without(cluster, &[Element::Node(dropped.to_owned())]);
    edit_those(
        cluster,
        "nodes",
        |node| object::name(node) == kept,
        |node| {
            let amounts = node.pointer_mut("/status/allocatable").and_then(Value::as_object_mut);
            for amount in amounts.map(schedlab_api::Map::values_mut).into_iter().flatten() {
                if let Some(thousandths) = quantity::thousandths(amount) {
                    *amount = json!(quantity_text(thousandths.saturating_mul(2)));
                }
            }
        },
    );
}

/// Quota and limit of GPUs are halved, rounded up.
fn halve_amounts(queue: &mut Value) {
    for pointer in GPU_AMOUNTS {
        if let Some(amount) = queue.pointer_mut(pointer)
            && let Some(number) = amount.as_i64().filter(|number| *number > 1)
        {
            *amount = json!((number + 1) / 2);
        }
    }
}

fn halve_gpus_of_node(node: &mut Value) {
    for kind in ["allocatable", "capacity"] {
        halve(object_at(node, &["status", kind]).and_then(|it| it.get_mut(resources::GPU)));
    }
}

fn halve_gpus_of_pod(pod: &mut Value) {
    for amounts in amounts_of_pod(pod) {
        halve(amounts.get_mut(resources::GPU));
    }
}

/// Halves a count above 1, rounded up.
fn halve(amount: Option<&mut Value>) {
    let Some(amount) = amount else { return };
    let number = quantity::thousandths(amount).map(|it| it / 1000).filter(|number| *number > 1);
    if let Some(number) = number {
        *amount = json!(((number + 1) / 2).to_string());
    }
}

/// Rounds an amount to whole units: up to a power of two of them.
fn round(amount: Option<&mut Value>, resource: &str) {
    let Some((_, unit)) = ROUNDED.iter().find(|(known, _)| *known == resource) else { return };
    let Some(amount) = amount else { return };
    let Some(thousandths) = quantity::thousandths(amount) else { return };
    if thousandths <= 0 {
        return;
    }
    let units = (thousandths + unit - 1) / unit;
    let Some(rounded) = u64::try_from(units).ok().and_then(u64::checked_next_power_of_two) else {
        return;
    };
    if quantity::Milli::from(rounded) * unit != thousandths {
        let suffix = if resource == "memory" { "Gi" } else { "" };
        *amount = json!(format!("{rounded}{suffix}"));
    }
}

/// An amount as a quantity: whole where it is.
fn quantity_text(thousandths: quantity::Milli) -> String {
    if thousandths % 1000 == 0 {
        (thousandths / 1000).to_string()
    } else {
        format!("{thousandths}m")
    }
}

/// The maps with the requests and limits of a pod's containers.
fn amounts_of_pod(pod: &mut Value) -> Vec<&mut schedlab_api::Map> {
    let mut all = Vec::new();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return all };
    for (field, list) in spec.iter_mut() {
        if !["containers", "initContainers"].contains(&field.as_str()) {
            continue;
        }
        for container in list.as_array_mut().into_iter().flatten() {
            let resources = container.get_mut("resources").and_then(Value::as_object_mut);
            let kinds = resources.map(schedlab_api::Map::iter_mut).into_iter().flatten();
            let kinds = kinds.filter(|(kind, _)| ["requests", "limits"].contains(&kind.as_str()));
            all.extend(kinds.filter_map(|(_, amounts)| amounts.as_object_mut()));
        }
    }
    all
}

/// The value at a path of fields.
fn object_at<'v>(value: &'v mut Value, path: &[&str]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, field| value.get_mut(*field))
}
