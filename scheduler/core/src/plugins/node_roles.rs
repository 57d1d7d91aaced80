//! Node roles (KAI: `restrictNodeScheduling`): GPU pods go to GPU workers, other pods to CPU
//! workers. A node may have both roles.

use crate::{
    framework::{Filter, Fit, NodeFilter, ResultInputs, Session},
    model::PodId,
    reason::FitError,
};

/// Rejects nodes without the role label (GPU worker or CPU worker) that the pod needs.
#[derive(Debug)]
pub(super) struct NodeRoles;

impl Filter for NodeRoles {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let requests_gpus = session.shape_of(pod).requests_gpus();
        Some(Box::new(move |node| {
            let node = session.node(node);
            if requests_gpus && !node.is_gpu_worker() {
                return Err(FitError::NotGpuWorker);
            }
            if !requests_gpus && !node.is_cpu_worker() {
                return Err(FitError::NotCpuWorker);
            }
            Ok(Fit::Now)
        }))
    }
}
