//! What an upgrade may not do, each a question about the moments before and after it, or about all
//! that were between them.

use std::collections::BTreeMap;

use schedlab_json::Value;
use serde::Serialize;

use super::state::{GroupState, Marks, PodState, QueueState, State, words};
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
        nodes_left(before, after),
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
        Some(is) => rewritten((name, &was.marks, &is.marks), |mark, change| {
            change == Change::New && GROUPING.contains(&mark)
        }),
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

/// What may become of a label, an annotation or another field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    New,
    Other,
    Gone,
}

/// What others read of an object and is not what it was, but for what may change.
fn rewritten(
    (object, was, is): (&str, &Marks, &Marks),
    may: impl Fn(&str, Change) -> bool,
) -> Vec<String> {
    let mut told = Vec::new();
    for (mark, was) in was {
        let (change, now) = match is.get(mark) {
            Some(is) if is == was => continue,
            Some(is) => (Change::Other, format!("is {is}")),
            None => (Change::Gone, "is gone".to_owned()),
        };
        if !may(mark, change) {
            told.push(format!("{object}: {mark} was {was} and {now}"));
        }
    }
    let new = is.iter().filter(|(mark, _)| !was.contains_key(*mark) && !may(mark, Change::New));
    told.extend(new.map(|(mark, is)| format!("{object}: {mark} is new: {is}")));
    told
}

/// Nobody who schedules closes nodes or labels them.
fn nodes_left(before: &State, after: &State) -> Check {
    let nothing_may = |_: &str, _: Change| false;
    let broken = before.fleet.iter().flat_map(|(node, was)| match after.fleet.get(node) {
        None => vec![format!("node {node} is gone")],
        Some(is) => rewritten((&format!("node {node}"), was, is), nothing_may),
    });
    let broken = broken.collect();
    Check::of("nodes are left as they were", format!("{} nodes", before.fleet.len()), broken)
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

/// When something happened to a group last, which schedulers note down.
const TIMES: [&str; 3] = [
    "annotation kai.scheduler/last-start-timestamp",
    "annotation kai.scheduler/last-eviction-timestamp",
    STALE_SINCE,
];

/// It goes when the group is whole again.
const STALE_SINCE: &str = "annotation kai.scheduler/stale-podgroup-timestamp";

/// Parts of a group's status that go when it waits no longer.
const TROUBLES: [&str; 2] = ["conditions", "schedulingConditions"];

/// What a group has lost of its metadata and its status. A version may write what the one before
/// did not know, in labels and annotations of schedulers; whose the group is and who holds it, it
/// may not change.
fn stripped(object: &str, was: &GroupState, is: &GroupState) -> Vec<String> {
    let may = |mark: &str, change: Change| match change {
        Change::New => mark.contains(" kai.scheduler/"),
        Change::Other => TIMES.contains(&mark),
        Change::Gone => mark == STALE_SINCE,
    };
    let mut told = rewritten((object, &was.marks, &is.marks), may);
    let lost = was.told.difference(&is.told);
    let lost = lost.filter(|part| is.told.is_empty() || !TROUBLES.contains(&part.as_str()));
    let lost: Vec<&str> = lost.map(String::as_str).collect();
    if !lost.is_empty() {
        told.push(format!("{object} lost of its status: {}", lost.join(", ")));
    }
    told
}

/// What the old version wrote is there, unchanged, and waiting work is still told why it waits.
fn still_read(before: &State, after: &State) -> Check {
    let mut broken = Vec::new();
    for (name, was) in &before.queues {
        let is = after.queues.get(name).map(|is| (&is.uid, &is.spec));
        broken.extend(other(&format!("queue {name}"), (&was.uid, &was.spec), is));
    }
    for (name, was) in &before.groups {
        let object = format!("pod group {name}");
        let is = after.groups.get(name);
        let same = is.map(|is| (&is.uid, &is.spec));
        match (other(&object, (&was.uid, &was.spec), same), is) {
            (None, Some(is)) => broken.extend(stripped(&object, was, is)),
            (why, _) => broken.extend(why),
        }
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

#[cfg(test)]
mod tests;
