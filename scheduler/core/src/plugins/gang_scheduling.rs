//! `GangScheduling` (kube-scheduler with feature gate `GenericWorkload`): a PodGroup of Kubernetes
//! is not tried while it has fewer pods than its minimum, and if one of the pods that are placed
//! together waits for victims, all of them wait. All pods have the priority of the PodGroup, and equal
//! preemption policies. Groups of single pods are left alone.

use crate::{
    framework::{Permit, PermitStatus, PreEnqueue, PreFilter, Session},
    model::{PodGroupId, PodId},
    reason::{DifferentField, GroupDifference, Reason},
};

/// Gang rules of PreEnqueue, PreFilter and Permit.
#[derive(Debug)]
pub(super) struct GangScheduling;

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        let spec = session.group(group);
        if !spec.is_gang() {
            return Ok(());
        }
        // Terminating pods count until they are gone.
        let members = session.members(group);
        let ready = members.check_gang_ready(spec);
        let waiting = u32::try_from(members.waiting_pods().count()).unwrap_or(u32::MAX);
        let known = members.scheduled_count().saturating_add(waiting);
        let minimum = spec.sub_groups.iter().map(|leaf| leaf.min_member).sum();
        if known >= minimum { Ok(()) } else { ready.map_err(Reason::NotReady) }
    }
}

impl PreFilter for GangScheduling {
    fn pre_filter(
        &self,
        session: &Session<'_>,
        group: PodGroupId,
        _: &[PodId],
    ) -> Result<(), Reason> {
        if !session.runs_pod_group_cycle(group) {
            return Ok(());
        }
        let members = session.members(group);
        let mut pods: Vec<PodId> = members.waiting_pods().collect();
        if members.scheduled_count() > 0 {
            let has_node = |pod: &PodId| session.state(*pod).nodes_with_presence().next().is_some();
            let all = session.pod_ids().filter(|pod| session.pod(*pod).group == Some(group));
            pods.extend(all.filter(has_node));
        }
        let of = session.group(group);
        let Some(first) = pods.first() else { return Ok(()) };
        let policy = session.pod(*first).preemption_policy;
        let field = |pod: &PodId| {
            let pod = session.pod(*pod);
            if pod.priority != of.priority {
                Some(DifferentField::Priority { pod: pod.priority, group: of.priority })
            } else if pod.preemption_policy != policy {
                let (pod, first) = (pod.preemption_policy, policy);
                Some(DifferentField::PreemptionPolicy { pod, first })
            } else {
                None
            }
        };
        let differing = pods.iter().filter_map(|pod| Some((*pod, field(pod)?)));
        let differing: Vec<(PodId, DifferentField)> = differing.collect();
        let Some((pod, field)) = differing.first() else { return Ok(()) };
        let named = session.pod(*pod);
        Err(Reason::PodsDiffer(GroupDifference {
            pod: format!("{}/{}", named.namespace, named.name).into(),
            pods: u32::try_from(differing.len()).unwrap_or(u32::MAX),
            field: *field,
        }))
    }
}

impl Permit for GangScheduling {
    fn permit(&self, session: &Session<'_>, pods: &[PodId]) -> PermitStatus {
        let waits = |pod: &PodId| session.state(*pod).is_pipelined();
        if pods.iter().any(waits) { PermitStatus::Wait } else { PermitStatus::Allow }
    }
}
