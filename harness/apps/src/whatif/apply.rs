//! Makes changes to a case: queues and workloads get new values, nodes come and go, and objects that
//! were submitted are added.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use schedlab_api::{Value, annotations, json, labels, object};
use schedlab_casefiles::Case;
use schedlab_conformance::text::{counted_noun, did_you_mean_suffix};
use serde::Serialize;

use super::{
    change::{Amount, ChangeError, Changes, NamedAmount, PriorityChange, QueueChange, QueueField},
    lifecycle::is_replaced,
    nodes::{matches_pattern, new_nodes},
};

/// Priority classes of KAI, which are known where a case lacks them.
const BUILT_IN_CLASSES: [&str; 4] = ["train", "build-preemptible", "build", "inference"];

/// A case with the changes made.
#[derive(Clone, Debug)]
pub(super) struct ChangedCase {
    pub(super) case: Case,
    /// The changes in words.
    pub(super) descriptions: Vec<String>,
    /// Pods that leave with their nodes.
    pub(super) displaced: Vec<DisplacedPod>,
    /// Names of the submitted pods, by namespace and name of their pod group.
    pub(super) submitted: BTreeMap<String, BTreeSet<String>>,
}

/// A pod whose node is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DisplacedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its pod group; empty if it has none.
    pub group: String,
    /// The node that is removed.
    pub node: String,
    /// Whether a controller creates the pod again.
    pub is_replaced: bool,
}

