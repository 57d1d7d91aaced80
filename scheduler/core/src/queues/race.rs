//! Which leaf queue is next, over the whole tree: at each level the best sibling by
//! [`Standing`], compared by the best job below it. A change costs one re-insertion a level.

use std::collections::BTreeSet;

use super::{Ledger, standing::Standing};
use crate::{model::QueueId, resources::PerResource};

/// Who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The queue that deserves it most.
    ToServe,
    /// Exactly the reverse.
    ToTakeFrom,
}

/// What a queue's next job would change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// What the next job to serve asks for.
    pub job: PerResource<i64>,
    /// What the victims taken so far, and the next, give back.
    pub victims: PerResource<i64>,
}

/// The leaf queues that have something to offer, ordered at each level of the tree.
#[derive(Clone, Debug)]
pub struct Race {
    direction: Direction,
    top: Siblings,
    nodes: Vec<Node>,
    /// Queues in line with others whose place was taken since [`Self::reaching`] looked at them.
    moved: BTreeSet<QueueId>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: Siblings,
    /// What it offers, and by which standing it is in line.
    entry: Option<(Offer, Option<Standing>)>,
}

/// Who is in line on one level. One alone needs no standing.
#[derive(Clone, Debug, Default)]
struct Siblings {
    alone: Option<QueueId>,
    several: BTreeSet<Standing>,
}

impl Race {
    /// Nobody runs yet.
    pub fn new(ledger: &Ledger, direction: Direction) -> Self {
        let (top, nodes) = (Siblings::default(), vec![Node::default(); ledger.len()]);
        Self { direction, top, nodes, moved: BTreeSet::new() }
    }

    /// `leaf` has this to offer now (`None`: nothing); its place and that of all queues above it
    /// are taken anew from their accounts.
    pub fn update(&mut self, ledger: &Ledger, leaf: QueueId, offer: Option<Offer>) {
        let mut next = Some((leaf, offer));
        while let Some((queue, offer)) = next {
            let parent = ledger.account(queue).parent;
            match offer {
                Some(offer) => self.enter(ledger, parent, (queue, offer)),
                None => self.leave(parent, queue),
            }
            next = parent.map(|parent| (parent, self.best_offer(parent)));
        }
    }

    /// The accounts of `leaf` changed; what it offers did not.
    pub fn refresh(&mut self, ledger: &Ledger, leaf: QueueId) {
        let offer = self.nodes[leaf.0 as usize].entry.as_ref().map(|(offer, _)| *offer);
        self.update(ledger, leaf, offer);
    }

    /// The leaf queue that is next.
    pub fn best(&self) -> Option<QueueId> {
        Some(self.speaker(self.first(&self.top)?))
    }

    /// A leaf queue whose next job speaks for it, or for one above it, among siblings, and would
    /// take that beyond its share. Each is told once for each place that it takes.
    pub fn reaching(&mut self, ledger: &Ledger) -> Option<QueueId> {
        while let Some(queue) = self.moved.pop_first() {
            let entry = self.nodes[queue.0 as usize].entry.as_ref();
            if entry.is_some_and(|(offer, _)| ledger.account(queue).is_beyond_share(offer.job)) {
                return Some(self.speaker(queue));
            }
        }
        None
    }

    /// The leaf queue whose offer is that of `queue`.
    fn speaker(&self, mut queue: QueueId) -> QueueId {
        while let Some(child) = self.first(&self.nodes[queue.0 as usize].children) {
            queue = child;
        }
        queue
    }

    fn first(&self, siblings: &Siblings) -> Option<QueueId> {
        let several = match self.direction {
            Direction::ToServe => siblings.several.first(),
            Direction::ToTakeFrom => siblings.several.last(),
        };
        several.map(Standing::queue).or(siblings.alone)
    }

    fn best_offer(&self, parent: QueueId) -> Option<Offer> {
        let child = self.first(&self.nodes[parent.0 as usize].children)?;
        self.nodes[child.0 as usize].entry.as_ref().map(|(offer, _)| *offer)
    }

    fn enter(
        &mut self,
        ledger: &Ledger,
        parent: Option<QueueId>,
        (queue, offer): (QueueId, Offer),
    ) {
        self.leave(parent, queue);
        self.nodes[queue.0 as usize].entry = Some((offer, None));
        let siblings = self.siblings(parent);
        match siblings.alone.take() {
            None if siblings.several.is_empty() => siblings.alone = Some(queue),
            None => self.stand(ledger, parent, queue),
            Some(other) => {
                self.stand(ledger, parent, other);
                self.stand(ledger, parent, queue);
            }
        }
    }

    /// Gives a queue its place among several.
    fn stand(&mut self, ledger: &Ledger, parent: Option<QueueId>, queue: QueueId) {
        let Some((offer, stands)) = &mut self.nodes[queue.0 as usize].entry else { return };
        let standing = Standing::of(ledger, queue, offer.job, offer.victims);
        *stands = Some(standing.clone());
        self.siblings(parent).several.insert(standing);
        if self.direction == Direction::ToServe {
            self.moved.insert(queue);
        }
    }

    fn leave(&mut self, parent: Option<QueueId>, queue: QueueId) {
        let entry = self.nodes[queue.0 as usize].entry.take();
        let siblings = self.siblings(parent);
        match entry {
            Some((_, Some(standing))) => drop(siblings.several.remove(&standing)),
            Some((_, None)) => siblings.alone = None,
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
