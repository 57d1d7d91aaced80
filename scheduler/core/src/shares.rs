//! Who waits since its queue has its fair share: others have more than their quotas, and nobody
//! leaves for it all the same.

use std::collections::BTreeMap;

use crate::{
    actions::allocate::Reasons,
    deadlines::lacks_room,
    decision::{Quantity, Reason, Remedy, Room},
    model::{Name, NodeId, PodId, QueueId, ShapeId},
    profile::Action,
    queues::{
        Account, JobKey, Ledger,
        reclaim::{Reclaimer, diverging},
    },
    resources::{Amount, ResourceName},
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
    /// Would room for pods like this one of the queue, if others left, be on one node?
    has_node: BTreeMap<(ShapeId, QueueId), bool>,
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
        let mut first: BTreeMap<QueueId, JobKey> = BTreeMap::new();
        let mut others: Vec<(JobKey, Reclaimer)> = Vec::new();
        for (&id, reason) in reasons.iter_mut() {
            let group = session.group(id);
            let Some(queue) = group.known_queue().filter(|_| lacks_room(reason)) else { continue };
            let pods = session.next_chunk(id);
            let request = session.share_of(&pods);
            let reclaimer = Reclaimer { queue, preemptible: group.preemptible, request };
            let may_start = reclaimer.may_start(session.ledger());
            let key = session.job_key(id, session.members(id).shortfall(group));
            if !may_start {
                let first = first.entry(queue).or_insert(key);
                *first = key.min(*first);
            }
            if !self.would_make_room(session, (&pods, &reclaimer), reason) {
                continue;
            }
            if may_start {
                others.push((key, reclaimer));
            } else if let Some(full) = self.full_for(&reclaimer, session.ledger()) {
                *reason = fair_share(session, reason, (&reclaimer, full));
            }
        }
        for (key, reclaimer) in others {
            let before = first.get(&reclaimer.queue).filter(|before| **before < key);
            let (Some(before), Some(reason)) = (before, reasons.get_mut(&key.group())) else {
                continue;
            };
            let of = session.group(before.group());
            *reason = Reason::BehindShare {
                instead: Box::new(reason.clone()),
                queue: Name::clone(&session.snapshot.queues[reclaimer.queue.0 as usize].name),
                first: format!("{}/{}", of.namespace, of.name).into(),
            };
        }
    }

    /// Those who lend would make room for the pods, which lack nothing else, if they left.
    fn would_make_room(
        &mut self,
        session: &Session<'_>,
        (pods, reclaimer): (&[PodId], &Reclaimer),
        reason: &Reason,
    ) -> bool {
        let is_full = || {
            let remedy = reason.remedy();
            matches!(remedy, Remedy::MakeRoom { room: Room::Anywhere | Room::OnlyFull { .. }, .. })
        };
        self.highest_lent_to(reclaimer, session.ledger()).is_some()
            && is_full()
            && pods.iter().all(|pod| self.has_node(session, *pod, reclaimer))
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

    /// The highest queue that would have more than its fair share, and has a quota too low for it,
    /// of those that have lenders beside or above them.
    fn full_for(&self, reclaimer: &Reclaimer, ledger: &Ledger) -> Option<QueueId> {
        let top = self.highest_lent_to(reclaimer, ledger)?;
        let path: Vec<QueueId> = ledger.path(reclaimer.queue).collect();
        let full = path[..=top].iter().rev().copied().find(|queue| {
            reclaimer.asked().any(|at| lacks_share(ledger.account(*queue), reclaimer, at))
        })?;
        let after = ledger.account(full).allocated.plus(reclaimer.request).values();
        let total = ledger.total().values();
        reclaimer.asked().all(|at| after[at] <= total[at]).then_some(full)
    }

    /// There is a node that is only too full for the pod, and would not be if those left there who
    /// belong to queues that lend.
    fn has_node(&mut self, session: &Session<'_>, pod: PodId, of: &Reclaimer) -> bool {
        let key = (session.pod(pod).shape, of.queue);
        if let Some(known) = self.has_node.get(&key) {
            return *known;
        }
        let asked = session.share_of(&[pod]).values();
        let would_fit = |node: NodeId| {
            let mut free = Free::of(session, node).accounted();
            let staying = session.room(node).staying.iter();
            for victim in staying.filter(|victim| may_leave(session, **victim, of)) {
                free = free.plus(session.share_of(&[*victim]));
            }
            free.values().into_iter().zip(asked).all(|(free, asked)| free >= asked || asked <= 0)
        };
        let found = session.only_too_full(pod).into_iter().any(would_fit);
        self.has_node.insert(key, found);
        found
    }
}

fn fair_share(
    session: &Session<'_>,
    instead: &Reason,
    (reclaimer, full): (&Reclaimer, QueueId),
) -> Reason {
    let account = session.ledger().account(full);
    let names = [ResourceName::Gpu, ResourceName::Cpu, ResourceName::Memory];
    let short = reclaimer.asked().filter(|at| lacks_share(account, reclaimer, *at));
    let more = short
        .map(|at| Quantity { resource: names[at].clone(), amount: reclaimer.request.values()[at] });
    Reason::FairShare {
        instead: Box::new(instead.clone()),
        queue: Name::clone(&session.snapshot.queues[full.0 as usize].name),
        more: more.collect(),
    }
}

/// It is preemptible, and of a queue that lends to the job's.
fn may_leave(session: &Session<'_>, victim: PodId, of: &Reclaimer) -> bool {
    let Some(group) = session.pod(victim).group.map(|group| session.group(group)) else {
        return false;
    };
    let ledger = session.ledger();
    let lender = group.known_queue().and_then(|queue| diverging(ledger, of.queue, queue));
    let lends = |(_, theirs)| of.asked().any(|at| lends(ledger.account(theirs), at) > 0);
    group.preemptible && session.can_evict(victim) && lender.is_some_and(lends)
}

/// How much it has beyond its quota that is not there to stay.
fn lends(account: &Account, at: usize) -> i64 {
    let used = account.allocated.values()[at];
    let Amount::Exactly(quota) = account.quota.values()[at] else { return 0 };
    (used - quota).min(used - account.allocated_non_preemptible.values()[at]).max(0)
}

/// What is asked for is beyond its share, and beyond its quota.
fn lacks_share(account: &Account, reclaimer: &Reclaimer, at: usize) -> bool {
    let after = account.allocated.plus(reclaimer.request).values()[at];
    after > account.fair_share.values()[at] && !account.quota.values()[at].holds(after)
}
