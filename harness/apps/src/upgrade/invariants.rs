//! Invariants of an upgrade, checked on the captures before and after it and on the violations
//! observed in between.

use std::collections::BTreeMap;

use schedlab_api::{Value, quantity::thousandths, resources};
use serde::Serialize;

use super::capture::{
    ClusterCapture, GroupState, ObjectMetadata, PodState, QueueState, pod_summary,
};
use super::monitor::Violations;
use super::workload::{OVER_LIMIT_PODS, is_changed_by_new_work};
use schedlab_conformance::text::counted_noun;
use schedlab_conformance::world::observed::Phase;

/// A check of one invariant, and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InvariantCheck {
    /// The invariant that was checked, as a sentence.
    pub claim: String,
    /// What was checked, such as `7 running pods`.
    #[serde(rename = "seen")]
    pub evidence: String,
    /// Violations; empty when the check passed.
    #[serde(rename = "broken")]
    pub violations: Vec<String>,
}

impl InvariantCheck {
    /// Whether the check passed.
    pub fn passed(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn failed(claim: &str, violations: Vec<String>) -> Self {
        Self { claim: claim.to_owned(), evidence: String::new(), violations }
    }

    pub(super) fn passed_with(claim: &str, evidence: &str) -> Self {
        Self { claim: claim.to_owned(), evidence: evidence.to_owned(), violations: Vec::new() }
    }

    fn new(claim: &str, evidence: String, violations: Vec<String>) -> Self {
        Self { claim: claim.to_owned(), evidence, violations }
    }
}

/// The results of all checks of a replacement.
pub(super) fn check_all(
    before: &ClusterCapture,
    after: &ClusterCapture,
    seen: &Violations,
) -> Vec<InvariantCheck> {
    vec![
        check_running_pods_untouched(before, after),
        check_nodes_unchanged(before, after),
        check_pods_bound_once(after, seen),
        check_gangs_whole(after, seen),
        check_queue_status(before, after),
        check_old_objects_still_load(before, after),
        check_queues_within_limits(after, seen),
    ]
}

fn check_running_pods_untouched(before: &ClusterCapture, after: &ClusterCapture) -> InvariantCheck {
    let running: Vec<(&String, &PodState)> =
        before.pods.iter().filter(|(_, pod)| pod.phase == Phase::Running).collect();
    let broken = running.iter().flat_map(|(name, was)| match after.pods.get(*name) {
        None => vec![format!("pod {name} ran on node {} and is gone", was.node)],
        Some(is) if is.uid != was.uid => {
            vec![format!("pod {name} ran on node {} and was replaced by another pod", was.node)]
        }
        Some(is) if (is.phase, is.restarts) != (was.phase, was.restarts) || is.node != was.node => {
            vec![format!("{name} was {} and is {}", pod_summary(was), pod_summary(is))]
        }
        Some(is) => metadata_changes(name, &was.metadata, &is.metadata, |mark, change| {
            change == MetadataChange::Added && GROUPING_METADATA.contains(&mark)
        }),
    });
    let broken = broken.collect();
    InvariantCheck::new(
        "no running pod is touched",
        counted_noun(running.len(), "running pod"),
        broken,
    )
}

/// Metadata that assigns a pod to a pod group. Changes to it are permitted, because a version may
/// be the first that groups running pods.
const GROUPING_METADATA: [&str; 3] = [
    "annotation pod-group-name",
    "label kai.scheduler/subgroup-name",
    "annotation kai.scheduler/subgroup-name",
];

/// How a label, an annotation or another metadata field changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataChange {
    Added,
    Changed,
    Removed,
}

/// Changes of an object's metadata, except those for which `may` returns true.
fn metadata_changes(
    object: &str,
    was: &ObjectMetadata,
    is: &ObjectMetadata,
    may: impl Fn(&str, MetadataChange) -> bool,
) -> Vec<String> {
    let mut changes = Vec::new();
    for (mark, was) in was {
        let (change, now) = match is.get(mark) {
            Some(is) if is == was => continue,
            Some(is) => (MetadataChange::Changed, format!("is {is}")),
            None => (MetadataChange::Removed, "is gone".to_owned()),
        };
        if !may(mark, change) {
            changes.push(format!("{object}: {mark} was {was} and {now}"));
        }
    }
    let new =
        is.iter().filter(|(mark, _)| !was.contains_key(*mark) && !may(mark, MetadataChange::Added));
    changes.extend(new.map(|(mark, is)| format!("{object}: {mark} is new: {is}")));
    changes
}

