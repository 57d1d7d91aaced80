//! How the devices of one kind are shared out among nodes: whether all can be served at once.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    model::{NodeId, StockId},
    session::Session,
};

/// Who gets how many from which stock. Nobody is served for good: who comes later may have those
/// before it take from other stocks that they reach.
#[derive(Clone)]
pub(super) struct Shares<'a> {
    session: &'a Session<'a>,
    left: BTreeMap<StockId, i64>,
    given: BTreeMap<StockId, BTreeMap<NodeId, i64>>,
}

/// How many a node is to get.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ask {
    /// Of any that it reaches.
    pub(super) any: i64,
    /// Of those that no other node reaches.
    pub(super) local: i64,
}

impl Ask {
    /// Both.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            any: self.any.saturating_add(other.any),
            local: self.local.saturating_add(other.local),
        }
    }

    /// It gets nothing.
    pub(super) const fn is_none(self) -> bool {
        self.any <= 0 && self.local <= 0
    }
}

impl<'a> Shares<'a> {
    /// With so many in each stock.
    pub(super) const fn of(session: &'a Session<'a>, left: BTreeMap<StockId, i64>) -> Self {
        Self { session, left, given: BTreeMap::new() }
    }

    /// Whether the node could be served, too.
    pub(super) fn suffice(&self, node: NodeId, ask: Ask) -> bool {
        let reached = self.session.stocks_of(node).iter();
        let left = reached.map(|stock| self.left_of(*stock)).fold(0, i64::saturating_add);
        (ask.local == 0 && left >= ask.any) || self.clone().give(node, ask)
    }

    /// Serves the node, or as far as it goes.
    pub(super) fn give(&mut self, node: NodeId, Ask { any, local }: Ask) -> bool {
        let left = self.left.values().copied().fold(0, i64::saturating_add);
        any.saturating_add(local) <= left
            && (0..local).all(|_| self.give_local(node))
            && (0..any).all(|_| self.give_one(node, &mut BTreeSet::new()))
    }

    fn left_of(&self, stock: StockId) -> i64 {
        self.left.get(&stock).copied().unwrap_or(0)
    }

    fn give_local(&mut self, node: NodeId) -> bool {
        let is_local =
            |stock: &&StockId| !self.session.snapshot.stocks[stock.0 as usize].reach.is_shared();
        let Some(&local) = self.session.stocks_of(node).iter().find(is_local) else { return false };
        let served = self.left_of(local) > 0 || self.make_room(local, &mut BTreeSet::from([local]));
        if served {
            *self.left.entry(local).or_default() -= 1;
        }
        served
    }

    /// From a stock that was not `seen` yet.
    fn give_one(&mut self, node: NodeId, seen: &mut BTreeSet<StockId>) -> bool {
        let session = self.session;
        for &stock in session.stocks_of(node) {
            if seen.insert(stock) && (self.left_of(stock) > 0 || self.make_room(stock, seen)) {
                *self.left.entry(stock).or_default() -= 1;
                *self.given.entry(stock).or_default().entry(node).or_default() += 1;
                return true;
            }
        }
        false
    }

    /// Somebody takes another one in place of one of this stock.
    fn make_room(&mut self, stock: StockId, seen: &mut BTreeSet<StockId>) -> bool {
        let given = self.given.get(&stock).into_iter().flatten();
        let holders: Vec<NodeId> =
            given.filter(|(_, count)| **count > 0).map(|(node, _)| *node).collect();
        let Some(holder) = holders.into_iter().find(|node| self.give_one(*node, seen)) else {
            return false;
        };
        *self.left.entry(stock).or_default() += 1;
        *self.given.entry(stock).or_default().entry(holder).or_default() -= 1;
        true
    }
}
