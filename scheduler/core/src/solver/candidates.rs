//! The evictable units of one action, by leaf queue. Evicted units are removed.

use std::collections::BTreeMap;

use super::{
    EvictableUnit, SearchMode, UnitKey, UnitPortion,
    evictable_unit::{RunningPods, units_of_job},
};
use crate::{
    framework::{PodState, Session},
    model::{PodGroupId, QueueId},
};

/// The evictable units of all preemptible jobs that have running pods.
#[derive(Clone, Debug)]
pub(crate) struct EvictionCandidates {
    /// The only mode of searches that the units are for; `None`: all modes.
    mode: Option<SearchMode>,
    by_queue: Vec<BTreeMap<UnitKey, EvictableUnit>>,
}

impl EvictionCandidates {
    /// Collects the evictable units. Pods that were placed in this cycle leave only with their
    /// whole gang, and do not move.
    pub(crate) fn new(session: &Session<'_>, mode: SearchMode) -> Self {
        let snapshot = session.snapshot;
        let mut jobs = vec![RunningPods::default(); snapshot.pod_groups.len()];
        for (pod, id) in snapshot.pods.iter().zip(session.pod_ids()) {
            let preemptible = pod.group.filter(|group| session.group(*group).preemptible);
            let (Some(group), PodState::Allocated(node)) = (preemptible, session.state(id)) else {
                continue;
            };
            let job = &mut jobs[group.0 as usize];
            if session.can_evict(id) {
                job.pods.push((id, node));
            } else {
                job.newly_placed.push((id, node));
            }
        }
        let mut by_queue = vec![BTreeMap::new(); snapshot.queues.len()];
        let mut has_newly_placed = false;
        for (group, job) in session.groups().zip(&jobs).filter(|(_, job)| !job.pods.is_empty()) {
            let Ok(Some(queue)) = session.group(group).queue else { continue };
            let mut units = units_of_job(session, group, queue, job);
            has_newly_placed |= !job.newly_placed.is_empty();
            if mode == SearchMode::Move && !job.newly_placed.is_empty() {
                units.retain(|unit| unit.portion == UnitPortion::Elastic);
            }
            by_queue[queue.0 as usize].extend(units.into_iter().map(|unit| (unit.key, unit)));
        }
        Self { mode: has_newly_placed.then_some(mode), by_queue }
    }

    /// Whether the units are those of searches in this mode.
    pub(crate) fn are_for(&self, mode: SearchMode) -> bool {
        self.mode.is_none_or(|only| only == mode)
    }

    /// The queues that have evictable units, leaf queues only.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        let filled = (0..).zip(&self.by_queue).filter(|(_, units)| !units.is_empty());
        filled.map(|(at, _)| QueueId(at))
    }

    /// The units of `queue` in the order in which they would be evicted, starting after the unit
    /// `after`.
    pub(crate) fn units_worst_first(
        &self,
        queue: QueueId,
        after: Option<UnitKey>,
    ) -> impl Iterator<Item = &EvictableUnit> {
        let units = &self.by_queue[queue.0 as usize];
        let rest = match after {
            Some(key) => units.range(..key),
            None => units.range(..),
        };
        rest.rev().map(|(_, unit)| unit)
    }

    /// Whether some unit of `queue` belongs to the group.
    pub(crate) fn has_units_of(&self, queue: QueueId, group: PodGroupId) -> bool {
        self.by_queue[queue.0 as usize].values().any(|unit| unit.group == group)
    }

    /// Removes a unit that was evicted.
    pub(crate) fn remove_unit(&mut self, unit: &EvictableUnit) {
        self.by_queue[unit.queue.0 as usize].remove(&unit.key);
    }
}
