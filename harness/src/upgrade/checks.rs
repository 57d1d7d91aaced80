//! What an upgrade may not do, each a question about the moments before and after it, or about all
//! that were between them.

use std::collections::BTreeMap;

use schedlab_json::Value;
use serde::Serialize;

use super::state::{PodState, QueueState, State, words};
use super::watching::Seen;
use super::work::{BEYOND, new_work_changes};
use crate::view::Phase;
use schedlab_emulator::quantity::thousandths;

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What must be so.
    pub claim: String,
    /// What was looked at.
    pub seen: String,
    /// What is not so.
    pub broken: Vec<String>,
}

impl Check {
    /// Whether it is so.
    pub fn held(&self) -> bool {
        self.broken.is_empty()
    }

    pub(super) fn failed(claim: &str, broken: Vec<String>) -> Self {
        Self { claim: claim.to_owned(), seen: String::new(), broken }
    }

    pub(super) fn held_by(claim: &str, seen: &str) -> Self {
        Self { claim: claim.to_owned(), seen: seen.to_owned(), broken: Vec::new() }
    }

    fn of(claim: &str, seen: String, broken: Vec<String>) -> Self {
        Self { claim: claim.to_owned(), seen, broken }
    }
}

/// All questions about a move, between two moments and what was seen at those between them.
pub(super) fn all(before: &State, after: &State, seen: &Seen) -> Vec<Check> {
    vec![
        untouched(before, after),
        bound_once(after, seen),
        gangs_whole(after, seen),
        queue_status(before, after),
        still_read(before, after),
        within_limits(after, seen),
    ]
}

fn untouched(before: &State, after: &State) -> Check {
    let running: Vec<(&String, &PodState)> =
        before.pods.iter().filter(|(_, pod)| pod.phase == Phase::Running).collect();
    let broken = running.iter().flat_map(|(name, was)| match after.pods.get(*name) {
        None => vec![format!("{name} ran on {} and is gone", was.node)],
        Some(is) if is.uid != was.uid => {
            vec![format!("{name} ran on {} and was replaced by another pod", was.node)]
        }
        Some(is) if (is.phase, is.restarts) != (was.phase, was.restarts) || is.node != was.node => {
            vec![format!("{name} was {} and is {}", words(was), words(is))]
        }
        Some(is) => rewritten(name, &was.marks, &is.marks),
    });
    let broken = broken.collect();
    Check::of("no running pod is touched", format!("{} running pods", running.len()), broken)
}

/// What tells which group a pod is in: a version may well be the first that groups what runs.
const GROUPING: [&str; 3] = [
    "annotation pod-group-name",
    "label kai.scheduler/subgroup-name",
    "annotation kai.scheduler/subgroup-name",
];

/// Labels and annotations of a pod that are not what they were.
fn rewritten(
    pod: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
) -> Vec<String> {
    let changed =
        was.iter().filter(|(key, value)| is.get(*key) != Some(value)).map(|(key, was)| {
            let is = is.get(key).map_or("is gone".to_owned(), |is| format!("is {is}"));
            format!("{pod}: {key} was {was} and {is}")
        });
    let new =
        is.iter().filter(|(key, _)| !was.contains_key(*key) && !GROUPING.contains(&key.as_str()));
    changed.chain(new.map(|(key, is)| format!("{pod}: {key} is new: {is}"))).collect()
}

fn bound_once(after: &State, seen: &Seen) -> Check {
    let broken = seen.twice.values().cloned().collect();
    Check::of("nothing is bound twice", format!("{} nodes", after.nodes.len()), broken)
}

/// None is in parts afterwards, and none that was whole lost members meanwhile.
fn gangs_whole(after: &State, seen: &Seen) -> Check {
    let mut broken = seen.broke.clone();
    for (name, least) in after.gangs() {
        let bound = after.bound(name);
        if 0 < bound && bound < least {
            let why = format!("gang {name} needs {least} and has {bound} bound");
            broken.insert(name.clone(), why);
        }
    }
    let seen = format!("{} gangs", after.gangs().count());
    Check::of("no gang breaks", seen, broken.into_values().collect())
}

/// What a queue says is allocated is what its pods hold; and what the move had no part in is
/// told as before.
fn queue_status(before: &State, after: &State) -> Check {
    let claim = "queue status is recomputed equal";
    if before.queues.values().all(|queue| !queue.status.contains_key("allocated")) {
        return Check::held_by(claim, "the old version wrote none");
    }
    let mut broken = Vec::new();
    for (name, is) in &after.queues {
        let said = is.status.get("allocated").map(|all| &all["nvidia.com/gpu"]);
        let said = said.and_then(thousandths).unwrap_or(0);
        let held = after.charged(name);
        if said != held {
            let (said, held) = (said / 1000, held / 1000);
            broken
                .push(format!("queue {name} says {said} GPUs are allocated, its pods hold {held}"));
        }
        let Some(was) = before.queues.get(name) else { continue };
        let told = |queue: &QueueState| -> BTreeMap<String, Value> {
            let status = queue.status.iter().filter(|(field, _)| !new_work_changes(name, field));
            status.map(|(field, value)| (field.clone(), value.clone())).collect()
        };
        let (was, is) = (told(was), told(is));
        if was != is {
            let show = |status| serde_json::to_string(status).unwrap_or_default();
            broken.push(format!("queue {name} said {} and says {}", show(&was), show(&is)));
        }
    }
    Check::of(claim, format!("{} queues", after.queues.len()), broken)
}

/// An object that was not left as it was, by its uid and spec.
fn other(object: &str, was: (&String, &Value), is: Option<(&String, &Value)>) -> Option<String> {
    match is {
        None => Some(format!("{object} is gone")),
        Some((uid, _)) if uid != was.0 => {
            Some(format!("{object} was replaced by another of that name"))
        }
        Some((_, spec)) if spec != was.1 => Some(format!("{object} has another spec")),
        Some(_) => None,
    }
}

/// What the old version wrote is there, unchanged, and waiting work is still told why it waits.
fn still_read(before: &State, after: &State) -> Check {
    let mut broken = Vec::new();
    for (name, was) in &before.queues {
        let is = after.queues.get(name).map(|is| (&is.uid, &is.spec));
        broken.extend(other(&format!("queue {name}"), (&was.uid, &was.spec), is));
    }
    for (name, was) in &before.groups {
        let is = after.groups.get(name).map(|is| (&is.uid, &is.spec));
        broken.extend(other(&format!("pod group {name}"), (&was.uid, &was.spec), is));
    }
    let told = before.pods.iter().filter(|(_, pod)| pod.is_told());
    for (name, _) in told {
        match after.pods.get(name) {
            None => broken.push(format!("{name} waited and is gone")),
            Some(is) if is.phase == Phase::Pending && !is.is_told() => {
                broken.push(format!("{name} waits and is no longer told why"));
            }
            Some(_) => {}
        }
    }
    let seen = format!("{} queues, {} pod groups", before.queues.len(), before.groups.len());
    Check::of("objects of the old version still load", seen, broken)
}

fn within_limits(after: &State, seen: &Seen) -> Check {
    let over = seen.over.values().cloned().collect();
    Check::of("no queue exceeds its limit", format!("{} queues", after.queues.len()), over)
}

/// What came after the move and cannot run is told why by the new version alone.
pub(super) fn told(told: Result<(), String>) -> Check {
    let claim = "new work that waits is told why";
    Check::of(claim, format!("{} pods", BEYOND.len()), told.err().into_iter().collect())
}
