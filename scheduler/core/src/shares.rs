//! Who waits since its queue has its fair share: others have more than their quotas, and nobody
//! leaves for it all the same.

use std::collections::BTreeMap;

use crate::{
    decision::{Quantity, Reason, Remedy, Room},
    model::{Name, PodGroupId, QueueId},
    profile::Action,
    queues::reclaim::Reclaimer,
    resources::ResourceName,
    session::Session,
};

/// What was found out, by queue, kind and request: most groups are like others.
#[derive(Default)]
pub(crate) struct Shares(BTreeMap<(QueueId, bool, [i64; 3]), Option<QueueId>>);

impl Shares {
    /// Tells it of the group, if it is only short of room.
    pub(crate) fn add(&mut self, session: &Session<'_>, id: PodGroupId, reason: &mut Reason) {
        let could_reclaim = session.profile.actions.contains(&Action::Reclaim);
        let is_full = matches!(
            reason.remedy(),
            Remedy::MakeRoom { room: Room::Anywhere | Room::OnlyFull { .. }, .. }
        );
        let Some(queue) = session.group(id).known_queue().filter(|_| could_reclaim && is_full)
        else {
            return;
        };
        let request = session.share_of(&session.next_chunk(id));
        let preemptible = session.group(id).preemptible;
        let key = (queue, preemptible, request.values());
        let full = *self.0.entry(key).or_insert_with(|| {
            Reclaimer { queue, preemptible, request }.kept_by_share(session.ledger())
        });
        let Some(full) = full else { return };
        let account = session.ledger().account(full);
        let after = account.allocated.plus(request).values();
        let all = [ResourceName::Gpu, ResourceName::Cpu, ResourceName::Memory].into_iter();
        let short =
            all.zip(request.values()).zip(after.into_iter().zip(account.fair_share.values()));
        let more = short.filter(|((_, asked), (after, fair))| *asked > 0 && after > fair);
        *reason = Reason::FairShare {
            instead: Box::new(reason.clone()),
            queue: Name::clone(&session.snapshot.queues[full.0 as usize].name),
            more: more.map(|((resource, amount), _)| Quantity { resource, amount }).collect(),
        };
    }
}
