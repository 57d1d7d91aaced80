//! What protects running work for a time: minimum run times of queues and of the profile; and
//! what keeps a young job from asking others to leave.

use std::time::Duration;

use super::Before;
use crate::{
    model::{PodGroup, PodGroupId, Queue, QueueId, Time},
    profile::ResolveMethod,
    queues::reclaim::diverging,
};

/// How much longer the core of `victim` may run before work of `reclaimer` (a leaf queue) takes
/// its place: by the queue just below the lowest one above both, or by its leaf queue where the
/// profile says so; or by the first above that which says something. `None`: it is not protected.
pub(crate) fn from_reclaim(
    before: &Before<'_>,
    reclaimer: QueueId,
    victim: PodGroupId,
) -> Option<Duration> {
    let victim = before.group(victim);
    let Ok(Some(leaf)) = victim.queue else { return None };
    let (_, side) = diverging(before.ledger, reclaimer, leaf)?;
    let first = match before.profile.reclaim_resolve_method {
        ResolveMethod::Lca => side,
        ResolveMethod::Queue => leaf,
    };
    let of = |queue: &Queue| queue.reclaim_min_runtime;
    let minimum = first_said(before, first, of).unwrap_or(before.profile.reclaim_min_runtime);
    protected(before, victim, minimum)
}

/// The same for preemption inside a queue: the leaf's own value, or the first above it.
pub(crate) fn from_preemption(before: &Before<'_>, victim: PodGroupId) -> Option<Duration> {
    let victim = before.group(victim);
    let Ok(Some(leaf)) = victim.queue else { return None };
    let of = |queue: &Queue| queue.preempt_min_runtime;
    let minimum = first_said(before, leaf, of).unwrap_or(before.profile.preempt_min_runtime);
    protected(before, victim, minimum)
}

/// What `queue` says, or the first above it that says something.
fn first_said(
    before: &Before<'_>,
    queue: QueueId,
    of: fn(&Queue) -> Option<Duration>,
) -> Option<Duration> {
    let queues = &before.snapshot.queues;
    before.ledger.path(queue).find_map(|at| of(&queues[at.0 as usize]))
}

/// What is left of `minimum`, where minimum run times are heeded.
fn protected(before: &Before<'_>, victim: &PodGroup, minimum: Duration) -> Option<Duration> {
    let is_heeded = before.profile.min_runtimes;
    still_to_run(before.snapshot.now, victim.last_start, minimum).filter(|_| is_heeded)
}

/// How much longer `job` must wait before others are asked to leave for it, counted from its
/// creation or, when that is later, from its last eviction.
pub(crate) fn preemption_delay_left(now: Time, job: &PodGroup) -> Option<Duration> {
    let since = job.last_eviction.map_or(job.created, |evicted| evicted.max(job.created));
    let left = job.preemption_delay.saturating_sub(now.since(since));
    (!left.is_zero()).then_some(left)
}

/// How much of `minimum` is left since the start; `None`: nothing, or it never started.
pub(crate) fn still_to_run(
    now: Time,
    started: Option<Time>,
    minimum: Duration,
) -> Option<Duration> {
    let left = minimum.saturating_sub(now.since(started?));
    (!left.is_zero()).then_some(left)
}
