//! Rule 9: who may be evicted. Left out: whether the preemptor deserved it (7 and 8), which
//! depends on fair shares that the API does not show at the moment of the decision.

use super::{Auditor, Concern, Conduct, GroupView, PodView, Rule, Writer, gang};
use crate::model::Name;

/// An eviction with the cause that the scheduler gave for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Who has to leave, as `namespace/name`.
    pub pod: Name,
    /// The group it makes room for, as `namespace/name`.
    pub preemptor: Name,
    /// By which rule.
    pub why: Why,
}

/// By which rule a pod may be evicted for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its queue borrowed what another one deserves.
    Reclaim,
    /// It has a lower priority: in the same queue, or where there are no queues.
    Preempt,
    /// It finds a place elsewhere.
    Consolidate,
}

/// The scheduler asks a pod to leave: it must be preemptible, or of a gang that already is below
/// its minimum.
pub(super) fn judge(
    auditor: &mut Auditor,
    name: &Name,
    before: Option<&PodView>,
    after: Option<&PodView>,
    writer: Writer,
) {
    let leaves = after.is_none_or(|after| after.leaving && after.alive());
    let Some(pod) = before.filter(|before| before.stays() && leaves) else { return };
    if writer != Writer::Scheduler || auditor.rules.conduct == Conduct::Kube {
        return;
    }
    let at = auditor.now;
    let Some(group) = pod.group.as_ref().and_then(|group| auditor.view.groups.get(group)) else {
        return;
    };
    let protected = |group: &GroupView| {
        !group.preemptible
            && part_is_whole(auditor, pod, group)
            && gang::is_whole_with(auditor, group, pod)
    };
    if group.now.is_some() && group.seen(at).all(protected) {
        let mut concerns = vec![Concern::Pod(name.clone())];
        concerns.extend(pod.group.clone().map(Concern::Group));
        let detail =
            format!("pod {name} is not preemptible, its gang is whole, and it was evicted");
        auditor.breach(Rule::Victim, concerns, detail);
    }
}

/// Was the victim's part of its gang whole before it was asked to leave?
fn part_is_whole(auditor: &Auditor, victim: &PodView, group: &GroupView) -> bool {
    let Some(key) = &victim.group else { return false };
    let first = group.sub_groups.first();
    let part = group.sub_groups.iter().find(|part| Some(&part.name) == victim.sub_group.as_ref());
    let minimum = part.or(first).map_or(1, |part| part.min_member);
    let members = auditor.accounts.members(key).filter_map(|name| auditor.view.pods.get(name));
    let others = members.filter(|pod| pod.stays() && pod.uid != victim.uid);
    others.filter(|pod| pod.sub_group == victim.sub_group).count() + 1 >= minimum
}

/// The cause must be one by which this pod may go.
pub(super) fn judge_cause(auditor: &mut Auditor, eviction: &Eviction) {
    let Some(pod) = auditor.view.pods.get(&eviction.pod) else { return };
    let groups = &auditor.view.groups;
    let victim = auditor.view.group_of(pod);
    let preemptor = groups.get(&eviction.preemptor).and_then(|group| group.now.as_ref());
    let own = pod.group.as_ref() == Some(&eviction.preemptor);
    // The rest of a gang that lacks a part goes for nobody's sake, once its grace is over.
    let is_whole_part = |group: &GroupView| {
        !group.preemptible
            && part_is_whole(auditor, pod, group)
            && !gang::is_whole_with(auditor, group, pod)
    };
    let why = match (victim, preemptor) {
        (Some(_), Some(_)) if own => Some("its own job".to_owned()),
        (Some(victim), Some(_)) if is_whole_part(victim) => {
            Some("though it is not preemptible and its part of the gang is whole".to_owned())
        }
        (Some(victim), Some(preemptor)) => unfair(eviction.why, victim, preemptor),
        (None, _) | (_, None) => None,
    };
    if let Some(why) = why {
        let pod = eviction.pod.clone();
        let concerns = vec![Concern::Pod(pod), Concern::Group(eviction.preemptor.clone())];
        let detail = format!("pod {} was evicted for {}, {why}", eviction.pod, eviction.preemptor);
        auditor.breach(Rule::Victim, concerns, detail);
    }
}

fn unfair(why: Why, victim: &GroupView, preemptor: &GroupView) -> Option<String> {
    match why {
        Why::Reclaim if victim.queue == preemptor.queue => {
            Some(format!("which is in the same queue {}: nothing is to be reclaimed", victim.queue))
        }
        Why::Preempt if victim.queue != preemptor.queue => Some(format!(
            "which is in queue {}; it is in queue {}: priority counts inside a queue",
            preemptor.queue, victim.queue
        )),
        Why::Preempt if victim.priority >= preemptor.priority => Some(format!(
            "whose priority {} is not above its own {}",
            preemptor.priority, victim.priority
        )),
        Why::Reclaim | Why::Preempt | Why::Consolidate => None,
    }
}
