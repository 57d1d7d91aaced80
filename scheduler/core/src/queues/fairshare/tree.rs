//! Divides down the tree: top queues share the cluster, children share their parent's share.

use super::{
    DivisionInput, DivisionStep, QueueDemand, divide_resource, divide_resource_with_steps,
};
use crate::{
    model::{Queue, QueueId},
    resources::{Amount, PerResource},
};

/// The fair share of every queue, by position. `requests` are sums over each queue's subtree.
pub fn fair_shares(
    queues: &[Queue],
    requests: &[PerResource<i64>],
    total: PerResource<i64>,
    k_value_milli: i64,
) -> Vec<PerResource<i64>> {
    let mut shares = vec![PerResource::default(); queues.len()];
    let children = children_of(queues);
    let mut level = vec![(total, children.top)];
    while let Some((amount, siblings)) = level.pop() {
        let divisions = RESOURCES.map(|resource| {
            let demands: Vec<QueueDemand> = siblings
                .iter()
                .map(|&at| resource.queue_demand(&queues[at], requests[at]))
                .collect();
            let input =
                DivisionInput { total: (resource.of)(&amount), unit: resource.unit, k_value_milli };
            divide_resource(input, &demands).shares
        });
        for (position, &at) in siblings.iter().enumerate() {
            let [gpu, cpu, memory] = divisions.each_ref().map(|shares| shares[position]);
            shares[at] = PerResource { gpu, cpu, memory };
            level.push((shares[at], children.of[at].clone()));
        }
    }
    shares
}

/// One level in the explanation of a queue's fair share: how one resource was divided among the
/// queues of that level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelDivision {
    /// The amount that is divided on this level, and how.
    pub input: DivisionInput,
    /// Positions of the queues on this level.
    pub siblings: Vec<usize>,
    /// Demand of each of the `siblings`.
    pub demands: Vec<QueueDemand>,
    /// Steps of the division.
    pub steps: Vec<DivisionStep>,
    /// Share of each of the `siblings`.
    pub shares: Vec<i64>,
}

/// The divisions that gave `queue` its share of `resource` (0 GPU, 1 CPU, 2 memory), top level
/// first.
pub fn divisions_on_path(
    queues: &[Queue],
    requests: &[PerResource<i64>],
    total: PerResource<i64>,
    k_value_milli: i64,
    queue: QueueId,
    resource: usize,
) -> Vec<LevelDivision> {
    let above = |at: &usize| queues[*at].parent.map(|parent| parent.0 as usize);
    let mut path: Vec<usize> = std::iter::successors(Some(queue.0 as usize), above).collect();
    path.reverse();
    let (children, resource) = (children_of(queues), &RESOURCES[resource]);
    let (mut amount, mut siblings) = ((resource.of)(&total), children.top.clone());
    let mut levels = Vec::new();
    for at in path {
        let of = |at: &usize| resource.queue_demand(&queues[*at], requests[*at]);
        let demands: Vec<QueueDemand> = siblings.iter().map(of).collect();
        let input = DivisionInput { total: amount, unit: resource.unit, k_value_milli };
        let mut recorded = Some(Vec::new());
        let shares = divide_resource_with_steps(input, &demands, &mut recorded).shares;
        let position = siblings.iter().position(|sibling| *sibling == at);
        amount = position.map_or(0, |position| shares[position]);
        let siblings = std::mem::replace(&mut siblings, children.of[at].clone());
        let steps = recorded.unwrap_or_default();
        levels.push(LevelDivision { input, siblings, demands, steps, shares });
    }
    levels
}

struct ChildrenByQueue {
    top: Vec<usize>,
    of: Vec<Vec<usize>>,
}

fn children_of(queues: &[Queue]) -> ChildrenByQueue {
    let mut children = ChildrenByQueue { top: Vec::new(), of: vec![Vec::new(); queues.len()] };
    for (at, queue) in queues.iter().enumerate() {
        match queue.parent {
            Some(QueueId(parent)) => children.of[parent as usize].push(at),
            None => children.top.push(at),
        }
    }
    children
}

/// A resource that queues account for, and its unit in a division.
struct DividedResource {
    of: fn(&PerResource<i64>) -> i64,
    bound: fn(&PerResource<Amount>) -> Amount,
    unit: i64,
}

const RESOURCES: [DividedResource; 3] = [
    DividedResource { of: |all| all.gpu, bound: |all| all.gpu, unit: 1000 },
    DividedResource { of: |all| all.cpu, bound: |all| all.cpu, unit: 1 },
    DividedResource { of: |all| all.memory, bound: |all| all.memory, unit: 1 },
];

impl DividedResource {
    fn queue_demand(&self, queue: &Queue, request: PerResource<i64>) -> QueueDemand {
        QueueDemand {
            name: queue.name.clone(),
            priority: queue.priority,
            created: queue.created,
            quota: (self.bound)(&queue.quota),
            limit: (self.bound)(&queue.limit),
            weight_milli: (self.of)(&queue.over_quota_weight_milli),
            usage_micro: (self.of)(&queue.historical_usage_micro),
            request: (self.of)(&request),
        }
    }
}
