//! What of the configuration's `preemptionPolicy` may keep who waits for room from having others
//! leave, and is not its reason.

use schedlab_scheduler_core::{
    Profile, Reason, Snapshot,
    decision::ReasonKind,
    model::{PodGroupId, PodStatus},
};

/// A note on that, where it matters to the group.
pub(super) fn note(
    snapshot: &Snapshot,
    profile: &Profile,
    (group, reason): (PodGroupId, Option<&Reason>),
) -> Option<String> {
    let least = profile.priority_difference_min;
    let lacks_room = reason.map(Reason::kind) == Some(ReasonKind::PodSchedulingErrors);
    (lacks_room && spares_some(snapshot, group, least)).then(|| {
        format!(
            "Work of its queue whose priority is lower by less than {least} does not leave for it \
             (preemptionPolicy.minPriorityDifference)."
        )
    })
}

/// Something in its queue has a lower priority, and not by as much as that.
fn spares_some(snapshot: &Snapshot, id: PodGroupId, least: i32) -> bool {
    let group = &snapshot.pod_groups[id.0 as usize];
    snapshot.pods.iter().filter(|pod| pod.status == PodStatus::Running).any(|pod| {
        let Some(other) = pod.group.map(|other| &snapshot.pod_groups[other.0 as usize]) else {
            return false;
        };
        let lower = i64::from(group.priority) - i64::from(other.priority);
        other.preemptible && other.queue == group.queue && (1..i64::from(least)).contains(&lower)
    })
}
