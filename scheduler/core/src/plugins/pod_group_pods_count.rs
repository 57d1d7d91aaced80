//! `PodGroupPodsCount` (kube-scheduler): prefers placements in which more pods of the group run.

use crate::{
    framework::{GroupPlacement, PlacementScore, Session},
    model::PodGroupId,
};

/// The highest score of a placement.
const MAX_SCORE: i64 = 100;

/// Scores a placement by the number of pods of the group that have a node, or get one there.
#[derive(Debug)]
pub(super) struct PodGroupPodsCount;

impl PlacementScore for PodGroupPodsCount {
    fn score_placement(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        placement: &GroupPlacement,
    ) -> i64 {
        let assigned = i64::try_from(placement.assignments.len()).unwrap_or(i64::MAX);
        assigned.saturating_add(i64::from(session.members(group).scheduled_count()))
    }

    fn normalize_placement_score(&self, scores: &mut [i64]) {
        let most = scores.iter().copied().max().unwrap_or(0).max(1);
        for score in scores {
            *score = *score * MAX_SCORE / most;
        }
    }
}