/// Checks that the scheduler did not cordon, taint or label nodes.
fn check_nodes_unchanged(before: &ClusterCapture, after: &ClusterCapture) -> InvariantCheck {
    let nothing_may = |_: &str, _: MetadataChange| false;
    let broken =
        before.node_metadata.iter().flat_map(|(node, was)| match after.node_metadata.get(node) {
            None => vec![format!("node {node} is gone")],
            Some(is) => metadata_changes(&format!("node {node}"), was, is, nothing_may),
        });
    let broken = broken.collect();
    InvariantCheck::new(
        "nodes are unchanged",
        counted_noun(before.node_metadata.len(), "node"),
        broken,
    )
}

fn check_pods_bound_once(after: &ClusterCapture, seen: &Violations) -> InvariantCheck {
    let broken = seen.double_bindings.values().cloned().collect();
    InvariantCheck::new("nothing is bound twice", counted_noun(after.nodes.len(), "node"), broken)
}

/// Checks that no gang is partly bound afterwards, and that no complete gang lost members
/// meanwhile.
fn check_gangs_whole(after: &ClusterCapture, seen: &Violations) -> InvariantCheck {
    let mut broken = seen.broken_gangs.clone();
    for (name, least) in after.gangs_with_min_members() {
        let bound = after.bound_member_count(name);
        if 0 < bound && bound < least {
            let why = format!("gang {name} needs {least} and has {bound} bound");
            broken.insert(name.clone(), why);
        }
    }
    let seen = counted_noun(after.gangs_with_min_members().count(), "gang");
    InvariantCheck::new("no gang breaks", seen, broken.into_values().collect())
}

/// Checks that a queue's allocated status equals what its pods hold, and that status which new work
/// does not affect is unchanged.
fn check_queue_status(before: &ClusterCapture, after: &ClusterCapture) -> InvariantCheck {
    let claim = "queue status is recomputed with equal values";
    if before.queues.values().all(|queue| !queue.status.contains_key("allocated")) {
        return InvariantCheck::passed_with(claim, "the old version wrote no queue status");
    }
    let mut broken = Vec::new();
    for (name, is) in &after.queues {
        let reported = is.status.get("allocated").map(|all| &all[resources::GPU]);
        let reported = reported.and_then(thousandths).unwrap_or(0);
        let held = after.used_gpu_milli_of_queue(name);
        if reported != held {
            let (reported, held) = (reported / 1000, held / 1000);
            broken.push(format!(
                "queue {name} reports {reported} allocated GPUs, its pods hold \
                    {held}"
            ));
        }
        let Some(was) = before.queues.get(name) else { continue };
        let comparable_status = |queue: &QueueState| -> BTreeMap<String, Value> {
            let status =
                queue.status.iter().filter(|(field, _)| !is_changed_by_new_work(name, field));
            status.map(|(field, value)| (field.clone(), value.clone())).collect()
        };
        let (was, is) = (comparable_status(was), comparable_status(is));
        if was != is {
            let show = |status| serde_json::to_string(status).unwrap_or_default();
            broken.push(format!(
                "queue {name} reported {} and now reports {}",
                show(&was),
                show(&is)
            ));
        }
    }
    InvariantCheck::new(claim, counted_noun(after.queues.len(), "queue"), broken)
}

/// What must not change in an object: its uid (else it was replaced) and its spec.
struct UidAndSpec<'a> {
    uid: &'a str,
    spec: &'a Value,
}

/// The message about an object that was deleted, replaced or changed; `None` if it is unchanged.
fn replacement_or_change_text(
    object: &str,
    before: &UidAndSpec<'_>,
    after: Option<UidAndSpec<'_>>,
) -> Option<String> {
    match after {
        None => Some(format!("{object} is gone")),
        Some(is) if is.uid != before.uid => {
            Some(format!("{object} was replaced by another of that name"))
        }
        Some(is) if is.spec != before.spec => Some(format!("{object} has another spec")),
        Some(_) => None,
    }
}

