//! Who waits since its queue has its fair share: others have more than their quotas, and nobody
//! leaves for it all the same.

use std::collections::BTreeMap;

use crate::{
    actions::allocate::Reasons,
    behind::FirstJobs,
    deadlines::lacks_room,
    decision::{Quantity, Reason, Remedy, Room},
    model::{Name, NodeId, PodId, QueueId, ShapeId},
    profile::Action,
    queues::{
        Account, JobKey, Ledger,
        reclaim::{Reclaimer, Victims, diverging},
    },
    resources::{Amount, PerResource, ResourceName},
    session::{Free, Session},
};

/// What is known of the queues that lend.
#[derive(Default)]
pub(crate) struct KeptByShare {
    /// How much preemptible work beyond their quotas the queues below a queue, or below none, have
    /// together, of each resource.
    lent: BTreeMap<Option<QueueId>, [i64; 3]>,
    /// What nobody has.
    idle: [i64; 3],
    /// Would nodes hold so many pods of the queue, the first of this shape, if others left? It may
    /// make them leave, or could with a higher quota.
    have_nodes: BTreeMap<(ShapeId, usize, QueueId, bool), bool>,
}

/// A job that wants to take back, and whether its queue's share lets it.
struct Wants {
    reclaimer: Reclaimer,
    may_start: bool,
}

impl KeptByShare {
    pub(crate) fn of(session: &Session<'_>) -> Self {
        let ledger = session.ledger();
        if !ledger.tells_shares() || !session.profile.actions.contains(&Action::Reclaim) {
            return Self::default();
        }
        let mut known = Self { idle: ledger.total().values(), ..Self::default() };
        for queue in (0..u32::try_from(ledger.len()).unwrap_or(u32::MAX)).map(QueueId) {
            let account = ledger.account(queue);
            let lent = known.lent.entry(account.parent).or_default();
            *lent = [0, 1, 2].map(|at| lent[at].saturating_add(lends(account, at)));
            if account.parent.is_none() {
                let used = account.allocated.values();
                known.idle = [0, 1, 2].map(|at| known.idle[at].saturating_sub(used[at]));
            }
        }
        known
    }

    /// Tells it of all that are only short of room.
    pub(crate) fn tell(&mut self, session: &Session<'_>, reasons: &mut Reasons) {
        if self.lent.is_empty() {
            return;
        }
        let mut first = FirstJobs::default();
        let mut kept: Vec<(JobKey, Reclaimer, Option<usize>)> = Vec::new();
        for (&id, reason) in reasons.iter() {
            let group = session.group(id);
            let Some(queue) = group.known_queue().filter(|_| lacks_room(reason)) else { continue };
            let pods = session.next_chunk(id);
            let request = session.share_of(&pods);
            let reclaimer = Reclaimer { queue, preemptible: group.preemptible, request };
            let may_start = reclaimer.may_start(session.ledger());
            let key = session.waiting_key(id);
            if !may_start {
                first.take(queue, key);
            }
            let wants = Wants { reclaimer, may_start };
            if let Some(top) = self.would_make_room(session, (&pods, &wants), reason) {
                kept.push((key, reclaimer, Some(top).filter(|_| !may_start)));
            }
        }
        for (key, reclaimer, short_below) in kept {
            let Some(reason) = reasons.get_mut(&key.group()) else { continue };
            let told = match short_below {
                Some(top) => full_for(&reclaimer, session.ledger(), top)
                    .map(|full| fair_share(session, reason, (&reclaimer, full))),
                None => first
                    .before(reclaimer.queue, key)
                    .map(|before| behind_share(session, reason, (reclaimer.queue, before))),
            };
            if let Some(told) = told {
                *reason = told;
            }
        }
    }

    /// The place of [`Self::highest_lent_to`], if those who lend would make room for the pods, which
    /// lack nothing else, by leaving.
    fn would_make_room(
        &mut self,
        session: &Session<'_>,
        (pods, wants): (&[PodId], &Wants),
        reason: &Reason,
    ) -> Option<usize> {
        let is_full = || {
            let remedy = reason.remedy();
            matches!(
                remedy,
                Remedy::MakeRoom {
                    room: Room::Anywhere | Room::OnlyFull { .. } | Room::OrAdded { .. },
                    ..
                }
            )
        };
        let top = self.highest_lent_to(&wants.reclaimer, session.ledger())?;
        (is_full() && self.have_nodes(session, pods, wants)).then_some(top)
    }

    /// The place, in the path of the job's queue, of the highest one beside which somebody lends,
    /// if all of those lend enough.
    fn highest_lent_to(&self, reclaimer: &Reclaimer, ledger: &Ledger) -> Option<usize> {
        let path: Vec<QueueId> = ledger.path(reclaimer.queue).collect();
        let lent_beside = |queue: &QueueId, at: usize| {
            let account = ledger.account(*queue);
            let all = self.lent.get(&account.parent).copied().unwrap_or_default();
            all[at] - lends(account, at)
        };
        let has_lenders = |queue: &QueueId| reclaimer.asked().any(|at| lent_beside(queue, at) > 0);
        let top = path.iter().rposition(has_lenders)?;
        let has_enough = |at: usize| {
            let lent = path.iter().map(|queue| lent_beside(queue, at));
            lent.fold(self.idle[at], i64::saturating_add) >= reclaimer.request.values()[at]
        };
        reclaimer.asked().all(has_enough).then_some(top)
    }

