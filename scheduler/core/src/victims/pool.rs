//! Everything that may be evicted in one action, by leaf queue. What is evicted leaves the pool.

use std::collections::BTreeMap;

use super::{
    Unit, UnitKey,
    units::{Running, units_of},
};
use crate::{
    model::QueueId,
    session::{PodState, Session},
};

/// The units of all preemptible jobs with running pods.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    leaves: Vec<BTreeMap<UnitKey, Unit>>,
}

impl Pool {
    /// Of the pods that hold a node since before this cycle.
    pub(crate) fn new(session: &Session<'_>) -> Self {
        let snapshot = session.snapshot;
        let mut jobs = vec![Running::default(); snapshot.pod_groups.len()];
        for (pod, id) in snapshot.pods.iter().zip(session.pod_ids()) {
            let preemptible = pod.group.filter(|group| session.group(*group).preemptible);
            let (Some(group), PodState::Holding(node)) = (preemptible, session.state(id)) else {
                continue;
            };
            let job = &mut jobs[group.0 as usize];
            if session.can_evict(id) {
                job.pods.push((id, node));
            } else {
                job.newly_placed.push(pod.sub_group);
            }
        }
        let mut leaves = vec![BTreeMap::new(); snapshot.queues.len()];
        for (group, job) in session.groups().zip(&jobs).filter(|(_, job)| !job.pods.is_empty()) {
            let Ok(Some(queue)) = session.group(group).queue else { continue };
            let units = units_of(session, (group, queue), job);
            leaves[queue.0 as usize].extend(units.into_iter().map(|unit| (unit.key, unit)));
        }
        Self { leaves }
    }

    /// Queues in which there is something to evict.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        let filled = (0..).zip(&self.leaves).filter(|(_, units)| !units.is_empty());
        filled.map(|(at, _)| QueueId(at))
    }

    /// The units of `queue`, worst first, from just behind `after`.
    pub(crate) fn worst_first(
        &self,
        queue: QueueId,
        after: Option<UnitKey>,
    ) -> impl Iterator<Item = &Unit> {
        let units = &self.leaves[queue.0 as usize];
        let rest = match after {
            Some(key) => units.range(..key),
            None => units.range(..),
        };
        rest.rev().map(|(_, unit)| unit)
    }

    /// It was evicted.
    pub(crate) fn remove(&mut self, unit: &Unit) {
        self.leaves[unit.queue.0 as usize].remove(&unit.key);
    }
}
