//! The normal form of a run, for comparison with another run: see [`RunOutcome`].

mod durations;
mod node_classes;
mod scheduling_inputs;
mod workload_classes;

use std::{collections::BTreeMap, sync::Arc};

use schedlab_api::{Value, pointer::text};
use schedlab_audit::{
    Change, EvictionCause, EvictionCauses, eviction_message, unschedulable_message,
};
use schedlab_emulator::store::{EventKind, LogEntry};

use crate::history::changes_of_entry;
use crate::render::{eviction_causes, eviction_word};
use crate::report::{RunOutcome, WorkloadOutcome};
use node_classes::NodeClasses;
use workload_classes::WorkloadClasses;

/// A pod in its last state, and what happened to it.
#[derive(Debug)]
struct PodHistory {
    object: Arc<Value>,
    exists: bool,
    deletion_requested: bool,
    changes: Vec<String>,
}

/// What the scheduler announced about the eviction of a pod: a message in an event, and the causes.
struct EvictionAnnouncement<'a> {
    /// The message of the last event about the pod.
    message: Option<&'a str>,
    causes: &'a EvictionCauses,
}

/// The outcome of a scenario, computed from the log of its writes.
pub(crate) fn run_outcome(log: &[Arc<LogEntry>]) -> RunOutcome {
    let node_classes = NodeClasses::from_log(log);
    let workload_classes = WorkloadClasses::from_log(log);
    let (messages, causes) = (eviction_messages_by_pod(log), eviction_causes(log));
    let mut histories: BTreeMap<String, PodHistory> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
        let uid = text(&entry.object, "/metadata/uid").unwrap_or_default().to_owned();
        let message = messages.get(&uid).map(String::as_str);
        let announcement = EvictionAnnouncement { message, causes: &causes };
        let history = histories.entry(uid).or_insert_with(|| PodHistory::new(entry));
        history.object = entry.object.clone();
        history.exists = entry.kind != EventKind::Deleted;
        let class = workload_classes.class_of_pod(&entry.object);
        for change in changes_of_entry(entry) {
            let Some(text) =
                history.change_text(&change, &workload_classes, &node_classes, &announcement)
            else {
                continue;
            };
            let first = format!("{class} {text}");
            if !order.contains(&first) {
                order.push(first);
            }
            history.changes.push(text);
        }
    }
    RunOutcome {
        workloads: workload_outcomes(&histories, &workload_classes),
        nodes: workloads_per_node(&histories, &workload_classes, &node_classes),
        order,
    }
}

impl PodHistory {
    fn new(entry: &LogEntry) -> Self {
        Self {
            object: entry.object.clone(),
            exists: true,
            deletion_requested: false,
            changes: Vec::new(),
        }
    }

    /// The text for a change of a pod; `None` for changes that are left out. Unschedulable reports
    /// are left out because their number depends on timing. A deletion and its request count as one
    /// change, because the time between them varies.
    fn change_text(
        &mut self,
        change: &Change,
        workload_classes: &WorkloadClasses,
        node_classes: &NodeClasses,
        announcement: &EvictionAnnouncement<'_>,
    ) -> Option<String> {
        match change {
            Change::Bound(node) => Some(node_classes.binding_text(node)),
            Change::Started => Some("started".to_owned()),
            Change::Succeeded if !self.deletion_requested => Some("succeeded".to_owned()),
            Change::Failed if !self.deletion_requested => Some("failed".to_owned()),
            Change::DeletionRequested(_) | Change::Deleted if !self.deletion_requested => {
                self.deletion_requested = true;
                Some(self.departure_text(workload_classes, announcement))
            }
            Change::Created
            | Change::Deleted
            | Change::Devices(_)
            | Change::Succeeded
            | Change::Failed
            | Change::DeletionRequested(_)
            | Change::Unschedulable(_)
            | Change::Ready(_)
            | Change::Cordoned(_)
            | Change::Tainted(_)
            | Change::SpecChanged => None,
        }
    }

