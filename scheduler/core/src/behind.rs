//! Who waits behind others of its queue.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    actions::allocate::Reasons,
    deadlines::lacks_room,
    decision::Reason,
    model::{PodGroupId, QueueId},
    queues::JobKey,
    session::Session,
};

/// Of those that wait until there is more, of nodes or of what their queue may use, those before
/// which others of their queue are served that do so, too.
pub(crate) fn behind_others(session: &Session<'_>, reasons: &Reasons) -> BTreeSet<PodGroupId> {
    let mut first: BTreeMap<QueueId, JobKey> = BTreeMap::new();
    let mut behind = BTreeSet::new();
    for (&id, _) in reasons.iter().filter(|(_, reason)| wants_more(reason)) {
        let group = session.group(id);
        let Some(queue) = group.known_queue() else { continue };
        let key = session.job_key(id, session.members(id).shortfall(group));
        let first = first.entry(queue).or_insert(key);
        if key < *first {
            behind.insert(first.group());
            *first = key;
        } else if key != *first {
            behind.insert(id);
        }
    }
    behind
}

const fn wants_more(reason: &Reason) -> bool {
    lacks_room(reason)
        || matches!(
            reason,
            Reason::OverLimit { .. }
                | Reason::NonPreemptibleOverQuota { .. }
                | Reason::FairShare { .. }
        )
}
