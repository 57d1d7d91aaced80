//! The tree of queues, without broken queues and all below them.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    model::{Name, Queue, QueueId, QueueProblem},
    resources::PerResource,
};

use crate::cache::QueueRecord;

/// By queue name: the queue's ID, or why pod groups cannot use the queue.
pub(super) type QueueLookup = BTreeMap<Name, Result<QueueId, QueueProblem>>;

/// The usable queues by name, and the lookup for all names.
pub(super) fn build_queues(records: &BTreeMap<Name, QueueRecord>) -> (Vec<Queue>, QueueLookup) {
    let problems: BTreeMap<&Name, QueueProblem> =
        records.keys().filter_map(|name| Some((name, queue_problem(records, name)?))).collect();
    let usable = records.iter().filter(|(name, _)| !problems.contains_key(name));
    let ids: BTreeMap<&Name, QueueId> =
        usable.clone().zip(0..).map(|((name, _), id)| (name, QueueId(id))).collect();
    let queue = |(name, record): (&Name, &QueueRecord)| Queue {
        name: Name::clone(name),
        parent: record.parent.as_ref().and_then(|parent| ids.get(parent).copied()),
        priority: record.priority,
        quota: record.quota,
        limit: record.limit,
        over_quota_weight_milli: record.over_quota_weight_milli,
        created: record.created,
        preempt_min_runtime: record.preempt_min_runtime,
        reclaim_min_runtime: record.reclaim_min_runtime,
        historical_usage_micro: PerResource::default(),
    };
    let queues = usable.map(queue).collect();
    let children: BTreeMap<&Name, &Name> = records
        .iter()
        .rev()
        .filter_map(|(name, record)| Some((record.parent.as_ref()?, name)))
        .collect();
    let lookup = |name: &Name| match (problems.get(name), children.get(name)) {
        (Some(problem), _) => Err(problem.clone()),
        (None, Some(child)) => {
            Err(QueueProblem::NotALeaf { queue: Name::clone(name), child: Name::clone(child) })
        }
        (None, None) => Ok(ids[name]),
    };
    let lookups = records.keys().map(|name| (Name::clone(name), lookup(name))).collect();
    (queues, lookups)
}

/// The queues with a parent, as top-level queues; queues without a parent are left out
/// (`fullHierarchyFairness: false`, as in KAI).
pub(super) fn without_hierarchy(
    records: &BTreeMap<Name, QueueRecord>,
) -> BTreeMap<Name, QueueRecord> {
    let below = records.iter().filter(|(_, record)| record.parent.is_some());
    let alone = |record: &QueueRecord| QueueRecord { parent: None, ..record.clone() };
    below.map(|(name, record)| (Name::clone(name), alone(record))).collect()
}

/// Why a queue cannot be used: its own problem, or that of a queue above it.
pub(crate) fn queue_problem(
    records: &BTreeMap<Name, QueueRecord>,
    queue: &Name,
) -> Option<QueueProblem> {
    let mut current = queue;
    // More steps than queues mean a cycle.
    for _ in 0..=records.len() {
        let record = records.get(current)?;
        if let Some(malformed) = &record.malformed {
            let (queue, faulty_queue) = (Name::clone(queue), Name::clone(current));
            let detail = malformed.to_string().into();
            return Some(QueueProblem::Malformed { queue, faulty_queue, detail });
        }
        let parent = record.parent.as_ref()?;
        if !records.contains_key(parent) {
            let parent = Name::clone(parent);
            let (queue, child) = (Name::clone(queue), Name::clone(current));
            return Some(QueueProblem::ParentMissing { queue, child, parent });
        }
        current = parent;
    }
    Some(QueueProblem::Cycle { queue: Name::clone(queue), cycle: cycle_of(records, current) })
}

/// The queues of the cycle that contains `queue`, starting with the first by name.
fn cycle_of(records: &BTreeMap<Name, QueueRecord>, queue: &Name) -> Vec<Name> {
    let parent = |at: &&Name| records.get(*at)?.parent.as_ref();
    let way = std::iter::successors(Some(queue), parent).skip(1);
    let mut circle: Vec<Name> = way.take_while(|at| *at != queue).cloned().collect();
    circle.push(Name::clone(queue));
    let first = circle.iter().enumerate().min_by_key(|(_, queue)| *queue).map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    circle
}
