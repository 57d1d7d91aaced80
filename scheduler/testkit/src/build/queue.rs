//! Queues from lines of text.

use std::collections::BTreeMap;

use super::{super::to_name, LineTokens, NOW, SnapshotBuilder};
use schedlab_scheduler_core::{
    model::{Name, Queue, QueueId, QueueProblem, Time},
    resources::{Amount, PerResource},
};

impl SnapshotBuilder {
    pub(super) fn add_queue(&mut self, mut tokens: LineTokens<'_>) {
        let name = to_name(tokens.take_first());
        let parent = tokens.take_value("parent").map(Name::from);
        let unlimited = Amount::Unlimited;
        let weight = tokens.take_milli("weight").unwrap_or(1000);
        let queue = Queue {
            name: name.clone(),
            parent: None,
            priority: tokens
                .take_number("priority")
                .map_or(100, |it| i32::try_from(it).expect("32 bits")),
            quota: PerResource {
                gpu: tokens.take_amount("quota").unwrap_or(Amount::Exactly(0)),
                cpu: tokens.take_amount("cpu-quota").unwrap_or(unlimited),
                memory: tokens.take_bytes("memory-quota").map_or(unlimited, Amount::Exactly),
            },
            limit: PerResource {
                gpu: tokens.take_amount("limit").unwrap_or(unlimited),
                cpu: tokens.take_amount("cpu-limit").unwrap_or(unlimited),
                memory: tokens.take_bytes("memory-limit").map_or(unlimited, Amount::Exactly),
            },
            over_quota_weight_milli: PerResource { gpu: weight, cpu: weight, memory: weight },
            created: Time(NOW - self.age),
            preempt_min_runtime: tokens.take_duration("preempt-min-runtime"),
            reclaim_min_runtime: tokens.take_duration("reclaim-min-runtime"),
            historical_usage_micro: PerResource {
                gpu: tokens.take_number("used").unwrap_or(0),
                ..PerResource::default()
            },
        };
        tokens.expect_end();
        self.queues.insert(name, (queue, parent));
    }
}

pub(super) fn leaf_queue_id(queues: &[Queue], name: &Name) -> Result<QueueId, QueueProblem> {
    let at = queues.iter().position(|queue| queue.name == *name);
    let at = at.ok_or_else(|| QueueProblem::Missing { queue: name.clone() })?;
    let id = QueueId(u32::try_from(at).expect("few queues"));
    match queues.iter().find(|queue| queue.parent == Some(id)) {
        Some(child) => {
            Err(QueueProblem::NotALeaf { queue: name.clone(), child: child.name.clone() })
        }
        None => Ok(id),
    }
}

pub(super) fn resolve_parents(queues: BTreeMap<Name, (Queue, Option<Name>)>) -> Vec<Queue> {
    let names: Vec<Name> = queues.keys().cloned().collect();
    let parent = |parent: Name| {
        let at =
            names.iter().position(|name| *name == parent).expect("the parent has a `queue` line");
        QueueId(u32::try_from(at).expect("few queues"))
    };
    let all = queues.into_values();
    all.map(|(queue, above)| Queue { parent: above.map(parent), ..queue }).collect()
}
