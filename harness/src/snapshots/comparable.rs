//! What a log showed, for comparison with another run's: see [`Showing`].

mod durations;
mod families;
mod kinds;
mod wants;

use std::{collections::BTreeMap, sync::Arc};

use schedlab_emulator::store::{EventKind, LogEntry};
use schedlab_json::Value;
use schedlab_scheduler_core::audit::Why;

use crate::audit;
use crate::fields::text;
use crate::happenings::{Happening, eviction_cause, happenings, waiting_reason};
use crate::report::{Showing, WorkloadShowing};
use families::Families;
use kinds::NodeKinds;

/// A pod that there was: its last state, whether it is still there, and its story.
#[derive(Debug)]
struct Trail {
    object: Arc<Value>,
    is_there: bool,
    asked_to_leave: bool,
    story: Vec<String>,
}

/// What the log of a scenario showed.
pub fn showing(log: &[Arc<LogEntry>]) -> Showing {
    let kinds = NodeKinds::of(log);
    let families = Families::of(log);
    let causes = causes(log);
    let mut trails: BTreeMap<String, Trail> = BTreeMap::new();
    let mut order: Vec<String> = Vec::new();
    for entry in log.iter().filter(|entry| &*entry.key.resource.plural == "pods") {
        let uid = text(&entry.object, "/metadata/uid").unwrap_or_default().to_owned();
        let cause = causes.get(&uid).map(String::as_str);
        let trail = trails.entry(uid).or_insert_with(|| Trail::new(entry));
        trail.object = entry.object.clone();
        trail.is_there = entry.kind != EventKind::Deleted;
        let family = families.label(&entry.object);
        for happening in happenings(entry) {
            let Some(words) = trail.words(&happening, (&families, &kinds), cause) else { continue };
            let first = format!("{family} {words}");
            if !order.contains(&first) {
                order.push(first);
            }
            trail.story.push(words);
        }
    }
    Showing {
        workloads: workloads(&trails, &families),
        nodes: nodes(&trails, &families, &kinds),
        order,
    }
}

impl Trail {
    fn new(entry: &LogEntry) -> Self {
        Self {
            object: entry.object.clone(),
            is_there: true,
            asked_to_leave: false,
            story: Vec::new(),
        }
    }

    /// What is told of a happening. Waiting is not: how often a pod is looked at in vain is a
    /// matter of time. Nor is how long a pod takes to leave.
    fn words(
        &mut self,
        happening: &Happening,
        (families, kinds): (&Families, &NodeKinds),
        cause: Option<&str>,
    ) -> Option<String> {
        match happening {
            Happening::Bound(node) => Some(kinds.on(node)),
            Happening::Started => Some("started".to_owned()),
            Happening::Succeeded if !self.asked_to_leave => Some("succeeded".to_owned()),
            Happening::Failed if !self.asked_to_leave => Some("failed".to_owned()),
            Happening::AskedToLeave(_) | Happening::Gone if !self.asked_to_leave => {
                self.asked_to_leave = true;
                Some(self.farewell(families, cause))
            }
            Happening::Created
            | Happening::Gone
            | Happening::Devices(_)
            | Happening::Succeeded
            | Happening::Failed
            | Happening::AskedToLeave(_)
            | Happening::Waits(_)
            | Happening::Ready(_)
            | Happening::Cordoned(_)
            | Happening::Tainted(_)
            | Happening::Changed => None,
        }
    }

    fn farewell(&self, families: &Families, cause: Option<&str>) -> String {
        let Some(cause) = eviction_cause(&self.object).or(cause) else {
            return "deleted".to_owned();
        };
        match audit::eviction(&"".into(), cause) {
            Some(eviction) => {
                let why = match eviction.why {
                    Why::Reclaim => "reclaim",
                    Why::Preempt => "priority",
                    Why::Consolidate => "consolidation",
                };
                format!("evicted for {} ({why})", families.of_workload(&eviction.preemptor))
            }
            None => format!("evicted: {}", families.tidy(cause)),
        }
    }

    /// Where it is in its life; why it waits.
    fn state(&self, families: &Families) -> String {
        let pod = &*self.object;
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        match text(pod, "/status/phase").unwrap_or_default() {
            "Succeeded" => "succeeded".to_owned(),
            "Failed" => "failed".to_owned(),
            _ if text(pod, "/metadata/deletionTimestamp").is_some() => "leaving".to_owned(),
            "Running" => "running".to_owned(),
            _ if self.node().is_some() => "starting".to_owned(),
            _ if gates.is_some_and(|gates| !gates.is_empty()) => "gated".to_owned(),
            _ => match waiting_reason(pod) {
                Some(reason) => format!("pending: {}", families.tidy(reason)),
                None => "pending".to_owned(),
            },
        }
    }

    fn node(&self) -> Option<&str> {
        text(&self.object, "/spec/nodeName").filter(|node| !node.is_empty())
    }

    fn holds_room(&self) -> bool {
        let phase = text(&self.object, "/status/phase").unwrap_or_default();
        self.is_there && self.node().is_some() && !matches!(phase, "Succeeded" | "Failed")
    }
}

fn workloads(
    trails: &BTreeMap<String, Trail>,
    families: &Families,
) -> BTreeMap<String, WorkloadShowing> {
    let mut workloads: BTreeMap<String, WorkloadShowing> = BTreeMap::new();
    for trail in trails.values() {
        let workload = workloads.entry(families.label(&trail.object).to_owned()).or_default();
        if workload.wants.is_empty() {
            workload.wants = families.want(&trail.object);
        }
        if trail.is_there {
            *workload.pods.entry(trail.state(families)).or_default() += 1;
        }
        let story = match trail.story.as_slice() {
            [] => "never bound".to_owned(),
            story => story.join(", "),
        };
        *workload.stories.entry(story).or_default() += 1;
    }
    workloads
}

fn nodes(
    trails: &BTreeMap<String, Trail>,
    families: &Families,
    kinds: &NodeKinds,
) -> BTreeMap<String, Vec<String>> {
    let mut held: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for trail in trails.values().filter(|trail| trail.holds_room()) {
        let Some(node) = trail.node() else { continue };
        *held.entry(node).or_default().entry(families.label(&trail.object)).or_default() += 1;
    }
    let mut nodes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (node, held) in held {
        let words: Vec<String> = held.iter().map(|(who, count)| format!("{count} {who}")).collect();
        nodes.entry(kinds.kind(node).to_owned()).or_default().push(words.join(", "));
    }
    for held in nodes.values_mut() {
        held.sort();
    }
    nodes
}

/// What was said of evicted pods in events, by the pod's uid.
fn causes(log: &[Arc<LogEntry>]) -> BTreeMap<String, String> {
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
