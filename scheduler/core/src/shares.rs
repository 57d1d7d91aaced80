//! Who waits since its queue has its fair share: others have more than their quotas, and nobody
//! leaves for it all the same.

use std::collections::BTreeMap;

use crate::{
    deadlines::lacks_room,
    decision::{Quantity, Reason, Remedy, Room},
    model::{Name, PodGroupId, QueueId},
    profile::Action,
    queues::{Account, Ledger, reclaim::Reclaimer},
    resources::ResourceName,
    session::Session,
};

/// How many of the queues below a queue, or below none, have preemptible work beyond their quotas,
/// of each resource.
pub(crate) struct KeptByShare(BTreeMap<Option<QueueId>, [u32; 3]>);

impl KeptByShare {
    pub(crate) fn of(session: &Session<'_>) -> Self {
        let (ledger, mut lenders) = (session.ledger(), BTreeMap::new());
        if ledger.tells_shares() && session.profile.actions.contains(&Action::Reclaim) {
            for queue in (0..u32::try_from(ledger.len()).unwrap_or(u32::MAX)).map(QueueId) {
                let account = ledger.account(queue);
                let counts: &mut [u32; 3] = lenders.entry(account.parent).or_default();
                (0..3).for_each(|at| counts[at] += u32::from(lends(account, at)));
            }
        }
        Self(lenders)
    }

    /// Tells it of the group, if it is only short of room.
    pub(crate) fn add(&self, session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
        let group = session.group(id);
        let Some(queue) = group.known_queue().filter(|_| lacks_room(reason)) else { return };
        let request = session.share_of(&session.next_chunk(id));
        let reclaimer = Reclaimer { queue, preemptible: group.preemptible, request };
        let Some(full) = self.full_for(&reclaimer, session.ledger()) else { return };
        let Remedy::MakeRoom { room: Room::Anywhere | Room::OnlyFull { .. }, .. } = reason.remedy()
        else {
            return;
        };
        let account = session.ledger().account(full);
        let names = [ResourceName::Gpu, ResourceName::Cpu, ResourceName::Memory];
        let more = reclaimer
            .asked()
            .filter(|at| lacks_share(account, &reclaimer, *at))
            .map(|at| Quantity { resource: names[at].clone(), amount: request.values()[at] });
        *reason = Reason::FairShare {
            instead: Box::new(reason.clone()),
            queue: Name::clone(&session.snapshot.queues[full.0 as usize].name),
            more: more.collect(),
        };
    }

    /// The highest queue that has its fair share, and a quota too low for more, of those that have
    /// others beside them, or above them, from whom the job would take it.
    fn full_for(&self, reclaimer: &Reclaimer, ledger: &Ledger) -> Option<QueueId> {
        if self.0.is_empty() || reclaimer.may_start(ledger) {
            return None;
        }
        let path: Vec<QueueId> = ledger.path(reclaimer.queue).collect();
        let has_lenders = |queue: &QueueId| {
            let account = ledger.account(*queue);
            let all = self.0.get(&account.parent).copied().unwrap_or_default();
            reclaimer.asked().any(|at| all[at] > u32::from(lends(account, at)))
        };
        let top = path.iter().rposition(has_lenders)?;
        let full = path[..=top].iter().rev().copied().find(|queue| {
            reclaimer.asked().any(|at| lacks_share(ledger.account(*queue), reclaimer, at))
        })?;
        let after = ledger.account(full).allocated.plus(reclaimer.request).values();
        let total = ledger.total().values();
        reclaimer.asked().all(|at| after[at] <= total[at]).then_some(full)
    }
}

/// It has more than its quota, and not all of that is there to stay.
fn lends(account: &Account, at: usize) -> bool {
    let used = account.allocated.values()[at];
    !account.quota.values()[at].holds(used) && used > account.allocated_non_preemptible.values()[at]
}

/// What is asked for is beyond its share, and beyond its quota.
fn lacks_share(account: &Account, reclaimer: &Reclaimer, at: usize) -> bool {
    let after = account.allocated.plus(reclaimer.request).values()[at];
    after > account.fair_share.values()[at] && !account.quota.values()[at].holds(after)
}
