//! The next leaf queue over the whole tree: on each level the best sibling by [`QueueKey`],
//! compared by its best job. A change costs one re-insertion per level.

use std::collections::BTreeSet;

use super::{QueueAccounts, queue_key::QueueKey};
use crate::{model::QueueId, resources::PerResource};

/// The purpose of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The most deserving queue comes first.
    Allocate,
    /// Reverse order: the least deserving queue comes first.
    Evict,
}

/// What a queue's next job would change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCandidate {
    /// What the next job to serve requests.
    pub job: PerResource<i64>,
    /// What the victims so far, and the next one, give back.
    pub victims: PerResource<i64>,
}

/// The leaf queues with a candidate, ordered on each level of the tree.
#[derive(Clone, Debug)]
pub struct QueueOrder {
    direction: Direction,
    top: Siblings,
    nodes: Vec<QueueNode>,
    /// Queues with siblings whose key changed since [`Self::next_over_share`] looked at them.
    changed: BTreeSet<QueueId>,
}

#[derive(Clone, Debug, Default)]
struct QueueNode {
    children: Siblings,
    /// Its candidate, and its key among siblings.
    entry: Option<(JobCandidate, Option<QueueKey>)>,
}

/// The queues with a candidate on one level. A single one needs no key.
#[derive(Clone, Debug, Default)]
struct Siblings {
    single: Option<QueueId>,
    ordered: BTreeSet<QueueKey>,
}

impl QueueOrder {
    /// Without any candidate.
    pub fn new(accounts: &QueueAccounts, direction: Direction) -> Self {
        let (top, nodes) = (Siblings::default(), vec![QueueNode::default(); accounts.len()]);
        Self { direction, top, nodes, changed: BTreeSet::new() }
    }

    /// Sets the candidate of `leaf` (`None`: none) and recomputes the keys of the queue and its
    /// ancestors.
    pub fn update(
        &mut self,
        accounts: &QueueAccounts,
        leaf: QueueId,
        candidate: Option<JobCandidate>,
    ) {
        let mut next = Some((leaf, candidate));
        while let Some((queue, candidate)) = next {
            let parent = accounts.account(queue).parent;
            match candidate {
                Some(candidate) => self.insert(accounts, parent, queue, candidate),
                None => self.remove(parent, queue),
            }
            next = parent.map(|parent| (parent, self.best_candidate(parent)));
        }
    }

    /// Recomputes the keys after the accounts of `leaf` changed, with the same candidate.
    pub fn refresh(&mut self, accounts: &QueueAccounts, leaf: QueueId) {
        let candidate = self.nodes[leaf.0 as usize].entry.as_ref().map(|(candidate, _)| *candidate);
        self.update(accounts, leaf, candidate);
    }

    /// The next leaf queue.
    pub fn best_queue(&self) -> Option<QueueId> {
        Some(self.best_leaf(self.first(&self.top)?))
    }

    /// A leaf queue whose candidate represents it, or an ancestor, among siblings and would take
    /// that queue beyond its share. Returned once for each key that it gets.
    pub fn next_over_share(&mut self, accounts: &QueueAccounts) -> Option<QueueId> {
        while let Some(queue) = self.changed.pop_first() {
            let entry = self.nodes[queue.0 as usize].entry.as_ref();
            if entry
                .is_some_and(|(candidate, _)| accounts.account(queue).exceeds_share(candidate.job))
            {
                return Some(self.best_leaf(queue));
            }
        }
        None
    }

    /// The leaf queue whose candidate `queue` has.
    fn best_leaf(&self, mut queue: QueueId) -> QueueId {
        while let Some(child) = self.first(&self.nodes[queue.0 as usize].children) {
            queue = child;
        }
        queue
    }

    fn first(&self, siblings: &Siblings) -> Option<QueueId> {
        let several = match self.direction {
            Direction::Allocate => siblings.ordered.first(),
            Direction::Evict => siblings.ordered.last(),
        };
        several.map(QueueKey::queue).or(siblings.single)
    }

    fn best_candidate(&self, parent: QueueId) -> Option<JobCandidate> {
        let child = self.first(&self.nodes[parent.0 as usize].children)?;
        self.nodes[child.0 as usize].entry.as_ref().map(|(candidate, _)| *candidate)
    }

    fn insert(
        &mut self,
        accounts: &QueueAccounts,
        parent: Option<QueueId>,
        queue: QueueId,
        candidate: JobCandidate,
    ) {
        self.remove(parent, queue);
        self.nodes[queue.0 as usize].entry = Some((candidate, None));
        let siblings = self.siblings(parent);
        match siblings.single.take() {
            None if siblings.ordered.is_empty() => siblings.single = Some(queue),
            None => self.insert_key(accounts, parent, queue),
            Some(other) => {
                self.insert_key(accounts, parent, other);
                self.insert_key(accounts, parent, queue);
            }
        }
    }

    /// Gives a queue its key among several siblings.
    fn insert_key(&mut self, accounts: &QueueAccounts, parent: Option<QueueId>, queue: QueueId) {
        let Some((candidate, stands)) = &mut self.nodes[queue.0 as usize].entry else { return };
        let key = QueueKey::new(accounts, queue, candidate.job, candidate.victims);
        *stands = Some(key.clone());
        self.siblings(parent).ordered.insert(key);
        if self.direction == Direction::Allocate {
            self.changed.insert(queue);
        }
    }

    fn remove(&mut self, parent: Option<QueueId>, queue: QueueId) {
        let entry = self.nodes[queue.0 as usize].entry.take();
        let siblings = self.siblings(parent);
        match entry {
            Some((_, Some(key))) => drop(siblings.ordered.remove(&key)),
            Some((_, None)) => siblings.single = None,
            None => {}
        }
    }

    fn siblings(&mut self, parent: Option<QueueId>) -> &mut Siblings {
        match parent {
            Some(parent) => &mut self.nodes[parent.0 as usize].children,
            None => &mut self.top,
        }
    }
}
