//! Stale gang eviction: a gang that runs below its minimum uses capacity in vain, so after a grace
//! period all its pods are evicted. A gang with a succeeded pod is finishing, not stale.
//!
//! Differences from KAI: a gang that needs only some of its sub-groups is not stale for lack of the
//! others (KAI ignores `minSubGroup` here); and a pod whose binding failed counts as missing even
//! if it got a node again, so a half-bound gang is evicted (in KAI it stays as long as the node is
//! available).

use std::{collections::BTreeMap, time::Duration};

use crate::{
    framework::{PodState, Session, Statement},
    model::{PodGroup, PodGroupId, PodId, StalenessGrace},
    plan::{Decision, EvictionCause},
};

/// The gangs that became stale (`true`) or recovered (`false`) in this cycle, and the time until
/// the next grace period of a stale gang ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Staleness {
    pub(crate) changed: BTreeMap<PodGroupId, bool>,
    pub(crate) next_deadline: Option<Duration>,
}

/// Delay until a gang is checked again when its failed binding is retried in this cycle.
const REBIND_DELAY: Duration = Duration::from_secs(1);

/// Evicts gangs whose grace period is over.
pub(crate) fn run(statement: &mut Statement<'_>) -> Staleness {
    let mut staleness = Staleness::default();
    let unbindable = unbindable_pods(statement);
    for id in statement.possibly_stale_groups() {
        let group = statement.group(id);
        let minimum = unmet_minimum(statement, id, &unbindable);
        if minimum.is_some() != group.stale_since.is_some() {
            staleness.changed.insert(id, minimum.is_some());
        }
        let Some(min_member) = minimum else { continue };
        let grace = match group.staleness_grace {
            Some(StalenessGrace::Never) => continue,
            Some(StalenessGrace::After(grace)) => grace,
            None => statement.profile.staleness_grace,
        };
        let stale_for = statement
            .snapshot
            .now
            .elapsed_since(group.stale_since.unwrap_or(statement.snapshot.now));
        let remaining = grace.saturating_sub(stale_for).max(rebind_delay(statement, id));
        if remaining.is_zero() {
            evict_gang(statement, id, min_member);
        } else {
            let next = staleness.next_deadline.unwrap_or(remaining);
            staleness.next_deadline = Some(next.min(remaining));
        }
    }
    staleness
}

/// Number of pods that have a node but whose binding failed, by pod group and sub-group.
type UnbindablePods = BTreeMap<(PodGroupId, usize), u32>;

fn unbindable_pods(session: &Session<'_>) -> UnbindablePods {
    let mut unbindable = UnbindablePods::new();
    for id in session.pods_with_failed_bindings() {
        let pod = session.pod(id);
        let has_a_place = matches!(session.state(id), PodState::Allocated(_));
        if let Some(group) = pod.group.filter(|_| has_a_place) {
            *unbindable.entry((group, pod.sub_group)).or_default() += 1;
        }
    }
    unbindable
}

/// Delay before a gang is checked, because a pod of it is bound again in this cycle: the gang is
/// not evicted before that binding was tried. Zero for other gangs.
fn rebind_delay(session: &Session<'_>, id: PodGroupId) -> Duration {
    let decisions = session.decisions().iter();
    let mut bound = decisions.filter_map(|decision| match decision {
        Decision::Bind { pod, .. } => Some(*pod),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    let is_of = |pod: PodId| session.pod(pod).group == Some(id) && session.pod(pod).binding_failed;
    if bound.any(is_of) { REBIND_DELAY } else { Duration::ZERO }
}

/// The minimum that a started gang no longer meets; `None` if the gang is whole, not started, or
/// finishing.
fn unmet_minimum(
    session: &Session<'_>,
    id: PodGroupId,
    unbindable: &UnbindablePods,
) -> Option<u32> {
    let (group, members) = (session.group(id), session.members(id));
    let missing = |at: usize| unbindable.get(&(id, at)).copied().unwrap_or(0);
    let missing_in_all: u32 = (0..group.sub_groups.len()).map(missing).sum();
    if members.active_count() <= missing_in_all || members.succeeded_count() > 0 {
        return None;
    }
    let used = group.sub_groups.iter().enumerate().map(|(at, _)| {
        let members = members.of_sub_group(at);
        (members.active + members.leaving).saturating_sub(missing(at))
    });
    let gang = GangMembers { group, used: used.collect() };
    if gang.is_whole(None) {
        return None;
    }
    let all = group.sub_groups.iter().zip(&gang.used);
    all.filter(|(sub_group, used)| **used < sub_group.min_member)
        .map(|(sub_group, _)| sub_group.min_member)
        .next()
}

/// A gang and the number of its pods with a node, by sub-group; terminating pods count.
struct GangMembers<'a> {
    group: &'a PodGroup,
    used: Vec<u32>,
}

impl GangMembers<'_> {
    fn is_whole(&self, sub_group: Option<usize>) -> bool {
        let all = self.group.sub_groups.iter().enumerate();
        let children: Vec<usize> =
            all.filter(|(_, sub)| sub.parent == sub_group).map(|(child, _)| child).collect();
        let needed = match sub_group {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        if children.is_empty() {
            return sub_group
                .is_none_or(|leaf| self.used[leaf] >= self.group.sub_groups[leaf].min_member);
        }
        let whole = children.iter().filter(|child| self.is_whole(Some(**child))).count();
        whole >= needed.map_or(children.len(), |needed| needed as usize)
    }
}

fn evict_gang(statement: &mut Statement<'_>, id: PodGroupId, min_member: u32) {
    let pods = statement.pods_of_group(id).filter(|pod| statement.can_evict(*pod));
    for pod in pods.collect::<Vec<_>>() {
        statement.evict(pod);
    }
    statement.commit_evictions(|_| EvictionCause::StaleGang { min_member });
}
