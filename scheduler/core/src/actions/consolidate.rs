//! Consolidation: running work moves together so that a waiting preemptible job finds room in
//! one piece. Every pod that is moved gets another place at once, and only few jobs move. Where
//! pods are spread on purpose, nothing is moved together again.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    decision::EvictionCause,
    model::{PodGroupId, QueueId},
    profile::{Action, Placement},
    session::Session,
    victims::{Before, Manner, Purpose, Solution, Solved, Unit, Wanted, serve},
};

/// Serves every preemptible job that fits once others have moved.
pub(crate) fn run(session: &mut Session<'_>, solved: &mut Solved) {
    let profile = session.profile;
    if ![profile.gpu_placement, profile.cpu_placement].contains(&Placement::Spread) {
        serve(session, &Consolidate { victims_max: profile.consolidation_victims_max }, solved);
    }
}

struct Consolidate {
    victims_max: usize,
}

impl Purpose for Consolidate {
    fn action(&self) -> Action {
        Action::Consolidate
    }

    fn may_start(&self, before: &Before<'_>, wanted: &Wanted) -> bool {
        let enough = wanted.request.values().into_iter().zip(before.free.values());
        wanted.preemptible && enough.into_iter().all(|(asked, free)| asked <= free)
    }

    fn may_take_from(&self, _: &Before<'_>, _: &Wanted, _: QueueId) -> bool {
        true
    }

    fn protected_for(&self, _: &Before<'_>, _: &Wanted, _: &Unit) -> Option<Duration> {
        None
    }

    fn accepts(&self, _: &Before<'_>, _: &Wanted, solution: &Solution) -> bool {
        let jobs: BTreeSet<PodGroupId> = solution.moved.iter().map(|unit| unit.group).collect();
        solution.victims.is_empty() && jobs.len() <= self.victims_max
    }

    fn manner(&self) -> Manner {
        Manner::Move
    }

    fn cause(&self, _: &Before<'_>, wanted: &Wanted, _: &Unit) -> EvictionCause {
        EvictionCause::Consolidate { preemptor: wanted.group }
    }
}
