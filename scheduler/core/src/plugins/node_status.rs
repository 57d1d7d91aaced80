//! NodeUnschedulable and the node's condition: no new pod on a node that is cordoned or not
//! ready.

use super::taint_toleration::tolerates;
use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter},
    model::{CORDONED_TAINT, PodId, Taint, TaintEffect},
    session::{Fits, Session},
};

/// No new pod on a cordoned node, unless it tolerates just that.
#[derive(Debug)]
pub(super) struct NodeUnschedulable;

/// No new pod on a node that is not ready.
#[derive(Debug)]
pub(super) struct NodeReady;

impl Filter for NodeUnschedulable {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let cordon =
            Taint { key: CORDONED_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule };
        let tolerates_it = tolerates(&session.shape_of(pod).tolerations, &cordon);
        Some(Box::new(move |node| {
            if session.node(node).unschedulable && !tolerates_it {
                return Err(Misfit::Unschedulable);
            }
            Ok(Fits::Now)
        }))
    }
}

impl Filter for NodeReady {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, _: PodId) -> Option<NodeFilter<'a>> {
        Some(Box::new(
            move |node| {
                if session.node(node).ready { Ok(Fits::Now) } else { Err(Misfit::NotReady) }
            },
        ))
    }
}
