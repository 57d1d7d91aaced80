//! Everything that may be evicted in one action, by leaf queue. What is evicted leaves the pool.

use std::collections::BTreeMap;

use super::{
    Unit, UnitKey,
    units::{Pods, units_of},
};
use crate::{
    model::{PodId, QueueId},
    queues::age_ranks,
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
        let mut running: Vec<Pods> = vec![Vec::new(); snapshot.pod_groups.len()];
        for (pod, at) in snapshot.pods.iter().zip(0..) {
            let preemptible = pod.group.filter(|group| session.group(*group).preemptible);
            let state = session.state(PodId(at));
            if let (Some(group), PodState::Holding(node)) = (preemptible, state)
                && session.can_evict(PodId(at))
            {
                running[group.0 as usize].push((PodId(at), node));
            }
        }
        let ranks = age_ranks(&snapshot.pod_groups);
        let mut leaves = vec![BTreeMap::new(); snapshot.queues.len()];
        for (group, pods) in session.groups().zip(&running).filter(|(_, pods)| !pods.is_empty()) {
            let Ok(Some(queue)) = session.group(group).queue else { continue };
            let units = units_of(session, (group, queue), ranks[group.0 as usize], pods);
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
