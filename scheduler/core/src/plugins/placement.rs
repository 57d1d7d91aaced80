//! The node preferences of KAI: the nominated node, nodes with idle capacity, nodes without GPUs
//! for CPU-only pods, and then the fullest or the emptiest node.

use crate::{
    framework::{Fit, NodeScore, ResultInputs, Score, Session},
    model::{NodeId, PodId},
    profile::Placement,
};

/// Prefers the nominated node of the pod.
#[derive(Debug)]
pub(super) struct NominatedNode;

/// Prefers nodes on which the pod fits into idle capacity, without waiting for releases.
#[derive(Debug)]
pub(super) struct NodeAvailability;

/// Prefers nodes without GPUs for CPU-only pods.
#[derive(Debug)]
pub(super) struct NodeResourceType;

/// Prefers nodes with a shared device that has capacity for the requested fraction.
#[derive(Debug)]
pub(super) struct SharedDevicesFirst;

/// Prefers the fullest or the emptiest node, by GPUs for GPU pods, else by CPU; or the node with
/// the least fragmentation.
#[derive(Debug)]
pub(super) struct ResourcePlacement;

impl Score for NominatedNode {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        session.pod(pod).nominated_node.is_some()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let nominated = session.pod(pod).nominated_node;
        Box::new(move |node| i64::from(nominated == Some(node)))
    }
}

impl Score for NodeAvailability {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, session: &Session<'_>, _: PodId) -> bool {
        !session.looks_ahead()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shape = session.shape_of(pod);
        Box::new(move |node| {
            let fits = session.node_info(node).fit_shape(session.node(node), shape);
            i64::from(fits == Some(Fit::Now))
        })
    }
}

impl Score for SharedDevicesFirst {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        session.shape_of(pod).fractional_gpu.is_some()
            && session.profile.gpu_placement == Placement::BinPack
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shared = session.shape_of(pod).fractional_gpu;
        Box::new(move |node| {
            let (info, of) = (session.node_info(node), session.node(node));
            i64::from(shared.is_some_and(|shared| info.has_shared_device_for(of, &shared)))
        })
    }
}

impl Score for NodeResourceType {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        !session.shape_of(pod).requests_gpus()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, _: PodId, _: &[NodeId]) -> NodeScore<'a> {
        Box::new(move |node| i64::from(session.node(node).allocatable.gpu_milli <= 0))
    }
}

impl Score for ResourcePlacement {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn applies_to_pod(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let profile = session.profile;
        let requests_gpus = session.shape_of(pod).requests_gpus();
        let placement = if requests_gpus { profile.gpu_placement } else { profile.cpu_placement };
        let free = move |node: NodeId| {
            let info = session.node_info(node);
            if requests_gpus {
                info.idle.gpu_milli.saturating_add(info.releasing.gpu_milli)
            } else {
                info.idle.cpu_milli.saturating_add(info.releasing.cpu_milli)
            }
        };
        match placement {
            Placement::BinPack => Box::new(move |node| {
                9 * super::SCORE_POINT - free(node).clamp(0, 9 * super::SCORE_POINT)
            }),
            Placement::LeastFragmentation => {
                super::fragmentation::fragmentation_score(session, pod)
            }
            Placement::Spread => Box::new(move |node| {
                let (of, info) = (session.node(node), session.node_info(node));
                let (free, total) = if requests_gpus {
                    let shared_free = info.shared_free_milli(of);
                    (free(node).saturating_add(shared_free), of.installed_gpu_milli())
                } else {
                    (free(node), of.allocatable.cpu_milli)
                };
                let scaled = i128::from(free) * i128::from(super::SCORE_POINT);
                let scaled = scaled.checked_div(i128::from(total.max(0))).unwrap_or(0);
                i64::try_from(scaled.clamp(0, i128::from(super::SCORE_POINT))).unwrap_or(0)
            }),
        }
    }
}
