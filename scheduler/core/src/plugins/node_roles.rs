//! Roles of nodes, where the scheduler is told to keep to them (KAI's `restrictNodeScheduling`):
//! work with GPUs goes to GPU workers, work without to CPU workers. A node may be both.

use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter},
    model::PodId,
    session::{Fits, Session},
};

/// By the labels of nodes.
#[derive(Debug)]
pub(super) struct NodeRoles;

impl Filter for NodeRoles {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Shape
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let asks_gpus = session.shape_of(pod).asks_gpus();
        Some(Box::new(move |node| {
            let node = session.node(node);
            if asks_gpus && !node.is_gpu_worker() {
                return Err(Misfit::NoGpuWorker);
            }
            if !asks_gpus && !node.is_cpu_worker() {
                return Err(Misfit::NoCpuWorker);
            }
            Ok(Fits::Now)
        }))
    }
}
