//! In which order pod groups are served: by the queue tree, or one by one by priority and age.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    framework::{Line, QueueSort},
    model::{PodGroupId, Time},
    profile::Action,
    queues::{JobLine, Waiting, first_of_each},
    session::Session,
};

/// The queue that deserves it most, and in it the most important job (KAI).
#[derive(Debug)]
pub(super) struct QueueTree;

/// The highest priority, then the oldest (kube-scheduler).
#[derive(Debug)]
pub(super) struct PrioritySort;

impl QueueSort for QueueTree {
    fn line_up(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn Line> {
        let waiting = groups.into_iter().filter_map(|group| waiting(session, group));
        let mut waiting: Vec<Waiting> = waiting.collect();
        if let Some(depth) = session.profile.queue_depth.get(&Action::Allocate) {
            waiting = first_of_each(waiting, *depth);
        }
        Box::new(TreeLine(JobLine::new(session.ledger(), waiting)))
    }
}

struct TreeLine(JobLine);

impl Line for TreeLine {
    fn reaching(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.0.reaching(session.ledger()).map(|job| job.key.group())
    }

    fn remove(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Some(job) = waiting(session, group) {
            self.0.remove(session.ledger(), &job);
        }
    }

    fn pop(&mut self, session: &Session<'_>) -> Option<PodGroupId> {
        self.0.pop(session.ledger()).map(|job| job.key.group())
    }

    fn push(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Some(job) = waiting(session, group) {
            self.0.push(session.ledger(), job);
        }
    }

    fn served(&mut self, session: &Session<'_>, group: PodGroupId) {
        if let Ok(Some(queue)) = session.group(group).queue {
            self.0.accounts_changed(session.ledger(), queue);
        }
    }
}

fn waiting(session: &Session<'_>, id: PodGroupId) -> Option<Waiting> {
    let group = session.group(id);
    let Ok(Some(queue)) = group.queue else { return None };
    let request = session.share_of(&session.next_chunk(id));
    let key = session.waiting_key(id);
    Some(Waiting { queue, key, request })
}

impl QueueSort for PrioritySort {
    fn line_up(&self, session: &Session<'_>, groups: Vec<PodGroupId>) -> Box<dyn Line> {
        Box::new(PriorityLine(groups.into_iter().map(|group| place(session, group)).collect()))
    }
}

struct PriorityLine(BTreeSet<Place>);

type Place = (Reverse<i32>, Time, PodGroupId);

fn place(session: &Session<'_>, id: PodGroupId) -> Place {
    let group = session.group(id);
    (Reverse(group.priority), group.created, id)
}

impl Line for PriorityLine {
    fn reaching(&mut self, _: &Session<'_>) -> Option<PodGroupId> {
        None
    }

    fn remove(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.0.remove(&place(session, group));
    }

    fn pop(&mut self, _: &Session<'_>) -> Option<PodGroupId> {
        self.0.pop_first().map(|(.., group)| group)
    }

    fn push(&mut self, session: &Session<'_>, group: PodGroupId) {
        self.0.insert(place(session, group));
    }

    fn served(&mut self, _: &Session<'_>, _: PodGroupId) {}
}
