//! Checks of objects in a snapshot. There is no cluster to write events to, so errors become notes
//! before the plan.

use std::collections::BTreeSet;

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, QueueProblem};

use crate::{
    cache::{ClusterCache, QueueRecord},
    dra::SliceFault,
    parse::{Malformed, at, int32, parse_time, shown, text},
    records::ObjectKey,
    snapshot_builder::queue_problem,
    watch::Kind,
};

const EXPECTED_OBJECT: &str = "an object";
const EXPECTED_TIME: &str = "a time such as 2026-01-31T12:00:00Z";
const EXPECTED_PRIORITY: &str = "an integer from -2147483648 to 2147483647";
const EXPECTED_NAME: &str = "a name";
const EXPECTED_PARENT: &str = "a queue that exists and is not below this one, or none";
const EXPECTED_NODE: &str = "the name of a node";
const QUEUE_UNUSED: &str = "no workloads run in it or its children";
const GROUP_UNUSED: &str = "none of its pods is placed";

/// Why an object cannot be loaded: it is not a JSON object, or has no name.
pub(super) fn object_error(list: &str, index: usize, object: &Value) -> Option<Malformed> {
    let field = format!("rawObjects.{list}[{index}]");
    if !object.is_object() {
        return Some(Malformed::new(field, shown(object), EXPECTED_OBJECT));
    }
    let non_null = |part: &str| at(object, part).filter(|found| !found.is_null());
    let name = non_null("/metadata/name");
    if name.and_then(Value::as_str).is_none_or(str::is_empty) {
        let found = name.map_or_else(|| "nothing".to_owned(), shown);
        return Some(Malformed::new(format!("{field}.metadata.name"), found, EXPECTED_NAME));
    }
    let namespace = non_null("/metadata/namespace").filter(|namespace| !namespace.is_string())?;
    Some(Malformed::new(format!("{field}.metadata.namespace"), shown(namespace), EXPECTED_NAME))
}

/// What follows from a value of the wrong type in an object, for the note.
pub(super) fn mistype_consequence(kind: Kind, object: &Value) -> &'static str {
    match kind {
        Kind::Queue => QUEUE_UNUSED,
        Kind::PodGroup => GROUP_UNUSED,
        Kind::Pod if text(object, "/spec/nodeName").is_none_or(str::is_empty) => "it is not placed",
        Kind::Pod => "it is not moved",
        Kind::ResourceClaim => "it is not allocated",
        Kind::Node => "no pods are placed on it",
        Kind::Namespace
        | Kind::PriorityClass
        | Kind::Topology
        | Kind::Karta
        | Kind::DeviceClass
        | Kind::ResourceSlice
        | Kind::DeviceTaintRule
        | Kind::Storage(_)
        | Kind::ConfigMap
        | Kind::NodeResourceTopology
        | Kind::SchedulingGroup
        | Kind::PodDisruptionBudget
        | Kind::BindRequest => "it is ignored",
    }
}

/// Kind and name of an object, for notes.
pub(super) fn object_name(kind: Kind, key: &ObjectKey) -> String {
    let named = if key.namespace.is_empty() { key.name.to_string() } else { key.to_string() };
    format!("{kind:?} {named}")
}

/// Notes on values that are replaced by a default.
pub(super) fn value_warnings(kind: Kind, object: &Value) -> Vec<String> {
    let object_label = object_name(kind, &ObjectKey::from_object(object));
    let reported = |field: &str, found: &Value, allowed, consequence: &str| {
        format!("{object_label}: {}; {consequence}", Malformed::new(field, shown(found), allowed))
    };
    let non_null = |pointer| at(object, pointer).filter(|found| !found.is_null());
    let created = non_null("/metadata/creationTimestamp")
        .filter(|found| found.as_str().and_then(parse_time).is_none());
    let created = created.map(|found| {
        reported(
            "metadata.creationTimestamp",
            found,
            EXPECTED_TIME,
            "the object counts as the oldest",
        )
    });
    let value = non_null("/value").filter(|_| kind == Kind::PriorityClass);
    let value = value.filter(|_| int32(object, "/value").is_none());
    let value = value.map(|found| reported("value", found, EXPECTED_PRIORITY, "it counts as 0"));
    let is_nameless = kind == Kind::BindRequest
        && non_null("/spec/selectedNode").is_none_or(|node| node.as_str() == Some(""));
    let nowhere = is_nameless.then(|| {
        let wrong = Malformed::new("spec.selectedNode", "nothing", EXPECTED_NODE);
        format!("{object_label}: {wrong}; it selects no node")
    });
    created.into_iter().chain(value).chain(nowhere).collect()
}

/// Notes on malformed objects that were loaded and are not in `reported`. Waiting pods of the
/// scheduler are reported with the plan.
pub(super) fn malformed_object_notes(
    cache: &ClusterCache,
    reported: &BTreeSet<(Kind, ObjectKey)>,
) -> Vec<String> {
    let is_unreported = |kind: Kind, key: &ObjectKey| !reported.contains(&(kind, key.clone()));
    let nodes = cache.nodes.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("Node {name}: {wrong}; it counts as 0"))
    });
    let zones = cache.numa_topologies.iter().filter_map(|(name, record)| {
        let wrong = record.malformed.as_ref()?;
        Some(format!("NodeResourceTopology {name}: {wrong}; it constrains no pods"))
    });
    let queues = cache.queues.iter().filter_map(|(name, record)| {
        let key = ObjectKey { namespace: Name::default(), name: Name::clone(name) };
        let wrong =
            queue_error(cache, name, record).filter(|_| is_unreported(Kind::Queue, &key))?;
        Some(format!("Queue {name}: {wrong}; {QUEUE_UNUSED}"))
    });
    let groups = cache.groups.iter().filter_map(|(key, record)| {
        let wrong = record.malformed.as_ref().filter(|_| is_unreported(Kind::PodGroup, key))?;
        Some(format!("PodGroup {key}: {wrong}; {GROUP_UNUSED}"))
    });
    let pods = cache.pods.iter().filter_map(|(key, pod)| {
        let wrong = pod.malformed.as_ref().filter(|_| pod.is_ours && !pod.is_waiting())?;
        let wrong = Some(wrong).filter(|_| is_unreported(Kind::Pod, key))?;
        Some(format!("Pod {key}: {wrong}; it counts as 0"))
    });
    let slices = cache.resource_claims.slice_faults();
    let slices = slices.map(|(name, _, SliceFault { error: wrong, consequence })| {
        format!("ResourceSlice {name}: {wrong}; {consequence}")
    });
    nodes.chain(zones).chain(slices).chain(queues).chain(groups).chain(pods).collect()
}

/// The error of a queue itself, not of a queue above it.
fn queue_error(cache: &ClusterCache, name: &Name, record: &QueueRecord) -> Option<Malformed> {
    if record.malformed.is_some() {
        return record.malformed.clone();
    }
    let parent = record.parent.as_ref()?;
    let found = match queue_problem(&cache.queues, name)? {
        QueueProblem::Cycle { .. } => format!("{parent:?}, which leads back to this queue"),
        QueueProblem::ParentMissing { parent: missing, .. } if missing == *parent => {
            format!("{parent:?}, which does not exist")
        }
        QueueProblem::ParentMissing { .. }
        | QueueProblem::Malformed { .. }
        | QueueProblem::Missing { .. }
        | QueueProblem::OtherNodePool { .. }
        | QueueProblem::NotALeaf { .. } => return None,
    };
    Some(Malformed::new("spec.parentQueue", found, EXPECTED_PARENT))
}
