//! Which pods fare alike, wherever they are tried: one stands for the other.

use std::collections::BTreeSet;

use crate::{
    model::{Labels, Name, PodGroupId, PodId, ShapeId, TopologyConstraint},
    session::Session,
};

/// What decides whether pods find room, besides how many they are and what goes on around them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Likeness {
    shapes: BTreeSet<ShapeId>,
    /// Of those that other pods attract or keep away: by what they are known to those.
    known: BTreeSet<(Name, Labels)>,
    /// The places that they keep to.
    kept_to: Vec<TopologyConstraint>,
}

impl Likeness {
    pub(super) const NONE: Self =
        Self { shapes: BTreeSet::new(), known: BTreeSet::new(), kept_to: Vec::new() };

    /// `None`: more of the group decides, and they are like no others.
    pub(super) fn of(session: &Session<'_>, group: PodGroupId, pods: &[PodId]) -> Option<Self> {
        let kept_to = session.kept_to(group, pods)?.into_iter().cloned().collect();
        let mut likeness = Self { kept_to, ..Self::NONE };
        for &id in pods {
            let pod = session.pod(id);
            likeness.shapes.insert(pod.shape);
            if session.depends_on_others(id) {
                likeness.known.insert((pod.namespace.clone(), pod.labels.clone()));
            }
        }
        Some(likeness)
    }
}
