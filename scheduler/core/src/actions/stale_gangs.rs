//! Stale gangs: what is left of a gang below its minimum holds room for nothing. After a grace
//! all of it is evicted. A gang of which a pod finished well is finishing, not stale; and a gang
//! that needs only some of its sub-groups (KAI forgets that) is not stale for want of the others.
//! A pod that no binder could bind is missing, however often it is given a place: so a gang that is
//! half bound does not stay (in KAI it does for as long as the place is there).

use std::{collections::BTreeMap, time::Duration};

use crate::{
    decision::{Decision, EvictionCause},
    model::{PodGroup, PodGroupId, PodId, StalenessGrace},
    session::{PodState, Session},
};

/// Which gangs became stale (`true`) or recovered (`false`), and when the next grace ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Staleness {
    pub(crate) changed: BTreeMap<PodGroupId, bool>,
    pub(crate) next_end: Option<Duration>,
}

/// When a gang is looked at again that had one more try.
const LATER: Duration = Duration::from_secs(1);

/// Evicts what has been stale for too long.
pub(crate) fn run(session: &mut Session<'_>) -> Staleness {
    let mut staleness = Staleness::default();
    let unbindable = unbindable(session);
    for id in session.groups() {
        let group = session.group(id);
        let minimum = broken_minimum(session, id, &unbindable);
        if minimum.is_some() != group.stale_since.is_some() {
            staleness.changed.insert(id, minimum.is_some());
        }
        let Some(min_member) = minimum else { continue };
        let grace = match group.staleness_grace {
            Some(StalenessGrace::Never) => continue,
            Some(StalenessGrace::After(grace)) => grace,
            None => session.profile.staleness_grace,
        };
        let stale_for =
            session.snapshot.now.since(group.stale_since.unwrap_or(session.snapshot.now));
        let left = grace.saturating_sub(stale_for).max(tried_anew(session, id));
        if left.is_zero() {
            evict_all(session, id, min_member);
        } else {
            let next = staleness.next_end.unwrap_or(left);
            staleness.next_end = Some(next.min(left));
        }
    }
    staleness
}

/// Pods that have a place and could not be bound, by group and sub-group.
type Unbindable = BTreeMap<(PodGroupId, usize), u32>;

fn unbindable(session: &Session<'_>) -> Unbindable {
    let mut unbindable = Unbindable::new();
    for id in session.pod_ids() {
        let pod = session.pod(id);
        let has_a_place = || matches!(session.state(id), PodState::Holding(_));
        if let Some(group) = pod.group.filter(|_| pod.unbindable && has_a_place()) {
            *unbindable.entry((group, pod.sub_group)).or_default() += 1;
        }
    }
    unbindable
}

/// A pod that got another place in this very cycle is not evicted before it is there.
fn tried_anew(session: &Session<'_>, id: PodGroupId) -> Duration {
    let decisions = session.decisions().iter();
    let mut bound = decisions.filter_map(|decision| match decision {
        Decision::Bind { pod, .. } => Some(*pod),
        Decision::Evict { .. } | Decision::Pipeline { .. } => None,
    });
    let is_of = |pod: PodId| session.pod(pod).group == Some(id) && session.pod(pod).unbindable;
    if bound.any(is_of) { LATER } else { Duration::ZERO }
}

/// The minimum that a started gang misses; `None`: it is whole, not started, or finishing.
fn broken_minimum(session: &Session<'_>, id: PodGroupId, unbindable: &Unbindable) -> Option<u32> {
    let (group, members) = (session.group(id), session.members(id));
    let missing = |at: usize| unbindable.get(&(id, at)).copied().unwrap_or(0);
    let missing_in_all: u32 = (0..group.sub_groups.len()).map(missing).sum();
    if members.active() <= missing_in_all || members.succeeded() > 0 {
        return None;
    }
    let used = group.sub_groups.iter().enumerate().map(|(at, _)| {
        let members = members.of_sub_group(at);
        (members.active + members.leaving).saturating_sub(missing(at))
    });
    let gang = Gang { group, used: used.collect() };
    if gang.is_whole(None) {
        return None;
    }
    let all = group.sub_groups.iter().zip(&gang.used);
    all.filter(|(sub_group, used)| **used < sub_group.min_member)
        .map(|(sub_group, _)| sub_group.min_member)
        .next()
}

/// A gang and how many pods of each sub-group hold a node, leaving ones included.
struct Gang<'a> {
    group: &'a PodGroup,
    used: Vec<u32>,
}

impl Gang<'_> {
    fn is_whole(&self, at: Option<usize>) -> bool {
        let all = self.group.sub_groups.iter().enumerate();
        let children: Vec<usize> =
            all.filter(|(_, sub)| sub.parent == at).map(|(child, _)| child).collect();
        let needed = match at {
            Some(at) => self.group.sub_groups[at].min_sub_group,
            None => self.group.min_sub_group,
        };
        if children.is_empty() {
            return at.is_none_or(|leaf| self.used[leaf] >= self.group.sub_groups[leaf].min_member);
        }
        let whole = children.iter().filter(|child| self.is_whole(Some(**child))).count();
        whole >= needed.map_or(children.len(), |needed| needed as usize)
    }
}

fn evict_all(session: &mut Session<'_>, id: PodGroupId, min_member: u32) {
    let snapshot = session.snapshot;
    for (pod, at) in snapshot.pods.iter().zip(0..) {
        if pod.group == Some(id) && session.can_evict(PodId(at)) {
            session.evict(PodId(at));
        }
    }
    session.commit_evictions(|_| EvictionCause::StaleGang { min_member });
}
