//! What changes by time alone, without any event: protections and delays that end. A scheduler
//! that sleeps until something happens must wake for these.

use std::time::Duration;

use crate::{
    decision::{Reason, Since},
    model::{PodGroupId, PodStatus, QueueId},
    session::{Protection, Session},
    victims::protection::{preemption_delay_left, still_to_run},
};

/// How long until the next of them, when anybody waits.
pub(crate) fn next_end(session: &Session<'_>) -> Option<Duration> {
    let now = session.snapshot.now;
    let has_not_all = |group: &PodGroupId| {
        let members = session.members(*group);
        members.wait() || members.were_promised()
    };
    let waiting = || session.groups().filter(has_not_all);
    waiting().next()?;
    let delays = waiting().filter_map(|group| preemption_delay_left(now, session.group(group)));
    let protections = session.groups().flat_map(|group| protections(session, group));
    let leaving = session.snapshot.pods.iter().filter(|pod| pod.status == PodStatus::Releasing);
    let stuck = leaving.filter_map(|pod| {
        let left = session.profile.release_max?.checked_sub(now.since(pod.released_since?))?;
        Some(left + Duration::from_millis(1))
    });
    delays.chain(protections).chain(stuck).min()
}

/// A job for which others would leave, were it not too young to make them, waits for that, too.
pub(crate) fn add_delay(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    if !lacks_room(reason) || !session.is_only_too_young(id) {
        return;
    }
    let group = session.group(id);
    let was_evicted = group.last_eviction.is_some_and(|evicted| evicted > group.created);
    *reason = Reason::PreemptionDelay {
        instead: Box::new(reason.clone()),
        delay_millis: u64::try_from(group.preemption_delay.as_millis()).unwrap_or(u64::MAX),
        since: if was_evicted { Since::Eviction } else { Since::Creation },
    };
}

/// A job for which others would leave in a cycle in which fewer do waits for that, too.
pub(crate) fn add_bound(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    let most = session.profile.preemptions_max.filter(|_| session.is_only_bounded(id));
    if let Some(most) = most.filter(|_| lacks_room(reason)) {
        *reason = Reason::PreemptionsBound { instead: Box::new(reason.clone()), most };
    }
}

/// A job for which others would leave, were they not protected for a time, waits for that, too.
pub(crate) fn add_protection(session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
    if !lacks_room(reason) {
        return;
    }
    let Some(Protection { victim, field, minimum }) = session.protection(id) else { return };
    let victim = session.group(victim);
    *reason = Reason::MinRuntime {
        instead: Box::new(reason.clone()),
        victim: format!("{}/{}", victim.namespace, victim.name).into(),
        field,
        minimum_millis: u64::try_from(minimum.as_millis()).unwrap_or(u64::MAX),
    };
}

/// Nodes are too full for it, or closed; other things may stand in the way besides.
pub(crate) const fn lacks_room(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::NoNode { .. }
            | Reason::GangTooLarge { .. }
            | Reason::NoPlace(crate::session::NoPlace { wrong: None, .. })
    )
}

/// When the running gang loses the protection of each minimum run time that may apply to it.
fn protections<'a>(
    session: &'a Session<'_>,
    id: PodGroupId,
) -> impl Iterator<Item = Duration> + 'a {
    let group = session.group(id);
    let leaf = group.known_queue();
    let runs = group.preemptible && session.members(id).active() > 0;
    let queues = leaf.filter(|_| runs).into_iter().flat_map(|leaf| session.ledger().path(leaf));
    let of_queue = |queue: QueueId| {
        let queue = &session.snapshot.queues[queue.0 as usize];
        [queue.preempt_min_runtime, queue.reclaim_min_runtime]
    };
    let (profile, now) = (session.profile, session.snapshot.now);
    let defaults = [profile.preempt_min_runtime, profile.reclaim_min_runtime];
    let minima = queues.flat_map(of_queue).flatten().chain(defaults);
    minima.filter_map(move |minimum| still_to_run(now, group.last_start, minimum))
}
