//! The division down the tree: top queues share the cluster, children their parent's share.

use super::{Pot, QueueDemand, divide};
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
            let demands: Vec<QueueDemand> =
                siblings.iter().map(|&at| resource.demand(&queues[at], requests[at])).collect();
            let pot = Pot { total: (resource.of)(&amount), unit: resource.unit, k_value_milli };
            divide(pot, &demands).shares
        });
        for (position, &at) in siblings.iter().enumerate() {
            let [gpu, cpu, memory] = divisions.each_ref().map(|shares| shares[position]);
            shares[at] = PerResource { gpu, cpu, memory };
            level.push((shares[at], children.of[at].clone()));
        }
    }
    shares
}

struct Children {
    top: Vec<usize>,
    of: Vec<Vec<usize>>,
}

fn children_of(queues: &[Queue]) -> Children {
    let mut children = Children { top: Vec::new(), of: vec![Vec::new(); queues.len()] };
    for (at, queue) in queues.iter().enumerate() {
        match queue.parent {
            Some(QueueId(parent)) => children.of[parent as usize].push(at),
            None => children.top.push(at),
        }
    }
    children
}

/// One of the three resources that queues account for, and its smallest part in a division.
struct Resource {
    of: fn(&PerResource<i64>) -> i64,
    bound: fn(&PerResource<Amount>) -> Amount,
    unit: i64,
}

const RESOURCES: [Resource; 3] = [
    Resource { of: |all| all.gpu, bound: |all| all.gpu, unit: 1000 },
    Resource { of: |all| all.cpu, bound: |all| all.cpu, unit: 1 },
    Resource { of: |all| all.memory, bound: |all| all.memory, unit: 1 },
];

impl Resource {
    fn demand(&self, queue: &Queue, request: PerResource<i64>) -> QueueDemand {
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
