//! Evicted units on their way back: the best of the queue that is served first.

use std::collections::BTreeMap;

use super::{Unit, UnitKey};
use crate::{
    model::QueueId,
    queues::{Direction, Ledger, Offer, Race},
    resources::PerResource,
};

/// What may return, by leaf queue.
pub(super) struct Returning<'p> {
    race: Race,
    leaves: BTreeMap<QueueId, BTreeMap<UnitKey, &'p Unit>>,
}

impl<'p> Returning<'p> {
    pub(super) fn new(ledger: &Ledger, evicted: &[&'p Unit]) -> Self {
        let mut leaves: BTreeMap<QueueId, BTreeMap<UnitKey, &'p Unit>> = BTreeMap::new();
        for &unit in evicted {
            leaves.entry(unit.queue).or_default().insert(unit.key, unit);
        }
        let race = Race::new(ledger, Direction::ToServe);
        let mut returning = Self { race, leaves };
        let queues: Vec<QueueId> = returning.leaves.keys().copied().collect();
        for queue in queues {
            returning.accounts_changed(ledger, queue);
        }
        returning
    }

    /// Takes out the next.
    pub(super) fn next(&mut self, ledger: &Ledger) -> Option<&'p Unit> {
        let queue = self.race.best()?;
        let (_, unit) = self.leaves.get_mut(&queue)?.pop_first()?;
        self.accounts_changed(ledger, queue);
        Some(unit)
    }

    /// To be called when something returned to `queue`.
    pub(super) fn accounts_changed(&mut self, ledger: &Ledger, queue: QueueId) {
        let first = self.leaves.get(&queue).and_then(|units| units.first_key_value());
        let offer =
            first.map(|(_, unit)| Offer { job: unit.amount, victims: PerResource::default() });
        self.race.update(ledger, queue, offer);
    }
}
