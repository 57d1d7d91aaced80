//! The order of pod groups: by the queue tree, or by priority and age.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    framework::{JobQueue, QueueSort, Session},
    model::{PodGroupId, Time},
    profile::Action,
    queues::{JobsByQueue, QueuedJob, first_jobs_per_queue},
};

/// KAI's order: first the queue furthest below its share, and the first job in that queue.
#[derive(Debug)]
pub(super) struct QueueTree;

/// kube-scheduler's order: the highest priority first, then the oldest group.
#[derive(Debug)]
pub(super) struct PrioritySort;

impl QueueSort for QueueTree {
    fn new_queue(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn JobQueue> {
        let waiting = groups.into_iter().filter_map(|group| queued_job(session, group));
        let mut waiting: Vec<QueuedJob> = waiting.collect();
        if let Some(depth) = session.profile.queue_depth.get(&Action::Allocate) {
            waiting = first_jobs_per_queue(waiting, *depth);
        }
        Box::new(QueueTreeOrder(JobsByQueue::new(session.accounts(), waiting)))
    }
}

struct QueueTreeOrder(JobsByQueue);

impl JobQueue for QueueTreeOrder {
    fn next_over_share(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.0.next_over_share(session.accounts()).map(|job| job.key.group())
    }

    fn remove_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Some(job) = queued_job(session, group) {
            self.0.remove_job(session.accounts(), &job);
        }
    }

    fn pop_next_group(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.0.pop_next_job(session.accounts()).map(|job| job.key.group())
    }

    fn push_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Some(job) = queued_job(session, group) {
            self.0.push_job(session.accounts(), job);
        }
    }

    fn on_allocated(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Ok(Some(queue)) = session.group(group).queue {
            self.0.on_accounts_changed(session.accounts(), queue);
        }
    }
}

fn queued_job(session: &Session<'_>, id: PodGroupId) -> Option<QueuedJob> {
    let group = session.group(id);
    let Ok(Some(queue)) = group.queue else { return None };
    let request = session.fair_share_request(&session.next_chunk(id));
    let key = session.current_job_key(id);
    Some(QueuedJob { queue, key, request })
}

impl QueueSort for PrioritySort {
    fn new_queue(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn JobQueue> {
        Box::new(PriorityOrder(
            groups.into_iter().map(|group| priority_key(session, group)).collect(),
        ))
    }
}

struct PriorityOrder(BTreeSet<PriorityKey>);

type PriorityKey = (Reverse<i32>, Time, PodGroupId);

fn priority_key(session: &Session<'_>, id: PodGroupId) -> PriorityKey {
    let group = session.group(id);
    (Reverse(group.priority), group.created, id)
}

impl JobQueue for PriorityOrder {
    fn next_over_share(&mut self, _: &Session<'_>) -> Option<PodGroupId> {
        None
    }

    fn remove_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.0.remove(&priority_key(session, group));
    }

    fn pop_next_group(&mut self, _: &Session<'_>) -> Option<PodGroupId> {
        self.0.pop_first().map(|(.., group)| group)
    }

    fn push_group(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.0.insert(priority_key(session, group));
    }

    fn on_allocated(&mut self, _: &Session<'_>, _: PodGroupId) {}
}
