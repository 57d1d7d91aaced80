//! The next leaf queue over the whole tree: on each level the best sibling by [`QueueKey`],
//! compared by its best job. A change costs one re-insertion per level.

use std::collections::BTreeSet;

use super::{QueueAccounts, queue_key::QueueKey};
use crate::{model::QueueId, resources::PerResource};

/// The purpose for which queues are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderPurpose {
    /// To place jobs: the most deserving queue comes first.
    Allocate,
    /// To evict jobs: the least deserving queue comes first.
    Evict,
}

/// What the next job of a queue would change in the queue's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCandidate {
    /// What the next job to serve requests.
    pub job: PerResource<i64>,
    /// What the victims of the queue so far, and the next victim, give back.
    pub victims: PerResource<i64>,
}

/// The leaf queues with a candidate, ordered on each level of the tree.
#[derive(Clone, Debug)]
pub struct QueueOrder {
    direction: OrderPurpose,
    top: Siblings,
    nodes: Vec<QueueNode>,
    /// Queues whose key among their siblings changed since [`Self::next_over_share`] last looked at
    /// them.
    changed: BTreeSet<QueueId>,
}

#[derive(Clone, Debug, Default)]
struct QueueNode {
    children: Siblings,
    /// The queue's candidate, and its key among siblings (`None`: it has no siblings with a
    /// candidate).
    entry: Option<(QueueCandidate, Option<QueueKey>)>,
}

/// The queues with a candidate on one level of the tree. A single queue needs no key.
#[derive(Clone, Debug, Default)]
struct Siblings {
    single: Option<QueueId>,
    ordered: BTreeSet<QueueKey>,
}

impl QueueOrder {
    /// Creates the order without any candidate.
    pub fn new(accounts: &QueueAccounts, direction: OrderPurpose) -> Self {
        let (top, nodes) = (Siblings::default(), vec![QueueNode::default(); accounts.len()]);
        Self { direction, top, nodes, changed: BTreeSet::new() }
    }

    /// Sets the candidate of the queue `leaf` (`None`: it has none) and recomputes the keys of the
    /// queue and its ancestors.
    pub fn set_candidate(
        &mut self,
        accounts: &QueueAccounts,
        leaf: QueueId,
        candidate: Option<QueueCandidate>,
    ) {
        let mut next = Some((leaf, candidate));
        while let Some((queue, candidate)) = next {
            let parent = accounts.account(queue).parent;
            match candidate {
                Some(candidate) => self.insert_candidate(accounts, parent, queue, candidate),
                None => self.remove_candidate(parent, queue),
            }
            next = parent.map(|parent| (parent, self.best_candidate(parent)));
        }
    }

    /// Recomputes the keys with unchanged candidate after the account of the queue `leaf` changed.
    pub fn refresh_keys(&mut self, accounts: &QueueAccounts, leaf: QueueId) {
        let candidate = self.nodes[leaf.0 as usize].entry.as_ref().map(|(candidate, _)| *candidate);
        self.set_candidate(accounts, leaf, candidate);
    }

    /// The leaf queue that comes first.
    pub fn best_queue(&self) -> Option<QueueId> {
        Some(self.leaf_of_candidate(self.first_sibling(&self.top)?))
    }

    /// A leaf queue whose candidate would take the queue, or an ancestor that the candidate
    /// represents, beyond its share. The same leaf queue is returned again only after such a key
    /// changed.
    pub fn next_over_share(&mut self, accounts: &QueueAccounts) -> Option<QueueId> {
        while let Some(queue) = self.changed.pop_first() {
            let entry = self.nodes[queue.0 as usize].entry.as_ref();
            if entry.is_some_and(|(candidate, _)| {
                accounts.account(queue).would_exceed_share(candidate.job)
            }) {
                return Some(self.leaf_of_candidate(queue));
            }
        }
        None
    }

    /// The leaf queue whose candidate represents `queue` among its siblings.
    fn leaf_of_candidate(&self, mut queue: QueueId) -> QueueId {
        while let Some(child) = self.first_sibling(&self.nodes[queue.0 as usize].children) {
            queue = child;
        }
        queue
    }

    fn first_sibling(&self, siblings: &Siblings) -> Option<QueueId> {
        let several = match self.direction {
            OrderPurpose::Allocate => siblings.ordered.first(),
            OrderPurpose::Evict => siblings.ordered.last(),
        };
        several.map(QueueKey::queue).or(siblings.single)
    }

    fn best_candidate(&self, parent: QueueId) -> Option<QueueCandidate> {
        let child = self.first_sibling(&self.nodes[parent.0 as usize].children)?;
        self.nodes[child.0 as usize].entry.as_ref().map(|(candidate, _)| *candidate)
    }

    fn insert_candidate(
        &mut self,
        accounts: &QueueAccounts,
        parent: Option<QueueId>,
        queue: QueueId,
        candidate: QueueCandidate,
    ) {
        self.remove_candidate(parent, queue);
        self.nodes[queue.0 as usize].entry = Some((candidate, None));
        let siblings = self.siblings_mut(parent);
        match siblings.single.take() {
            None if siblings.ordered.is_empty() => siblings.single = Some(queue),
            None => self.insert_key(accounts, parent, queue),
            Some(other) => {
                self.insert_key(accounts, parent, other);
                self.insert_key(accounts, parent, queue);
            }
        }
    }

    /// Computes the key of a queue among several siblings and inserts it.
    fn insert_key(&mut self, accounts: &QueueAccounts, parent: Option<QueueId>, queue: QueueId) {
        let Some((candidate, stands)) = &mut self.nodes[queue.0 as usize].entry else { return };
        let key = QueueKey::new(accounts, queue, candidate.job, candidate.victims);
        *stands = Some(key.clone());
        self.siblings_mut(parent).ordered.insert(key);
        if self.direction == OrderPurpose::Allocate {
            self.changed.insert(queue);
        }
    }

    fn remove_candidate(&mut self, parent: Option<QueueId>, queue: QueueId) {
        let entry = self.nodes[queue.0 as usize].entry.take();
        let siblings = self.siblings_mut(parent);
        match entry {
            Some((_, Some(key))) => drop(siblings.ordered.remove(&key)),
            Some((_, None)) => siblings.single = None,
            None => {}
        }
    }

    fn siblings_mut(&mut self, parent: Option<QueueId>) -> &mut Siblings {
        match parent {
            Some(parent) => &mut self.nodes[parent.0 as usize].children,
            None => &mut self.top,
        }
    }
}
