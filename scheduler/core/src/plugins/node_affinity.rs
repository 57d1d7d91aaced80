//! NodeAffinity: node selector, and required and preferred node affinity.

use crate::{
    framework::{Filter, Fit, NodeFilter, NodeScore, ResultInputs, Score, Session},
    model::{NodeId, PodId},
    reason::FitError,
};

/// Filters by node selector and required affinity; scores by preferred affinity.
#[derive(Debug)]
pub(super) struct NodeAffinity;

impl Filter for NodeAffinity {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        if shape.node_selector.is_empty() && shape.node_affinity.is_none() {
            return None;
        }
        let label = shape.only_selected_label();
        Some(Box::new(move |node| {
            let selected = shape.selects_node(session.node(node));
            if selected {
                Ok(Fit::Now)
            } else {
                Err(FitError::NodeAffinity { label: label.clone() })
            }
        }))
    }
}

impl Score for NodeAffinity {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        !session.shape_of(pod).node_preferences.is_empty()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let preferences = &session.shape_of(pod).node_preferences;
        Box::new(move |node| {
            let matching = preferences.iter();
            let matching = matching.filter(|(_, term)| term.matches_node(session.node(node)));
            matching.map(|(weight, _)| i64::from(*weight)).sum()
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let max = scores.iter().copied().max().unwrap_or(0);
        if max > 0 {
            for score in scores {
                *score = 100 * *score / max;
            }
        }
    }
}
