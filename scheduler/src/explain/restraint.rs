//! What of the configuration's `preemptionPolicy` may keep who waits for room from having others
//! leave.

use schedlab_scheduler_core::{
    Profile, Reason, Snapshot,
    model::{PodGroupId, PodStatus},
};

/// A note for each setting that matters to the group.
pub(super) fn notes(
    snapshot: &Snapshot,
    profile: &Profile,
    (group, reason): (PodGroupId, Option<&Reason>),
) -> Vec<String> {
    if reason.map(Reason::code) != Some("PodSchedulingErrors") {
        return Vec::new();
    }
    let most = profile.preemptions_max.map(|most| {
        format!(
            "At most {most} workloads a cycle have others leave \
             (preemptionPolicy.maxPreemptionsPerCycle): whom that leaves waiting has to wait for \
             another cycle."
        )
    });
    let least = profile.priority_difference_min;
    let spared = spares_some(snapshot, group, least).then(|| {
        format!(
            "Work of its queue whose priority is lower by less than {least} does not leave for it \
             (preemptionPolicy.minPriorityDifference)."
        )
    });
    most.into_iter().chain(spared).collect()
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