    /// Nodes that are only too full for the pods would hold them all, if those left there whom the
    /// job could make leave, or could if its queue had a higher quota.
    fn have_nodes(&mut self, session: &Session<'_>, pods: &[PodId], wants: &Wants) -> bool {
        let Some(first) = pods.first() else { return false };
        let (shape, queue) = (session.pod(*first).shape, wants.reclaimer.queue);
        let key = (shape, pods.len(), queue, wants.may_start);
        if let Some(known) = self.have_nodes.get(&key) {
            return *known;
        }
        let mut takable: BTreeMap<(QueueId, [i64; 3]), bool> = BTreeMap::new();
        let mut may_leave = |victim: PodId| {
            let group = session.pod(victim).group.map(|group| session.group(group));
            let Some(group) = group.filter(|it| it.preemptible) else { return false };
            let Some(queue) = group.known_queue().filter(|_| session.can_evict(victim)) else {
                return false;
            };
            let amount = session.share_of(&[victim]);
            let may_take = || may_take(session, wants, (queue, amount));
            *takable.entry((queue, amount.values())).or_insert_with(may_take)
        };
        let mut left = pods;
        for node in session.only_too_full(*first) {
            let mut free = free_without(session, node, &mut may_leave);
            while let Some((pod, others)) = left.split_first()
                && session.takes_of(&mut free, *pod, node)
            {
                left = others;
            }
            if left.is_empty() {
                break;
            }
        }
        self.have_nodes.insert(key, left.is_empty());
        left.is_empty()
    }
}

/// What is free on the node when those have left who may.
fn free_without(
    session: &Session<'_>,
    node: NodeId,
    mut may_leave: impl FnMut(PodId) -> bool,
) -> Free {
    let staying = &session.room(node).staying;
    let kept: Vec<PodId> = staying.iter().copied().filter(|pod| !may_leave(*pod)).collect();
    if kept.len() == staying.len() {
        return Free::of(session, node);
    }
    let mut free = Free::of_empty(session.node(node));
    for pod in kept {
        session.takes_of(&mut free, pod, node);
    }
    free
}

/// Could the job take so much of that queue; or, where its own would have more than its share, could
/// it if that were not so?
fn may_take(
    session: &Session<'_>,
    Wants { reclaimer: of, may_start }: &Wants,
    (queue, amount): (QueueId, PerResource<i64>),
) -> bool {
    let ledger = session.ledger();
    let Some((_, theirs)) = diverging(ledger, of.queue, queue) else { return false };
    let lends = of.asked().any(|at| lends(ledger.account(theirs), at) > 0);
    let victims = Victims::from([(queue, vec![amount])]);
    let saturation = session.profile.reclaim_saturation_milli;
    lends && (!may_start || of.may_take(ledger, &victims, saturation))
}

/// The highest queue that would have more than its fair share, and has a quota too low for it, of
/// those of the path up to the place `top`.
fn full_for(reclaimer: &Reclaimer, ledger: &Ledger, top: usize) -> Option<QueueId> {
    let path: Vec<QueueId> = ledger.path(reclaimer.queue).take(top + 1).collect();
    let full =
        path.into_iter().rev().find(|queue| short_of(ledger, reclaimer, *queue).count() > 0)?;
    let after = ledger.account(full).allocated.plus(reclaimer.request).values();
    let total = ledger.total().values();
    reclaimer.asked().all(|at| after[at] <= total[at]).then_some(full)
}

fn fair_share(
    session: &Session<'_>,
    instead: &Reason,
    (reclaimer, full): (&Reclaimer, QueueId),
) -> Reason {
    let names = ResourceName::ACCOUNTED;
    let more = short_of(session.ledger(), reclaimer, full)
        .map(|at| Quantity { resource: names[at].clone(), amount: reclaimer.request.values()[at] });
    Reason::FairShare {
        instead: Box::new(instead.clone()),
        queue: Name::clone(&session.snapshot.queues[full.0 as usize].name),
        more: more.collect(),
    }
}

fn behind_share(
    session: &Session<'_>,
    instead: &Reason,
    (queue, before): (QueueId, JobKey),
) -> Reason {
    let before = session.group(before.group());
    Reason::BehindShare {
        instead: Box::new(instead.clone()),
        queue: Name::clone(&session.snapshot.queues[queue.0 as usize].name),
        first: format!("{}/{}", before.namespace, before.name).into(),
    }
}

/// How much it has beyond its quota that is not there to stay.
fn lends(account: &Account, at: usize) -> i64 {
    let used = account.allocated.values()[at];
    let Amount::Exactly(quota) = account.quota.values()[at] else { return 0 };
    (used - quota).min(used - account.allocated_non_preemptible.values()[at]).max(0)
}

/// Places of what the queue would have beyond its share, and beyond its quota. The job's own may not
/// be beyond it in what nobody asks for either.
fn short_of(ledger: &Ledger, of: &Reclaimer, queue: QueueId) -> impl Iterator<Item = usize> {
    let (account, asked) = (ledger.account(queue), of.request.values());
    let after = account.allocated.plus(of.request).values();
    let (fair, quota) = (account.fair_share.values(), account.quota.values());
    let is_own = queue == of.queue;
    [0, 1, 2].into_iter().filter(move |&at| {
        (is_own || asked[at] > 0) && after[at] > fair[at] && !quota[at].holds(after[at])
    })
}
