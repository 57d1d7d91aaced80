//! Minimum run times, which protect running gangs for a time, and the preemption delay, during
//! which a young job evicts no others.

use std::time::Duration;

use super::SearchContext;
use crate::{
    model::{PodGroup, PodGroupId, Queue, QueueId, Time},
    profile::ResolveMethod,
    queues::reclaim::diverging_queues,
};

/// The remaining time for which `victim` is protected from reclaim by `reclaimer` (a leaf queue).
/// The minimum comes from the queue just below the lowest common ancestor, or from the leaf queue
/// of the victim with [`ResolveMethod::Queue`]; if that queue sets none, from the first ancestor
/// that does, else from the profile. `None`: not protected.
pub(crate) fn reclaim_protection(
    context: &SearchContext<'_>,
    reclaimer: QueueId,
    victim: PodGroupId,
) -> Option<Duration> {
    let victim = context.group(victim);
    let Ok(Some(leaf)) = victim.queue else { return None };
    let (_, side) = diverging_queues(context.accounts, reclaimer, leaf)?;
    let first = match context.profile.reclaim_resolve_method {
        ResolveMethod::Lca => side,
        ResolveMethod::Queue => leaf,
    };
    let min_runtime = |queue: &Queue| queue.reclaim_min_runtime;
    let minimum = first_configured(context, first, min_runtime)
        .unwrap_or(context.profile.reclaim_min_runtime);
    remaining_protection(context, victim, minimum)
}

/// The remaining time for which `victim` is protected from preemption. The minimum comes from its
/// leaf queue, or from the first ancestor that sets one, else from the profile. `None`: not
/// protected.
pub(crate) fn preempt_protection(
    context: &SearchContext<'_>,
    victim: PodGroupId,
) -> Option<Duration> {
    let victim = context.group(victim);
    let Ok(Some(leaf)) = victim.queue else { return None };
    let min_runtime = |queue: &Queue| queue.preempt_min_runtime;
    let minimum =
        first_configured(context, leaf, min_runtime).unwrap_or(context.profile.preempt_min_runtime);
    remaining_protection(context, victim, minimum)
}

/// The minimum runtime that `queue` sets, or else the first ancestor that sets one.
fn first_configured(
    context: &SearchContext<'_>,
    queue: QueueId,
    min_runtime: fn(&Queue) -> Option<Duration>,
) -> Option<Duration> {
    let queues = &context.snapshot.queues;
    context.accounts.path_to_root(queue).find_map(|at| min_runtime(&queues[at.0 as usize]))
}

/// The part of `minimum` that remains; `None` if the profile protects no minimum runtimes.
fn remaining_protection(
    context: &SearchContext<'_>,
    victim: &PodGroup,
    minimum: Duration,
) -> Option<Duration> {
    let is_enabled = context.profile.protects_min_runtime;
    remaining_runtime(context.snapshot.now, victim.last_start, minimum).filter(|_| is_enabled)
}

/// The remaining preemption delay of `job`, counted from its creation or, if later, from its last
/// eviction. `None`: it is over.
pub(crate) fn remaining_preemption_delay(now: Time, job: &PodGroup) -> Option<Duration> {
    let since = job.last_eviction.map_or(job.created, |evicted| evicted.max(job.created));
    let remaining = job.preemption_delay.saturating_sub(now.elapsed_since(since));
    (!remaining.is_zero()).then_some(remaining)
}

/// The remaining part of `minimum` since `started`; `None` if it is over, or if the job never
/// started.
pub(crate) fn remaining_runtime(
    now: Time,
    started: Option<Time>,
    minimum: Duration,
) -> Option<Duration> {
    let remaining = minimum.saturating_sub(now.elapsed_since(started?));
    (!remaining.is_zero()).then_some(remaining)
}
