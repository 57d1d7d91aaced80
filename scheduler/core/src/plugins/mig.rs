//! MIG: which pods run on nodes whose GPUs are partitioned by the NVIDIA operator, and how pods are
//! handled that request instances by the legacy annotation. The instances themselves are extended
//! resources.

use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::{MigStrategy, Node, NodeId, PodId, PodShape},
    reason::FitError,
};

/// Filters nodes by their MIG strategy. With strategy `single` an instance looks like a whole GPU,
/// so there are no fractions; with `mixed`, GPUs are available as instances only; and a node whose
/// label says that MIG is disabled offers no instances.
#[derive(Debug)]
pub(super) struct MigNodes;

/// Filters by KAI's legacy MIG annotation. Pods with it are not placed, and a node that still runs
/// one offers no instances, because it is unknown which instance that pod uses.
#[derive(Debug)]
pub(super) struct LegacyMig;

impl Filter for MigNodes {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        shape.requests_gpus().then(|| {
            let filter = |node| check_mig_strategy(session.node(node), shape);
            Box::new(filter) as NodeFilter<'a>
        })
    }
}

fn check_mig_strategy(node: &Node, shape: &PodShape) -> Result<Fit, FitError> {
    if shape.requests_mig() && node.mig_enabled_label() == Some(false) {
        return Err(FitError::MigDisabled);
    }
    match node.mig_strategy() {
        Some(MigStrategy::Single) if shape.fractional_gpu.is_some() || shape.requests_mig() => {
            Err(FitError::WholeGpusOnly)
        }
        Some(MigStrategy::Mixed) if !shape.requests_mig() => Err(FitError::MigInstancesOnly),
        Some(MigStrategy::Single | MigStrategy::Mixed) | None => Ok(Fit::Now),
    }
}

impl Filter for LegacyMig {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::NodeCapacity
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let shape = session.shape_of(pod);
        if shape.legacy_mig {
            return Some(Box::new(|_| Err(FitError::LegacyMig)));
        }
        let some_are_legacy = || session.snapshot.shapes.iter().any(|shape| shape.legacy_mig);
        if !shape.requests_mig() || !some_are_legacy() {
            return None;
        }
        let has_legacy = |node: NodeId| {
            let info = session.node_info(node);
            let mut pods = info.staying.iter().chain(&info.leaving).chain(&info.stuck);
            pods.any(|pod| session.shape_of(*pod).legacy_mig)
        };
        Some(Box::new(move |node| {
            if has_legacy(node) { Err(FitError::LegacyMigPodOnNode) } else { Ok(Fit::Now) }
        }))
    }
}