/// Annotations with timestamps that schedulers update.
const TIMESTAMP_ANNOTATIONS: [&str; 3] = [
    "annotation kai.scheduler/last-start-timestamp",
    "annotation kai.scheduler/last-eviction-timestamp",
    STALE_SINCE,
];

/// The scheduler removes this annotation when the gang is complete again.
const STALE_SINCE: &str = "annotation kai.scheduler/stale-podgroup-timestamp";

/// Status fields of a pending pod group that are removed once it runs.
const PENDING_CONDITIONS: [&str; 2] = ["conditions", "schedulingConditions"];

/// Messages about metadata and status fields that a pod group lost. A version may add labels and
/// annotations of schedulers, but must not change owners or finalizers.
fn lost_group_fields(object: &str, before: &GroupState, after: &GroupState) -> Vec<String> {
    let may = |mark: &str, change: MetadataChange| match change {
        MetadataChange::Added => mark.contains(" kai.scheduler/"),
        MetadataChange::Changed => TIMESTAMP_ANNOTATIONS.contains(&mark),
        MetadataChange::Removed => mark == STALE_SINCE,
    };
    let mut changes = metadata_changes(object, &before.metadata, &after.metadata, may);
    let lost = before.status_fields.difference(&after.status_fields);
    let lost = lost.filter(|part| {
        after.status_fields.is_empty() || !PENDING_CONDITIONS.contains(&part.as_str())
    });
    let lost: Vec<&str> = lost.map(String::as_str).collect();
    if !lost.is_empty() {
        changes.push(format!("{object} lost status: {}", lost.join(", ")));
    }
    changes
}

/// Checks that objects which the old version wrote still exist unchanged, and that pending pods
/// still have a reason.
fn check_old_objects_still_load(before: &ClusterCapture, after: &ClusterCapture) -> InvariantCheck {
    let mut broken = Vec::new();
    for (name, was) in &before.queues {
        let is = after.queues.get(name).map(|is| UidAndSpec { uid: &is.uid, spec: &is.spec });
        let was = UidAndSpec { uid: &was.uid, spec: &was.spec };
        broken.extend(replacement_or_change_text(&format!("queue {name}"), &was, is));
    }
    for (name, was) in &before.groups {
        let object = format!("pod group {name}");
        let is = after.groups.get(name);
        let before = UidAndSpec { uid: &was.uid, spec: &was.spec };
        let now = is.map(|is| UidAndSpec { uid: &is.uid, spec: &is.spec });
        match (replacement_or_change_text(&object, &before, now), is) {
            (None, Some(is)) => broken.extend(lost_group_fields(&object, was, is)),
            (why, _) => broken.extend(why),
        }
    }
    let pods_with_reason = before.pods.iter().filter(|(_, pod)| pod.has_pending_reason());
    for (name, _) in pods_with_reason {
        match after.pods.get(name) {
            None => broken.push(format!("{name} was pending and is gone")),
            Some(is) if is.phase == Phase::Pending && !is.has_pending_reason() => {
                broken.push(format!("{name} is pending and has no reason any more"));
            }
            Some(_) => {}
        }
    }
    let seen = [
        counted_noun(before.queues.len(), "queue"),
        counted_noun(before.groups.len(), "pod group"),
    ]
    .join(", ");
    InvariantCheck::new("objects of the old version still load", seen, broken)
}

fn check_queues_within_limits(after: &ClusterCapture, seen: &Violations) -> InvariantCheck {
    let over = seen.over_limit.values().cloned().collect();
    InvariantCheck::new(
        "no queue exceeds its limit",
        counted_noun(after.queues.len(), "queue"),
        over,
    )
}

/// Checks that new work that cannot run got a reason. Only the new version can have reported it.
pub(super) fn check_pending_reasons(result: Result<(), String>) -> InvariantCheck {
    let claim = "new pending work has a reason";
    InvariantCheck::new(
        claim,
        counted_noun(OVER_LIMIT_PODS.len(), "pod"),
        result.err().into_iter().collect(),
    )
}

#[cfg(test)]
mod tests;
