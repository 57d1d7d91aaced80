//! Victims in the order in which they are considered: from the queue that deserves least what it
//! has, its worst unit; then as if that had gone, the next.

use std::collections::BTreeMap;

use super::{Pool, Unit, UnitKey};
use crate::{
    model::QueueId,
    queues::{Direction, Ledger, Offer, Race},
    resources::PerResource,
};

/// The candidates of one search, to be taken one by one.
pub(crate) struct VictimLine<'a, F> {
    pool: &'a Pool,
    ledger: &'a Ledger,
    may_go: F,
    race: Race,
    queues: BTreeMap<QueueId, Candidates<'a>>,
}

/// What was taken from one queue, and what is next there.
#[derive(Clone, Copy, Default)]
struct Candidates<'a> {
    taken: PerResource<i64>,
    next: Option<&'a Unit>,
}

impl<'a, F: Fn(&Unit) -> bool> VictimLine<'a, F> {
    /// Units of `queues` for which `may_go` holds.
    pub(crate) fn new(
        pool: &'a Pool,
        ledger: &'a Ledger,
        queues: impl Iterator<Item = QueueId>,
        may_go: F,
    ) -> Self {
        let race = Race::new(ledger, Direction::ToTakeFrom);
        let mut line = Self { pool, ledger, may_go, race, queues: BTreeMap::new() };
        for queue in queues {
            line.advance(queue, PerResource::default(), None);
        }
        line
    }

    /// The next unit of `queue` is the first candidate behind `last`.
    fn advance(&mut self, queue: QueueId, taken: PerResource<i64>, last: Option<UnitKey>) {
        let next = self.pool.worst_first(queue, last).find(|unit| (self.may_go)(unit));
        self.queues.insert(queue, Candidates { taken, next });
        let offer = next
            .map(|unit| Offer { job: PerResource::default(), victims: taken.plus(unit.amount) });
        self.race.update(self.ledger, queue, offer);
    }
}

impl<'a, F: Fn(&Unit) -> bool> Iterator for VictimLine<'a, F> {
    type Item = &'a Unit;

    fn next(&mut self) -> Option<&'a Unit> {
        let queue = self.race.best()?;
        let Candidates { taken, next } = self.queues.get(&queue).copied()?;
        let unit = next?;
        self.advance(queue, taken.plus(unit.amount), Some(unit.key));
        Some(unit)
    }
}
