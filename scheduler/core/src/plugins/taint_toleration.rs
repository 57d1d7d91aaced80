//! TaintToleration: a taint keeps pods away that do not tolerate it, or makes its node the last
//! choice.

use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{NodeId, PodId, Taint, TaintEffect, Toleration},
    session::{Fits, Session},
};

/// Filters by taints; scores by those that only make a node the last choice.
#[derive(Debug)]
pub(super) struct TaintToleration;

impl Filter for TaintToleration {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let tolerations = &session.shape_of(pod).tolerations;
        Some(Box::new(move |node| {
            let taints = session.node(node).taints.iter();
            let mut repelling =
                taints.filter(|taint| keeps_away(taint) && !tolerates(tolerations, taint));
            let Some(Taint { key, value, .. }) = repelling.next() else { return Ok(Fits::Now) };
            let has_more = repelling.any(|taint| {
                let is_same = taint.key == *key && taint.value == *value;
                !is_same && !taint.is_of_state()
            });
            Err(Misfit::Taint { key: key.clone(), value: value.clone(), has_more })
        }))
    }
}

impl Score for TaintToleration {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn applies(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let tolerations = &session.shape_of(pod).tolerations;
        Box::new(move |node| {
            let disliked = |taint: &&Taint| {
                taint.effect == TaintEffect::PreferNoSchedule && !tolerates(tolerations, taint)
            };
            let count = session.node(node).taints.iter().filter(disliked).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let most = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            *score = if most == 0 { 100 } else { 100 - 100 * *score / most };
        }
    }
}

const fn keeps_away(taint: &Taint) -> bool {
    match taint.effect {
        TaintEffect::NoSchedule | TaintEffect::NoExecute => true,
        TaintEffect::PreferNoSchedule => false,
    }
}

/// Some taint keeps pods with these tolerations away.
pub(super) fn repels(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints.iter().any(|taint| keeps_away(taint) && !tolerates(tolerations, taint))
}

/// One of `tolerations` tolerates `taint`.
pub(super) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && toleration.key.as_ref().is_none_or(|key| *key == taint.key)
            && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
    })
}
