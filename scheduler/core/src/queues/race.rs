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
    top: BTreeSet<Standing>,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: BTreeSet<Standing>,
    /// Its place among its siblings, and the offer it rests on.
    entry: Option<(Standing, Offer)>,
}

impl Race {
    /// Nobody runs yet.
    pub fn new(ledger: &Ledger, direction: Direction) -> Self {
        Self { direction, top: BTreeSet::new(), nodes: vec![Node::default(); ledger.len()] }
    }

    /// `leaf` has this to offer now (`None`: nothing); its place and that of all queues above it
    /// are taken anew from their accounts.
    pub fn update(&mut self, ledger: &Ledger, leaf: QueueId, offer: Option<Offer>) {
        let mut next = Some((leaf, offer));
        while let Some((queue, offer)) = next {
            let parent = ledger.account(queue).parent;
            let entry =
                offer.map(|offer| (Standing::of(ledger, queue, offer.job, offer.victims), offer));
            let old = std::mem::replace(&mut self.nodes[queue.0 as usize].entry, entry.clone());
            let siblings = self.siblings(parent);
            if let Some((standing, _)) = old {
                siblings.remove(&standing);
            }
            if let Some((standing, _)) = entry {
                siblings.insert(standing);
            }
            next = parent.map(|parent| (parent, self.best_offer(parent)));
        }
    }

    /// The accounts of `leaf` changed; what it offers did not.
    pub fn refresh(&mut self, ledger: &Ledger, leaf: QueueId) {
        let offer = self.nodes[leaf.0 as usize].entry.as_ref().map(|(_, offer)| *offer);
        self.update(ledger, leaf, offer);
    }

    /// The leaf queue that is next.
    pub fn best(&self) -> Option<QueueId> {
        let mut best = self.first(&self.top)?.queue();
        while let Some(child) = self.first(&self.nodes[best.0 as usize].children) {
            best = child.queue();
        }
        Some(best)
    }

    fn first<'a>(&self, siblings: &'a BTreeSet<Standing>) -> Option<&'a Standing> {
        match self.direction {
            Direction::ToServe => siblings.first(),
            Direction::ToTakeFrom => siblings.last(),
        }
    }

    fn best_offer(&self, parent: QueueId) -> Option<Offer> {
        let child = self.first(&self.nodes[parent.0 as usize].children)?.queue();
        self.nodes[child.0 as usize].entry.as_ref().map(|(_, offer)| *offer)
    }

    fn siblings(&mut self, parent: Option<QueueId>) -> &mut BTreeSet<Standing> {
        match parent {
            Some(parent) => &mut self.nodes[parent.0 as usize].children,
            None => &mut self.top,
        }
    }
}
