//! The tree of queues: parents resolved, broken queues left out with everything below them.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    model::{Name, Queue, QueueId, QueueProblem},
    resources::PerResource,
};

use crate::mirror::QueueRecord;

/// What becomes of a pod group that names a queue.
pub(super) type QueueOf = BTreeMap<Name, Result<QueueId, QueueProblem>>;

/// The usable queues by name, and the answer for every name.
pub(super) fn translate(records: &BTreeMap<Name, QueueRecord>) -> (Vec<Queue>, QueueOf) {
    let problems: BTreeMap<&Name, QueueProblem> =
        records.keys().filter_map(|name| Some((name, problem(records, name)?))).collect();
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
    let answer = |name: &Name| match (problems.get(name), children.get(name)) {
        (Some(problem), _) => Err(problem.clone()),
        (None, Some(child)) => {
            Err(QueueProblem::NotALeaf { queue: Name::clone(name), child: Name::clone(child) })
        }
        (None, None) => Ok(ids[name]),
    };
    let answers = records.keys().map(|name| (Name::clone(name), answer(name))).collect();
    (queues, answers)
}

/// Those with a parent, without it: each stands for itself. The others do not exist.
pub(super) fn side_by_side(records: &BTreeMap<Name, QueueRecord>) -> BTreeMap<Name, QueueRecord> {
    let below = records.iter().filter(|(_, record)| record.parent.is_some());
    let alone = |record: &QueueRecord| QueueRecord { parent: None, ..record.clone() };
    below.map(|(name, record)| (Name::clone(name), alone(record))).collect()
}

/// Why a queue cannot be used: for itself, or for one above it.
pub(crate) fn problem(records: &BTreeMap<Name, QueueRecord>, queue: &Name) -> Option<QueueProblem> {
    let mut at = queue;
    // More steps than queues go round in a circle.
    for _ in 0..=records.len() {
        let record = records.get(at)?;
        if let Some(malformed) = &record.malformed {
            let (queue, whose) = (Name::clone(queue), Name::clone(at));
            let detail = malformed.to_string().into();
            return Some(QueueProblem::Malformed { queue, whose, detail });
        }
        let parent = record.parent.as_ref()?;
        if !records.contains_key(parent) {
            let parent = Name::clone(parent);
            let (queue, child) = (Name::clone(queue), Name::clone(at));
            return Some(QueueProblem::ParentMissing { queue, child, parent });
        }
        at = parent;
    }
    Some(QueueProblem::Cycle { queue: Name::clone(queue), circle: circle(records, at) })
}

/// The queues of the circle that `inside` is one of, from the first by name.
fn circle(records: &BTreeMap<Name, QueueRecord>, inside: &Name) -> Vec<Name> {
    let parent = |at: &&Name| records.get(*at)?.parent.as_ref();
    let way = std::iter::successors(Some(inside), parent).skip(1);
    let mut circle: Vec<Name> = way.take_while(|at| *at != inside).cloned().collect();
    circle.push(Name::clone(inside));
    let first = circle.iter().enumerate().min_by_key(|(_, queue)| *queue).map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    circle
}
