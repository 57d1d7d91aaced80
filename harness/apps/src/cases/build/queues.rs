//! The queues of a case: queues with a missing ancestor are left out, and jobs may only name
//! leaves.

use std::{collections::BTreeMap, time::Duration};

use schedlab_scheduler_core::{
    model::{Queue, QueueId, QueueProblem, Time},
    resources::PerResource,
};

use super::{
    super::format::{QueueSpec, ResourceShare},
    SNAPSHOT_TIME, amount_or_unlimited, round_to_i64, to_name,
};

/// The queues of a case that can be used; and for each queue name, the queue's id or the reason why
/// jobs cannot use the queue.
pub(super) struct CaseQueues<'a> {
    pub(super) usable: Vec<Queue>,
    pub(super) by_job_queue: BTreeMap<&'a str, Result<QueueId, QueueProblem>>,
}

/// Builds the queue tree of a case. The caller has checked that no queue is its own ancestor.
pub(super) fn queue_tree(specs: &[QueueSpec]) -> CaseQueues<'_> {
    let by_name: BTreeMap<&str, &QueueSpec> =
        specs.iter().map(|spec| (spec.name.as_str(), spec)).collect();
    let usable = || specs.iter().filter(|spec| find_missing_parent(&by_name, spec).is_none());
    let ids: BTreeMap<&str, QueueId> =
        usable().zip(0..).map(|(spec, at)| (spec.name.as_str(), QueueId(at))).collect();
    let answer = |spec: &QueueSpec| {
        let queue = to_name(&spec.name);
        if let Some((child, parent)) = find_missing_parent(&by_name, spec) {
            let (child, parent) = (to_name(&child.name), to_name(parent));
            return Err(QueueProblem::ParentMissing { queue, child, parent });
        }
        let child = specs.iter().find(|child| child.parent.as_deref() == Some(&*spec.name));
        match child.map(|child| to_name(&child.name)) {
            Some(child) => Err(QueueProblem::NotALeaf { queue, child }),
            None => Ok(ids[spec.name.as_str()]),
        }
    };
    let answers = specs.iter().map(|spec| (spec.name.as_str(), answer(spec))).collect();
    CaseQueues {
        usable: usable().map(|spec| queue_from_spec(spec, &ids)).collect(),
        by_job_queue: answers,
    }
}

/// The queue or ancestor whose parent is missing, and that parent's name.
fn find_missing_parent<'a>(
    by_name: &BTreeMap<&str, &'a QueueSpec>,
    spec: &'a QueueSpec,
) -> Option<(&'a QueueSpec, &'a str)> {
    let mut at = spec;
    loop {
        let parent = at.parent.as_deref()?;
        match by_name.get(parent) {
            Some(above) => at = above,
            None => return Some((at, parent)),
        }
    }
}

fn queue_from_spec(spec: &QueueSpec, ids: &BTreeMap<&str, QueueId>) -> Queue {
    let (gpu, cpu, memory) =
        (&spec.resources.gpu, &spec.resources.cpu_millis, &spec.resources.memory_mb);
    let amounts = |of: fn(&ResourceShare) -> f64| PerResource {
        gpu: amount_or_unlimited(of(gpu), 1e3),
        cpu: amount_or_unlimited(of(cpu), 1.0),
        memory: amount_or_unlimited(of(memory), 1e6),
    };
    let weight = |share: &ResourceShare| round_to_i64(share.over_quota_weight * 1000.0);
    Queue {
        name: to_name(&spec.name),
        parent: spec.parent.as_deref().and_then(|parent| ids.get(parent).copied()),
        priority: spec.priority,
        quota: amounts(|share| share.quota),
        limit: amounts(|share| share.limit),
        over_quota_weight_milli: PerResource {
            gpu: weight(gpu),
            cpu: weight(cpu),
            memory: weight(memory),
        },
        created: Time(SNAPSHOT_TIME.0 + spec.created_offset_s * 1000),
        preempt_min_runtime: spec.preempt_min_runtime_s.map(Duration::from_secs),
        reclaim_min_runtime: spec.reclaim_min_runtime_s.map(Duration::from_secs),
        historical_usage_micro: PerResource::default(),
    }
}
