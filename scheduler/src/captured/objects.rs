//! Objects of a snapshot that cannot be used as they stand: nobody can be told on them, so they are
//! told before the plan.

use std::collections::BTreeSet;

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, QueueProblem};

use crate::{
    mirror::{Key, Mirror, QueueRecord, SliceFault},
    parse::{Malformed, at, int32, parse_time, shown, text},
    translate::queue_problem,
    watch::Kind,
};

const OBJECT: &str = "an object";
const MOMENT: &str = "a time such as 2026-01-31T12:00:00Z";
const PRIORITY: &str = "an integer from -2147483648 to 2147483647";
const NAME: &str = "a name";
const PARENT: &str = "a queue that exists and is not below this one, or none";
const NODE: &str = "the name of a node";
const NO_QUEUE: &str = "nothing runs in it or below it";
const NO_GROUP: &str = "none of its pods is placed";

/// What keeps an object out of the cluster: it is none, or nobody can name it.
pub(super) fn fault((list, index): (&str, usize), object: &Value) -> Option<Malformed> {
    let field = format!("rawObjects.{list}[{index}]");
    if !object.is_object() {
        return Some(Malformed::new(field, shown(object), OBJECT));
    }
    let said = |part: &str| at(object, part).filter(|found| !found.is_null());
    let name = said("/metadata/name");
    if name.and_then(Value::as_str).is_none_or(str::is_empty) {
        let found = name.map_or_else(|| "nothing".to_owned(), shown);
        return Some(Malformed::new(format!("{field}.metadata.name"), found, NAME));
    }
    let namespace = said("/metadata/namespace").filter(|namespace| !namespace.is_string())?;
    Some(Malformed::new(format!("{field}.metadata.namespace"), shown(namespace), NAME))
}

/// What becomes of an object that has a value of another type somewhere than its kind gives it.
pub(super) fn instead(kind: Kind, object: &Value) -> &'static str {
    match kind {
        Kind::Queue => NO_QUEUE,
        Kind::PodGroup => NO_GROUP,
        Kind::Pod if text(object, "/spec/nodeName").is_none_or(str::is_empty) => "it is not placed",
        Kind::Pod => "it is placed nowhere else",
        Kind::ResourceClaim => "it is not allocated",
        Kind::Node => "nobody is placed on it",
        Kind::Namespace
        | Kind::PriorityClass
        | Kind::Topology
        | Kind::Karta
        | Kind::DeviceClass
        | Kind::ResourceSlice
        | Kind::Storage(_)
        | Kind::ConfigMap
        | Kind::NodeResourceTopology
        | Kind::PodDisruptionBudget
        | Kind::BindRequest => "it is left out",
    }
}

/// An object as notes call it.
pub(super) fn called(kind: Kind, key: &Key) -> String {
    let named = if key.namespace.is_empty() { key.name.to_string() } else { key.to_string() };
    format!("{kind:?} {named}")
}

/// What of an object that was taken counts as something else than what stands there.
pub(super) fn doubts(kind: Kind, object: &Value) -> Vec<String> {
    let whose = called(kind, &Key::of(object));
    let told = |field: &str, found: &Value, allowed, instead: &str| {
        format!("{whose}: {}; {instead}", Malformed::new(field, shown(found), allowed))
    };
    let said = |pointer| at(object, pointer).filter(|found| !found.is_null());
    let created = said("/metadata/creationTimestamp")
        .filter(|found| found.as_str().and_then(parse_time).is_none());
    let created = created
        .map(|found| told("metadata.creationTimestamp", found, MOMENT, "it counts as the oldest"));
    let value = said("/value").filter(|_| kind == Kind::PriorityClass);
    let value = value.filter(|_| int32(object, "/value").is_none());
    let value = value.map(|found| told("value", found, PRIORITY, "it counts as 0"));
    let is_nameless = kind == Kind::BindRequest
        && said("/spec/selectedNode").is_none_or(|node| node.as_str() == Some(""));
    let nowhere = is_nameless.then(|| {
        let wrong = Malformed::new("spec.selectedNode", "nothing", NODE);
        format!("{whose}: {wrong}; it sends its pod nowhere")
    });
    created.into_iter().chain(value).chain(nowhere).collect()
}

/// What is wrong with those that were taken, and not told yet. Pods that wait, and are ours, are told
/// with the plan.
pub(super) fn faults(mirror: &Mirror, told: &BTreeSet<(Kind, Key)>) -> Vec<String> {
    let untold = |kind: Kind, key: &Key| !told.contains(&(kind, key.clone()));
    let nodes = mirror.nodes.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("Node {name}: {wrong}; it counts as nothing"))
    });
    let zones = mirror.topologies_of_nodes.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("NodeResourceTopology {name}: {wrong}; it binds nobody"))
    });
    let queues = mirror.queues.iter().filter_map(|(name, record)| {
        let key = Key { namespace: Name::default(), name: Name::clone(name) };
        let wrong = of_queue(mirror, (name, record)).filter(|_| untold(Kind::Queue, &key))?;
        Some(format!("Queue {name}: {wrong}; {NO_QUEUE}"))
    });
    let groups = mirror.groups.iter().filter_map(|(key, record)| {
        let wrong = record.malformed.as_ref().filter(|_| untold(Kind::PodGroup, key))?;
        Some(format!("PodGroup {key}: {wrong}; {NO_GROUP}"))
    });
    let pods = mirror.pods.iter().filter_map(|(key, pod)| {
        let wrong = pod.malformed.as_ref().filter(|_| pod.ours && !pod.waits())?;
        let wrong = Some(wrong).filter(|_| untold(Kind::Pod, key))?;
        Some(format!("Pod {key}: {wrong}; it counts as nothing"))
    });
    let slices = mirror.claims.slice_faults();
    let slices = slices.map(|(name, _, SliceFault { wrong, instead })| {
        format!("ResourceSlice {name}: {wrong}; {instead}")
    });
    nodes.chain(zones).chain(slices).chain(queues).chain(groups).chain(pods).collect()
}

/// Its own fault, not one of a queue above it.
fn of_queue(mirror: &Mirror, (name, record): (&Name, &QueueRecord)) -> Option<Malformed> {
    if record.malformed.is_some() {
        return record.malformed.clone();
    }
    let parent = record.parent.as_ref()?;
    let found = match queue_problem(&mirror.queues, name)? {
        QueueProblem::Cycle { .. } => format!("{parent:?}, which leads back to it"),
        QueueProblem::ParentMissing { parent: missing, .. } if missing == *parent => {
            format!("{parent:?}, which does not exist")
        }
        QueueProblem::ParentMissing { .. }
        | QueueProblem::Malformed { .. }
        | QueueProblem::Missing { .. }
        | QueueProblem::OtherPool { .. }
        | QueueProblem::NotALeaf { .. } => return None,
    };
    Some(Malformed::new("spec.parentQueue", found, PARENT))
}
