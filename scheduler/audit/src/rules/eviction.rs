//! Rule 9: which pods may be evicted. Not checked: whether the preemptor may evict at all (7 and
//! 8), since that depends on fair shares, which the API does not show at the time of the decision.

use super::objects::Name;
use super::{AuditProfile, AuditedObject, Auditor, GroupView, PodView, Rule, Writer, gang};

/// An eviction with the cause that the scheduler reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The victim, as `namespace/name`.
    pub pod: Name,
    /// The pod group for which the pod is evicted, as `namespace/name`.
    pub preemptor: Name,
    /// The scheduler's action that evicted the pod.
    pub kind: EvictionKind,
}

/// The action by which a pod is evicted for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionKind {
    /// Reclaim: the victim's queue is over its fair share and another queue is below its own.
    Reclaim,
    /// Preemption: the victim has a lower priority, in the same queue or in a cluster without
    /// queues.
    Preempt,
    /// Consolidation: the victim is moved to another node.
    Consolidate,
}

/// Checks an eviction by the scheduler: the pod must be preemptible, or of a gang that is already
/// below its minimum.
pub(super) fn check_victim(
    auditor: &mut Auditor,
    name: &Name,
    before: Option<&PodView>,
    after: Option<&PodView>,
    writer: Writer,
) {
    let leaves = after.is_none_or(|after| after.leaving && after.is_alive());
    let Some(pod) = before.filter(|before| before.is_staying() && leaves) else { return };
    if writer != Writer::Scheduler || auditor.rules.profile == AuditProfile::Kube {
        return;
    }
    let at = auditor.now;
    let Some(group) = pod.group.as_ref().and_then(|group| auditor.view.groups.get(group)) else {
        return;
    };
    let protected = |group: &GroupView| {
        !group.preemptible
            && was_sub_group_whole(auditor, pod, group)
            && gang::is_whole_with(auditor, group, pod)
    };
    if group.now.is_some() && group.visible_at(at).all(protected) {
        let mut objects = vec![AuditedObject::Pod(name.clone())];
        objects.extend(pod.group.clone().map(AuditedObject::Group));
        let detail =
            format!("pod {name} was evicted, but it is not preemptible and its gang is whole");
        auditor.report_breach(Rule::Victim, objects, detail);
    }
}

/// Whether the sub-group of the victim had its minimum of pods before the eviction.
fn was_sub_group_whole(auditor: &Auditor, victim: &PodView, group: &GroupView) -> bool {
    let Some(key) = &victim.group else { return false };
    let first = group.sub_groups.first();
    let sub_group = group
        .sub_groups
        .iter()
        .find(|sub_group| Some(&sub_group.name) == victim.sub_group.as_ref());
    let minimum = sub_group.or(first).map_or(1, |sub_group| sub_group.min_member);
    let members =
        auditor.accounts.pods_of_group(key).filter_map(|name| auditor.view.pods.get(name));
    let others = members.filter(|pod| pod.is_staying() && pod.uid != victim.uid);
    others.filter(|pod| pod.sub_group == victim.sub_group).count() + 1 >= minimum
}

/// Checks that the cause that the scheduler reported justifies the eviction.
pub(super) fn check_cause(auditor: &mut Auditor, eviction: &Eviction) {
    let Some(pod) = auditor.view.pods.get(&eviction.pod) else { return };
    let groups = &auditor.view.groups;
    let victim = auditor.view.group_of(pod);
    let preemptor = groups.get(&eviction.preemptor).and_then(|group| group.now.as_ref());
    let own = pod.group.as_ref() == Some(&eviction.preemptor);
    // The rest of a gang that lacks a sub-group is evicted without a preemptor, after its grace
    // period.
    let is_whole_part = |group: &GroupView| {
        !group.preemptible
            && was_sub_group_whole(auditor, pod, group)
            && !gang::is_whole_with(auditor, group, pod)
    };
    let why = match (victim, preemptor) {
        (Some(_), Some(_)) if own => Some("its own job".to_owned()),
        (Some(victim), Some(_)) if is_whole_part(victim) => {
            Some("although the pod is not preemptible and its sub-group is whole".to_owned())
        }
        (Some(victim), Some(preemptor)) => {
            unjustified_cause_error(eviction.kind, victim, preemptor)
        }
        (None, _) | (_, None) => None,
    };
    if let Some(why) = why {
        let pod = eviction.pod.clone();
        let objects =
            vec![AuditedObject::Pod(pod), AuditedObject::Group(eviction.preemptor.clone())];
        let detail = format!("pod {} was evicted for {}, {why}", eviction.pod, eviction.preemptor);
        auditor.report_breach(Rule::Victim, objects, detail);
    }
}

fn unjustified_cause_error(
    eviction_kind: EvictionKind,
    victim: &GroupView,
    preemptor: &GroupView,
) -> Option<String> {
    match eviction_kind {
        EvictionKind::Reclaim if victim.queue == preemptor.queue => {
            Some(format!("which is in the same queue {}: nothing to reclaim", victim.queue))
        }
        EvictionKind::Preempt if victim.queue != preemptor.queue => Some(format!(
            "which is in queue {}, not in the victim's queue {}: priority counts within one queue",
            preemptor.queue, victim.queue
        )),
        EvictionKind::Preempt if victim.priority >= preemptor.priority => Some(format!(
            "whose priority {} is not above the victim's {}",
            preemptor.priority, victim.priority
        )),
        EvictionKind::Reclaim | EvictionKind::Preempt | EvictionKind::Consolidate => None,
    }
}
