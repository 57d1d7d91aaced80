//! Objects of a snapshot that cannot be used as they stand: nobody can be told on them, so they are
//! told before the plan.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, QueueProblem};

use crate::{
    mirror::{Key, Mirror, QueueRecord},
    parse::{Malformed, at, int32, parse_time, shown, text},
    translate::queue_problem,
    watch::Kind,
};

const OBJECT: &str = "an object";
const MOMENT: &str = "a time such as 2026-01-31T12:00:00Z";
const PRIORITY: &str = "an integer from -2147483648 to 2147483647";
const NAME: &str = "a name";
const PARENT: &str = "a queue that exists and is not below this one, or none";

/// What keeps an object out of the cluster: it is none, or nobody can name it.
pub(super) fn fault((list, at): (&str, usize), object: &Value) -> Option<Malformed> {
    let field = format!("rawObjects.{list}[{at}]");
    if !object.is_object() {
        return Some(Malformed::new(field, shown(object), OBJECT));
    }
    let named = text(object, "/metadata/name").is_some_and(|name| !name.is_empty());
    (!named).then(|| Malformed::new(format!("{field}.metadata.name"), "nothing", NAME))
}

/// What of an object that was taken counts as something else than what stands there.
pub(super) fn doubts(kind: Kind, object: &Value) -> Vec<String> {
    let key = Key::of(object);
    let name = if key.namespace.is_empty() { key.name.to_string() } else { key.to_string() };
    let told = |field: &str, found: &Value, allowed, instead: &str| {
        format!("{kind:?} {name}: {}; {instead}", Malformed::new(field, shown(found), allowed))
    };
    let said = |pointer| at(object, pointer).filter(|found| !found.is_null());
    let created = said("/metadata/creationTimestamp")
        .filter(|found| found.as_str().and_then(parse_time).is_none());
    let created = created
        .map(|found| told("metadata.creationTimestamp", found, MOMENT, "it counts as the oldest"));
    let value = said("/value").filter(|_| kind == Kind::PriorityClass);
    let value = value.filter(|_| int32(object, "/value").is_none());
    let value = value.map(|found| told("value", found, PRIORITY, "it counts as 0"));
    created.into_iter().chain(value).collect()
}

/// What is wrong with those that were taken. Pods that wait, and are ours, are told with the plan.
pub(super) fn faults(mirror: &Mirror) -> Vec<String> {
    let nodes = mirror.nodes.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("Node {name}: {wrong}; it counts as nothing"))
    });
    let zones = mirror.topologies_of_nodes.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("NodeResourceTopology {name}: {wrong}; it binds nobody"))
    });
    let queues = mirror.queues.iter().filter_map(|(name, record)| {
        let wrong = of_queue(mirror, (name, record))?;
        Some(format!("Queue {name}: {wrong}; nothing runs in it or below it"))
    });
    let groups = mirror.groups.iter().filter_map(|(key, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("PodGroup {key}: {wrong}; none of its pods is placed"))
    });
    let pods = mirror.pods.iter().filter_map(|(key, pod)| {
        let wrong = pod.malformed.as_ref().filter(|_| pod.ours && !pod.waits())?;
        Some(format!("Pod {key}: {wrong}; it counts as nothing"))
    });
    nodes.chain(zones).chain(queues).chain(groups).chain(pods).collect()
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
