//! `GangScheduling` (kube-scheduler with feature gate `GenericWorkload`): a PodGroup of Kubernetes
//! is not tried while it has fewer pods than its minimum, and if one of the pods that are placed
//! together waits for victims, all of them wait. Groups of single pods are left alone.

use crate::{
    framework::{Permit, PermitStatus, PreEnqueue, Session},
    model::{PodGroupId, PodId},
    reason::Reason,
};

/// Gang rules of PreEnqueue and Permit.
#[derive(Debug)]
pub(super) struct GangScheduling;

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let spec = session.group(group);
        if !spec.is_gang() {
            return Ok(());
        }
        session.members(group).check_gang_ready(spec).map_err(Reason::NotReady)
    }
}

impl Permit for GangScheduling {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> PermitStatus {
        let waits = |pod: &PodId| session.state(*pod).is_pipelined();
        if pods.iter().any(waits) { PermitStatus::Wait } else { PermitStatus::Allow }
    }
}
