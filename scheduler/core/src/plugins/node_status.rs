//! NodeUnschedulable, and the Ready condition of nodes: no new pod on a cordoned or not ready node.

use super::taint_toleration::tolerates;
use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{CORDONED_TAINT, PodId, Taint, TaintEffect},
    reason::FitError,
};

/// Rejects cordoned nodes, unless the pod tolerates the taint of cordoned nodes.
#[derive(Debug)]
pub(super) struct NodeUnschedulable;

/// Rejects nodes that are not ready.
#[derive(Debug)]
pub(super) struct NodeReady;

impl Filter for NodeUnschedulable {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let cordon =
            Taint { key: CORDONED_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule };
        let tolerates_it = tolerates(&session.shape_of(pod).tolerations, &cordon);
        Some(Box::new(move |node| {
            if session.node(node).unschedulable && !tolerates_it {
                return Err(FitError::Unschedulable);
            }
            Ok(Fit::Now)
        }))
    }
}

impl Filter for NodeReady {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, _: PodId) -> Option<NodeFilter<'a>> {
        Some(Box::new(move |node| {
            if session.node(node).ready { Ok(Fit::Now) } else { Err(FitError::NotReady) }
        }))
    }
}
