//! Pods that have to be in one place of a topology, and keep each other from it.

use super::{
    NoPlace, Session, Unplaced, WrongLevel,
    apart::COMPARED_MAX,
    no_place::Sought,
    topology::{Levels, Together},
};
use crate::{
    framework::Apart,
    model::{HOSTNAME, Name, PodId, TopologyConstraint},
};

/// Two pods that cannot be in one place.
struct Odds<'a> {
    pods: [PodId; 2],
    apart: Apart<'a>,
    /// How deep the level lies no place of which holds both.
    depth: usize,
}

impl Session<'_> {
    /// The level cannot be required of them, whoever leaves: two of them, or one and another one of
    /// theirs that runs, are never in one place.
    pub(super) fn at_odds(&mut self, sought: Sought<'_>) -> Option<Unplaced> {
        let Sought { constraint, together, .. } = sought;
        let levels = self.levels(constraint).ok().filter(Levels::is_required)?;
        let Odds { pods, apart, depth } = self.odds(levels, together)?;
        let over = match apart {
            Apart::Node => None,
            Apart::Label(label) => Some(Name::clone(label)),
        };
        let pods = pods.map(|pod| Name::clone(&self.pod(pod).name));
        let around = levels.around(depth).map(Name::clone);
        let wider = around.filter(|level| {
            let required = Some(Name::clone(level));
            let constraint = TopologyConstraint { required, ..constraint.clone() };
            self.try_in_place(Sought { constraint: &constraint, ..sought }).is_ok()
        });
        let wrong = Some(Box::new(WrongLevel::KeptApart { pods, over, wider }));
        let no_place = NoPlace { wrong, ..NoPlace::of(constraint, together) };
        Some(Unplaced::in_no(no_place, together))
    }

    /// Those of them that need the widest level at least.
    fn odds<'a>(&'a self, levels: Levels<'a>, together: Together<'_>) -> Option<Odds<'a>> {
        let minds = |pod: &PodId| self.shape_of(*pod).minds_others();
        let there = self.pods_in_use(together);
        if !together.pods.iter().chain(&there).any(minds) {
            return None;
        }
        let coming = &together.pods[..together.pods.len().min(COMPARED_MAX)];
        let pairs = coming.iter().enumerate().flat_map(|(at, b)| {
            let others = coming[..at].iter().chain(there.iter().take(COMPARED_MAX));
            others.map(move |a| [*a, *b])
        });
        let odds = pairs.flat_map(|pods| {
            let [a, b] = pods;
            let parts = self.parts((a, b)).into_iter().chain(self.parts((b, a)));
            parts.filter_map(move |apart| {
                let label = match apart {
                    Apart::Node => HOSTNAME,
                    Apart::Label(label) => label,
                };
                Some(Odds { pods, apart, depth: levels.required_depth(label)? })
            })
        });
        odds.min_by_key(|odds| odds.depth)
    }
}