    fn departure_text(
        &self,
        workload_classes: &WorkloadClasses,
        announcement: &EvictionAnnouncement<'_>,
    ) -> String {
        let Some(message) = eviction_message(&self.object).or(announcement.message) else {
            return "deleted".to_owned();
        };
        match announcement.causes.cause_of_eviction(&self.object, message) {
            Ok(EvictionCause::Preemptor { kind, preemptor }) => {
                let workload = workload_classes.workload_of_name(&preemptor);
                format!("evicted for {workload} ({})", eviction_word(kind))
            }
            Ok(EvictionCause::StaleGang) | Err(_) => {
                format!("evicted: {}", workload_classes.replace_names(message))
            }
        }
    }

    /// The last phase of the pod; for a pending pod with the reason.
    fn final_state(&self, workload_classes: &WorkloadClasses) -> String {
        let pod = &*self.object;
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        match text(pod, "/status/phase").unwrap_or_default() {
            "Succeeded" => "succeeded".to_owned(),
            "Failed" => "failed".to_owned(),
            _ if text(pod, "/metadata/deletionTimestamp").is_some() => "leaving".to_owned(),
            "Running" => "running".to_owned(),
            _ if self.node().is_some() => "starting".to_owned(),
            _ if gates.is_some_and(|gates| !gates.is_empty()) => "gated".to_owned(),
            _ => match unschedulable_message(pod) {
                Some(reason) => format!("pending: {}", workload_classes.replace_names(reason)),
                None => "pending".to_owned(),
            },
        }
    }

    fn node(&self) -> Option<&str> {
        text(&self.object, "/spec/nodeName").filter(|node| !node.is_empty())
    }

    fn holds_resources(&self) -> bool {
        let phase = text(&self.object, "/status/phase").unwrap_or_default();
        self.exists && self.node().is_some() && !matches!(phase, "Succeeded" | "Failed")
    }
}

fn workload_outcomes(
    histories: &BTreeMap<String, PodHistory>,
    workload_classes: &WorkloadClasses,
) -> BTreeMap<String, WorkloadOutcome> {
    let mut workloads: BTreeMap<String, WorkloadOutcome> = BTreeMap::new();
    for history in histories.values() {
        let workload =
            workloads.entry(workload_classes.class_of_pod(&history.object).to_owned()).or_default();
        if workload.scheduling_inputs.is_empty() {
            workload.scheduling_inputs = workload_classes.inputs_of_pod(&history.object);
        }
        if history.exists {
            *workload.pods.entry(history.final_state(workload_classes)).or_default() += 1;
        }
        let changes = match history.changes.as_slice() {
            [] => "never bound".to_owned(),
            story => story.join(", "),
        };
        *workload.histories.entry(changes).or_default() += 1;
    }
    workloads
}

fn workloads_per_node(
    histories: &BTreeMap<String, PodHistory>,
    workload_classes: &WorkloadClasses,
    node_classes: &NodeClasses,
) -> BTreeMap<String, Vec<String>> {
    let mut pods_by_class: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for history in histories.values().filter(|history| history.holds_resources()) {
        let Some(node) = history.node() else { continue };
        *pods_by_class
            .entry(node)
            .or_default()
            .entry(workload_classes.class_of_pod(&history.object))
            .or_default() += 1;
    }
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, pods_by_class) in pods_by_class {
        let words: Vec<String> =
            pods_by_class.iter().map(|(class, count)| format!("{count} {class}")).collect();
        nodes
            .entry(node_classes.class_of_node(node).to_owned())
            .or_default()
            .push(words.join(", "));
    }
    for pods_by_class in nodes.values_mut() {
        pods_by_class.sort();
    }
    nodes
}

/// The messages of eviction events, by the uid of the pod.
fn eviction_messages_by_pod(log: &[Arc<LogEntry>]) -> BTreeMap<String, String> {
    let events = log.iter().filter(|entry| {
        &*entry.key.resource.plural == "events" && entry.kind != EventKind::Deleted
    });
    let causes = events.filter_map(|entry| {
        let field = |at| text(&entry.object, at);
        let evicts = matches!(field("/reason")?, "Evict" | "Evicted" | "Preempted");
        let uid = field("/involvedObject/uid")?.to_owned();
        let message = field("/message").or_else(|| field("/note"))?;
        (evicts && field("/involvedObject/kind") == Some("Pod")).then(|| (uid, message.to_owned()))
    });
    causes.collect()
}

#[cfg(test)]
mod tests;
