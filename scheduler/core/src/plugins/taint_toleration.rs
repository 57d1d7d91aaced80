//! TaintToleration: a taint rejects pods that do not tolerate it, or makes its node the last
//! choice.

use crate::{
    framework::{Filter, Fit, NodeFilter, NodeScore, ResultInputs, Score, Session},
    model::{NodeId, PodId, Taint, TaintEffect, Toleration},
    reason::FitError,
};

/// Rejects nodes with taints that the pod does not tolerate; scores nodes by `PreferNoSchedule`
/// taints.
#[derive(Debug)]
pub(super) struct TaintToleration;

impl Filter for TaintToleration {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let tolerations = &session.shape_of(pod).tolerations;
        Some(Box::new(move |node| {
            let taints = session.node(node).taints.iter();
            let mut untolerated =
                taints.filter(|taint| is_no_schedule(taint) && !tolerates(tolerations, taint));
            let Some(Taint { key, value, .. }) = untolerated.next() else { return Ok(Fit::Now) };
            let has_more = untolerated.any(|taint| {
                let is_same = taint.key == *key && taint.value == *value;
                !is_same && !taint.is_set_by_kubernetes()
            });
            Err(FitError::Taint {
                key: key.clone(),
                value: value.clone(),
                has_other_errors: has_more,
            })
        }))
    }
}

impl Score for TaintToleration {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn applies_to_pod(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let tolerations = &session.shape_of(pod).tolerations;
        Box::new(move |node| {
            let is_untolerated = |taint: &&Taint| {
                taint.effect == TaintEffect::PreferNoSchedule && !tolerates(tolerations, taint)
            };
            let count = session.node(node).taints.iter().filter(is_untolerated).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let max = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            *score = if max == 0 { 100 } else { 100 - 100 * *score / max };
        }
    }
}

const fn is_no_schedule(taint: &Taint) -> bool {
    match taint.effect {
        TaintEffect::NoSchedule | TaintEffect::NoExecute => true,
        TaintEffect::PreferNoSchedule => false,
    }
}

/// Whether one of the taints has effect `NoSchedule` or `NoExecute` and is not tolerated.
pub(super) fn has_untolerated_taint(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints.iter().any(|taint| is_no_schedule(taint) && !tolerates(tolerations, taint))
}

/// Whether one of `tolerations` tolerates `taint`.
pub(super) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && toleration.key.as_ref().is_none_or(|key| *key == taint.key)
            && toleration.value.as_ref().is_none_or(|value| *value == taint.value)
    })
}