/// Makes all changes. `submitted` are the pods and pod groups that the submitted objects become, by
/// the name of their array.
pub(super) fn apply(
    case: &Case,
    changes: &Changes,
    submitted: Vec<(&'static str, Value)>,
) -> Result<ChangedCase, ChangeError> {
    let mut changed = ChangedCase {
        case: case.clone(),
        descriptions: Vec::new(),
        displaced: Vec::new(),
        submitted: BTreeMap::new(),
    };
    for change in &changes.queues {
        changed.change_queue(change)?;
    }
    for priority in &changes.priorities {
        match priority {
            PriorityChange::Queue(to) => {
                let change = QueueChange { field: QueueField::Priority, to: to.clone() };
                changed.change_queue(&change)?;
            }
            PriorityChange::Workload { namespace, name, class } => {
                changed.change_class(namespace, name, class)?;
            }
        }
    }
    for nodes in &changes.new_nodes {
        let (added, description) = new_nodes(&changed.case, nodes)?;
        changed.list("nodes").extend(added.into_iter().map(Arc::new));
        changed.descriptions.push(description);
    }
    for pattern in &changes.removed_nodes {
        changed.remove_nodes(pattern)?;
    }
    changed.add_submitted(submitted)?;
    Ok(changed)
}

impl ChangedCase {
    fn list(&mut self, list: &str) -> &mut Vec<Arc<Value>> {
        self.case.cluster.objects.entry(list.to_owned()).or_default()
    }

    fn change_queue(&mut self, change: &QueueChange) -> Result<(), ChangeError> {
        let QueueChange { field, to: NamedAmount { name, amount } } = change;
        let option = match field {
            QueueField::Quota => "--quota",
            QueueField::Weight => "--weight",
            QueueField::Limit => "--limit",
            QueueField::Priority => "--priority",
        };
        let queues = self.list("queues");
        let Some(at) = queues.iter().position(|queue| object::name(queue) == name) else {
            return Err(unknown(option, "queue", name, queues));
        };
        let queue = Arc::make_mut(&mut queues[at]);
        let before = object::at(queue, field.pointer()).and_then(Value::as_f64);
        let before = before.unwrap_or(field.default());
        let is_unbounded = before < 0.0 && matches!(field, QueueField::Quota | QueueField::Limit);
        let refuse = |message: String| Err(ChangeError { option, message });
        let after = match *amount {
            Amount::Set(value) => value,
            Amount::Unlimited if matches!(field, QueueField::Quota | QueueField::Limit) => -1.0,
            Amount::Unlimited => {
                return refuse(format!("got unlimited for queue {name}, expected a number"));
            }
            Amount::Add(_) if is_unbounded => {
                return refuse(format!(
                    "got a difference for queue {name}, whose {field} is unlimited, expected \
                     {name}=NUMBER"
                ));
            }
            Amount::Add(more) if before + more < 0.0 => {
                return refuse(format!(
                    "got {more} for queue {name}, whose {field} is {before}, expected at most \
                     -{before}"
                ));
            }
            Amount::Add(more) => before + more,
        };
        let value = match field {
            #[expect(clippy::cast_possible_truncation, reason = "amounts are below a billion")]
            QueueField::Priority => json!(after as i64),
            QueueField::Quota | QueueField::Weight | QueueField::Limit => json!(after),
        };
        object::set(queue, field.pointer(), value);
        let shown = |value: f64| {
            if value < 0.0 { "unlimited".to_owned() } else { value.to_string() }
        };
        self.descriptions.push(format!(
            "the {field} of queue {name} becomes {} (was {})",
            shown(after),
            shown(before)
        ));
        Ok(())
    }

    fn change_class(
        &mut self,
        namespace: &str,
        name: &str,
        class: &str,
    ) -> Result<(), ChangeError> {
        let option = "--priority";
        let classes = self.case.objects("priorityClasses").map(object::name);
        let classes: Vec<&str> = classes.chain(BUILT_IN_CLASSES).collect();
        if !classes.contains(&class) {
            let near = did_you_mean_suffix(class, classes.iter().copied());
            let message = format!(
                "got priority class {class}, expected one of {}{near}",
                first_names(classes.iter().copied())
            );
            return Err(ChangeError { option, message });
        }
        let groups = self.list("podGroups");
        let is_it = |group: &Arc<Value>| {
            object::namespace(group) == namespace && object::name(group) == name
        };
        let Some(at) = groups.iter().position(is_it) else {
            return Err(unknown(option, "pod group", name, groups));
        };
        let group = Arc::make_mut(&mut groups[at]);
        let before = object::text(group, &["spec", "priorityClassName"]).to_owned();
        object::set(group, &["spec", "priorityClassName"], json!(class));
        let before = if before.is_empty() { "none" } else { &before };
        self.descriptions.push(format!(
            "the priority class of pod group {namespace}/{name} becomes {class} (was {before})"
        ));
        Ok(())
    }

    fn remove_nodes(&mut self, pattern: &str) -> Result<(), ChangeError> {
        let nodes = self.list("nodes");
        let all = nodes.clone();
        nodes.retain(|node| !matches_pattern(pattern, object::name(node)));
        let removed = all.len() - nodes.len();
        if removed == 0 {
            return Err(unknown("--remove-nodes", "node", pattern, &all));
        }
        let first = all.iter().find(|node| matches_pattern(pattern, object::name(node)));
        let first = first.map(|node| object::name(node)).unwrap_or_default();
        self.descriptions.push(match removed {
            1 => format!("node {first} is removed"),
            _ => format!("{} are removed ({pattern})", counted_noun(removed, "node")),
        });
        self.list("bindRequests").retain(|request| {
            !matches_pattern(pattern, object::text(request, &["spec", "selectedNode"]))
        });
        let mut displaced = Vec::new();
        self.list("pods").retain_mut(|pod| {
            let node = object::text(pod, &["spec", "nodeName"]).to_owned();
            if node.is_empty() || !matches_pattern(pattern, &node) {
                return true;
            }
            let group = object::annotation(pod, annotations::POD_GROUP_NAME).unwrap_or_default();
            let is_finished =
                matches!(object::text(pod, &["status", "phase"]), "Succeeded" | "Failed");
            let is_replaced = is_replaced(pod) && !is_finished;
            if !is_finished && !group.is_empty() {
                displaced.push(DisplacedPod {
                    namespace: object::namespace(pod).to_owned(),
                    name: object::name(pod).to_owned(),
                    group: group.to_owned(),
                    node,
                    is_replaced,
                });
            }
            if is_replaced {
                make_pending(Arc::make_mut(pod));
            }
            is_replaced || is_finished
        });
        self.displaced.extend(displaced);
        Ok(())
    }

    fn add_submitted(&mut self, submitted: Vec<(&'static str, Value)>) -> Result<(), ChangeError> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (list, new) in submitted {
            let is_same = |old: &Arc<Value>| {
                object::name(old) == object::name(&new)
                    && object::namespace(old) == object::namespace(&new)
            };
            if self.list(list).iter().any(is_same) {
                let kind = if list == "pods" { "pod" } else { "pod group" };
                let (namespace, name) = (object::namespace(&new), object::name(&new));
                let message = format!("{kind} {namespace}/{name} exists, expected another name");
                return Err(ChangeError { option: "--submit", message });
            }
            if list == "pods" {
                let group = object::annotation(&new, annotations::POD_GROUP_NAME);
                let group = group.unwrap_or(object::name(&new));
                let group = format!("{}/{group}", object::namespace(&new));
                self.submitted.entry(group).or_default().insert(object::name(&new).to_owned());
            }
            *counts.entry(list).or_default() += 1;
            self.list(list).push(Arc::new(new));
        }
        if let Some(pods) = counts.get("pods") {
            let groups = counts.get("podGroups").copied().unwrap_or_default();
            self.descriptions.push(format!(
                "submitted: {} in {}",
                counted_noun(*pods, "pod"),
                counted_noun(groups, "pod group")
            ));
        }
        Ok(())
    }
}

/// Makes a pod look like the one that its controller creates after it.
fn make_pending(pod: &mut Value) {
    for path in [
        &["spec", "nodeName"][..],
        &["metadata", "deletionTimestamp"],
        &["metadata", "deletionGracePeriodSeconds"],
        &["metadata", "annotations", annotations::NUMA_PLACEMENT_PREDICTED],
        &["metadata", "annotations", annotations::NUMA_PLACEMENT_OBSERVED],
        &["metadata", "labels", labels::GPU_GROUP],
    ] {
        object::remove(pod, path);
    }
    pod["status"] = json!({ "phase": "Pending" });
}

/// The error for a name that no object has.
fn unknown(option: &'static str, noun: &str, name: &str, objects: &[Arc<Value>]) -> ChangeError {
    let names: Vec<&str> = objects.iter().map(|one| object::name(one)).collect();
    let near = did_you_mean_suffix(name, names.iter().copied());
    let message = match names.first() {
        None => format!("got {noun} {name}, and the case has no {noun}"),
        Some(_) => {
            format!("got {noun} {name}, expected one of {}{near}", first_names(names.into_iter()))
        }
    };
    ChangeError { option, message }
}

/// The first names in alphabetical order.
pub(super) fn first_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > 8 { ", …" } else { "" };
    names.truncate(8);
    format!("{}{more}", names.join(", "))
}
