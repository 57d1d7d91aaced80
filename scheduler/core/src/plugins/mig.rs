//! MIG: what runs on nodes whose GPUs are split by the NVIDIA operator, and what becomes of pods
//! of the old way to ask for instances, by annotation. Instances themselves are resources.

use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter},
    model::{MigStrategy, Node, NodeId, PodId, PodShape},
    session::{Fits, Session},
};

/// Where all GPUs are split alike, an instance looks like a whole GPU and has no parts; where
/// profiles are mixed, GPUs are only to be had as instances; and where the label says that none is
/// split, nobody gets one.
#[derive(Debug)]
pub(super) struct MigNodes;

/// Pods of the old way are placed no more; and where one still runs nobody gets an instance,
/// since nobody knows which one it uses.
#[derive(Debug)]
pub(super) struct LegacyMig;

impl Filter for MigNodes {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        shape.asks_gpus().then(|| {
            let filter = |node| allows(session.node(node), shape);
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

fn allows(node: &Node, shape: &PodShape) -> Result<Fits, Misfit> {
    if shape.asks_mig() && node.says_whether_split() == Some(false) {
        return Err(Misfit::NotSplit);
    }
    match node.mig_strategy() {
        Some(MigStrategy::Single) if shape.shared_gpu.is_some() || shape.asks_mig() => {
            Err(Misfit::WholeGpusOnly)
        }
        Some(MigStrategy::Mixed) if !shape.asks_mig() => Err(Misfit::MigInstancesOnly),
        Some(MigStrategy::Single | MigStrategy::Mixed) | None => Ok(Fits::Now),
    }
}

impl Filter for LegacyMig {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Room
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        if shape.legacy_mig {
            return Some(Box::new(|_| Err(Misfit::LegacyMig)));
        }
        let some_are_legacy = || session.snapshot.shapes.iter().any(|shape| shape.legacy_mig);
        if !shape.asks_mig() || !some_are_legacy() {
            return None;
        }
        let has_legacy = |node: NodeId| {
            let room = session.room(node);
            let mut pods = room.staying.iter().chain(&room.leaving).chain(&room.stuck);
            pods.any(|pod| session.shape_of(*pod).legacy_mig)
        };
        Some(Box::new(
            move |node| {
                if has_legacy(node) { Err(Misfit::LegacyMigThere) } else { Ok(Fits::Now) }
            },
        ))
    }
}
