//! Gang scheduling: enough members must exist before any is tried; a job with scheduling backoff is
//! tried once; and if a pod that is placed together with others is pipelined, or the minimum of its
//! gang is, all of them are pipelined. Also contains the Reserve plugin, which updates node
//! capacity.

use crate::{
    framework::{Fit, Permit, PermitStatus, PreEnqueue, Reserve, Session, Statement},
    model::{NodeId, PodGroupId, PodId},
    reason::Reason,
};

/// Gang rules at the extension points PreEnqueue and Permit: a gang needs its minimum of pods.
#[derive(Debug)]
pub(super) struct Gang;

impl PreEnqueue for Gang {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let spec = session.group(group);
        if spec.is_skipped {
            return Err(Reason::SchedulingBackoff);
        }
        session.members(group).check_gang_ready(spec).map_err(Reason::NotReady)
    }
}

impl Permit for Gang {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> PermitStatus {
        let is_pipelined = |pod: &PodId| session.state(*pod).is_pipelined();
        let groups = pods.iter().filter_map(|pod| session.pod(*pod).group);
        let is_gang_pipelined =
            groups.take(1).any(|id| session.members(id).is_minimum_pipelined(session.group(id)));
        if is_gang_pipelined || pods.iter().any(is_pipelined) {
            PermitStatus::Wait
        } else {
            PermitStatus::Allow
        }
    }
}

/// Reserve plugin: allocates idle capacity of the node to the pod, or pipelines the pod onto
/// releasing capacity. A GPU fraction may be pipelined although another GPU is idle.
#[derive(Debug)]
pub(super) struct NodeRoom;

impl Reserve for NodeRoom {
    fn reserve(&self, statement: &mut Statement<'_>, pod: PodId, node: NodeId, fits: Fit) {
        match fits.max(statement.shared_device_fit(pod, node)) {
            Fit::Now => statement.allocate(pod, node),
            Fit::Later => statement.pipeline(pod, node),
        }
    }
}
