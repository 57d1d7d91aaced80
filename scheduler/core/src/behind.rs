//! Who waits behind others of its queue.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

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
    let mut first = FirstJobs::default();
    let waiting = reasons.iter().filter(|(_, reason)| wants_more(reason));
    let behind = waiting.filter_map(|(&id, _)| {
        let queue = session.group(id).known_queue()?;
        first.take(queue, session.waiting_key(id)).map(|behind| behind.group())
    });
    behind.collect()
}

/// The first job of each queue.
#[derive(Default)]
pub(crate) struct FirstJobs(BTreeMap<QueueId, JobKey>);

impl FirstJobs {
    /// One more job; the answer stands behind another one, of those that were known.
    pub(crate) fn take(&mut self, queue: QueueId, job: JobKey) -> Option<JobKey> {
        match self.0.entry(queue) {
            Entry::Vacant(place) => {
                place.insert(job);
                None
            }
            Entry::Occupied(mut first) if job < *first.get() => Some(first.insert(job)),
            Entry::Occupied(_) => Some(job),
        }
    }

    /// The first one, if it comes before this one.
    pub(crate) fn before(&self, queue: QueueId, job: JobKey) -> Option<JobKey> {
        self.0.get(&queue).copied().filter(|first| *first < job)
    }
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
