//! Where KAI puts a pod first: on the node it was nominated for, where it fits at once, CPU work
//! on nodes without GPUs, and then onto the fullest or the emptiest node.

use crate::{
    framework::{DependsOn, NodeScore, Score},
    model::{NodeId, PodId},
    profile::Placement,
    session::{Fits, Session},
};

/// The node the pod was nominated for.
#[derive(Debug)]
pub(super) struct NominatedNode;

/// Nodes on which the pod fits at once.
#[derive(Debug)]
pub(super) struct NodeAvailability;

/// CPU-only pods on nodes without GPUs.
#[derive(Debug)]
pub(super) struct NodeResourceType;

/// Nodes with a shared device that has room for a part that the pod asks for.
#[derive(Debug)]
pub(super) struct SharedDevicesFirst;

/// The fullest or the emptiest node, by GPUs for pods that ask for some, else by CPU; or that on
/// which the least is broken up.
#[derive(Debug)]
pub(super) struct ResourcePlacement;

impl Score for NominatedNode {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        session.pod(pod).nominated.is_some()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let nominated = session.pod(pod).nominated;
        Box::new(move |node| i64::from(nominated == Some(node)))
    }
}

impl Score for NodeAvailability {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, session: &Session<'_>, _: PodId) -> bool {
        !session.looks_ahead()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shape = session.shape_of(pod);
        Box::new(move |node| {
            let fits = session.room(node).fits_shape(session.node(node), shape);
            i64::from(fits == Some(Fits::Now))
        })
    }
}

impl Score for SharedDevicesFirst {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        session.shape_of(pod).shared_gpu.is_some()
            && session.profile.gpu_placement == Placement::BinPack
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let shared = session.shape_of(pod).shared_gpu;
        Box::new(move |node| {
            let (room, of) = (session.room(node), session.node(node));
            i64::from(shared.is_some_and(|shared| room.shares_with_others(of, &shared)))
        })
    }
}

impl Score for NodeResourceType {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        !session.shape_of(pod).asks_gpus()
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, _: PodId, _: &[NodeId]) -> NodeScore<'a> {
        Box::new(move |node| i64::from(session.node(node).allocatable.gpu_milli <= 0))
    }
}

impl Score for ResourcePlacement {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn applies(&self, _: &Session<'_>, _: PodId) -> bool {
        true
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        let profile = session.profile;
        let asks_gpus = session.shape_of(pod).asks_gpus();
        let placement = if asks_gpus { profile.gpu_placement } else { profile.cpu_placement };
        let free = move |node: NodeId| {
            let room = session.room(node);
            if asks_gpus {
                room.idle.gpu_milli.saturating_add(room.releasing.gpu_milli)
            } else {
                room.idle.cpu_milli.saturating_add(room.releasing.cpu_milli)
            }
        };
        match placement {
            Placement::BinPack => {
                Box::new(move |node| 9 * super::POINT - free(node).clamp(0, 9 * super::POINT))
            }
            Placement::LeastFragmentation => super::fragmentation::score(session, pod),
            Placement::Spread => Box::new(move |node| {
                let (of, room) = (session.node(node), session.room(node));
                let (free, total) = if asks_gpus {
                    let parts = room.left_of_shared_milli(of);
                    (free(node).saturating_add(parts), of.gpus_there_milli())
                } else {
                    (free(node), of.allocatable.cpu_milli)
                };
                let part = i128::from(free) * i128::from(super::POINT);
                let part = part.checked_div(i128::from(total.max(0))).unwrap_or(0);
                i64::try_from(part.clamp(0, i128::from(super::POINT))).unwrap_or(0)
            }),
        }
    }
}
