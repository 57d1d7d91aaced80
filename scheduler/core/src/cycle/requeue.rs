//! Changes that come with time alone: protections and delays that end. A scheduler that sleeps
//! until an event must wake up for these.

use std::time::Duration;

use crate::{
    framework::{MinRuntimeProtection, Session},
    model::{PodGroupId, QueueId},
    reason::{DelayStart, Reason},
    solver::min_runtime::{remaining_preemption_delay, remaining_runtime},
};

/// Time until the next deadline that changes the result of a cycle without an event; `None` if no
/// job is pending.
pub(crate) fn next_deadline(session: &Session<'_>) -> Option<Duration> {
    let now = session.snapshot.now;
    session.incomplete_groups().next()?;
    let delays = session
        .incomplete_groups()
        .filter_map(|group| remaining_preemption_delay(now, session.group(group)));
    let protected = has_min_runtimes(session).then(|| session.groups());
    let protections =
        protected.into_iter().flatten().flat_map(|group| remaining_min_runtimes(session, group));
    let stuck = session.terminating_pods().filter_map(|pod| {
        let since = session.pod(pod).releasing_since?;
        let left = session.profile.release_timeout?.checked_sub(now.elapsed_since(since))?;
        Some(left + Duration::from_millis(1))
    });
    delays.chain(protections).chain(stuck).min()
}

/// Replaces the reason of a job that could evict victims but is still in its preemption delay.
pub(crate) fn explain_preemption_delay(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    if !lacks_capacity(reason) || !session.is_blocked_by_delay(id) {
        return;
    }
    let group = session.group(id);
    let was_evicted = group.last_eviction.is_some_and(|evicted| evicted > group.created);
    *reason = Reason::PreemptionDelay {
        underlying: Box::new(reason.clone()),
        delay_millis: u64::try_from(group.preemption_delay.as_millis()).unwrap_or(u64::MAX),
        since: if was_evicted { DelayStart::Eviction } else { DelayStart::Creation },
    };
}

/// Replaces the reason of a job that could evict victims but exceeds the preemption limit of the
/// cycle.
pub(crate) fn explain_preemption_limit(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    let most = session.profile.preemptions_max.filter(|_| session.is_blocked_by_limit(id));
    if let Some(most) = most.filter(|_| lacks_capacity(reason)) {
        *reason =
            Reason::PreemptionLimitReached { underlying: Box::new(reason.clone()), limit: most };
    }
}

/// Replaces the reason of a job whose victims are protected by a minimum run time.
pub(crate) fn explain_min_runtime(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    if !lacks_capacity(reason) {
        return;
    }
    let Some(MinRuntimeProtection { victim, field, minimum }) = session.min_runtime_protection(id)
    else {
        return;
    };
    let victim = session.group(victim);
    *reason = Reason::MinRuntime {
        underlying: Box::new(reason.clone()),
        victim: format!("{}/{}", victim.namespace, victim.name).into(),
        field,
        minimum_millis: u64::try_from(minimum.as_millis()).unwrap_or(u64::MAX),
    };
}

/// Whether the reason is lack of capacity: nodes are full or closed, possibly besides other errors.
pub(crate) const fn lacks_capacity(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::NoNode { .. }
            | Reason::GangDoesNotFit { .. }
            | Reason::NoTopologyDomain(crate::reason::NoTopologyDomain { invalid_level: None, .. })
    )
}

/// Whether the profile or a queue sets a minimum run time.
fn has_min_runtimes(session: &Session<'_>) -> bool {
    let profile = [session.profile.preempt_min_runtime, session.profile.reclaim_min_runtime];
    let queues = session.snapshot.queues.iter();
    let queues = queues.flat_map(|queue| [queue.preempt_min_runtime, queue.reclaim_min_runtime]);
    queues.flatten().chain(profile).any(|minimum| !minimum.is_zero())
}

/// For each minimum run time that may protect the running gang: the time that remains of it.
fn remaining_min_runtimes<'a>(
    session: &'a Session<'_>,
    id: PodGroupId,
) -> impl Iterator<Item = Duration> + 'a {
    let group = session.group(id);
    let leaf = group.queue_id();
    let runs = group.preemptible && session.members(id).active_count() > 0;
    let queues =
        leaf.filter(|_| runs).into_iter().flat_map(|leaf| session.accounts().path_to_root(leaf));
    let of_queue = |queue: QueueId| {
        let queue = &session.snapshot.queues[queue.0 as usize];
        [queue.preempt_min_runtime, queue.reclaim_min_runtime]
    };
    let (profile, now) = (session.profile, session.snapshot.now);
    let defaults = [profile.preempt_min_runtime, profile.reclaim_min_runtime];
    let minima = queues.flat_map(of_queue).flatten().chain(defaults);
    minima.filter_map(move |minimum| remaining_runtime(now, group.last_start, minimum))
}
