//! Notes about `preemptionPolicy` settings that prevent preemption for a pending group but are not
//! its pending reason.

use schedlab_scheduler_core::{
    Profile, Reason, Snapshot,
    model::{PodGroupId, PodStatus},
    reason::ReasonKind,
};

/// Note about `minPriorityDifference`, if it protects running jobs from the group.
pub(super) fn priority_difference_note(
    snapshot: &Snapshot,
    profile: &Profile,
    group: PodGroupId,
    reason: Option<&Reason>,
) -> Option<String> {
    let min_difference = profile.priority_difference_min;
    let lacks_room = reason.map(Reason::kind) == Some(ReasonKind::PodSchedulingErrors);
    (lacks_room && protects_lower_priority_job(snapshot, group, min_difference)).then(|| {
        format!(
            "Jobs of its queue whose priority is lower by less than {min_difference} are not preempted \
             for it (preemptionPolicy.minPriorityDifference)."
        )
    })
}

/// Whether a running preemptible job of the group's queue has a lower priority, by less than the
/// minimum difference.
fn protects_lower_priority_job(snapshot: &Snapshot, id: PodGroupId, min_difference: i32) -> bool {
    let group = &snapshot.pod_groups[id.0 as usize];
    snapshot.pods.iter().filter(|pod| pod.status == PodStatus::Running).any(|pod| {
        let Some(other) = pod.group.map(|other| &snapshot.pod_groups[other.0 as usize]) else {
            return false;
        };
        let lower = i64::from(group.priority) - i64::from(other.priority);
        other.preemptible
            && other.queue == group.queue
            && (1..i64::from(min_difference)).contains(&lower)
    })
}
