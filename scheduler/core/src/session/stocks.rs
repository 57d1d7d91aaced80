//! Which stocks of devices a node reaches.

use super::Session;
use crate::{
    Snapshot,
    model::{Name, NodeId, StockId},
};

/// By node, those that the fewest others reach first; empty where there are no stocks.
pub(super) fn by_node(snapshot: &Snapshot) -> Vec<Vec<StockId>> {
    if snapshot.stocks.is_empty() {
        return Vec::new();
    }
    let mut stocks: Vec<_> = (0..).map(StockId).zip(&snapshot.stocks).collect();
    stocks.sort_by_key(|(id, stock)| (stock.reach.breadth(), *id));
    let of = |node: &Name| {
        let reached = stocks.iter().filter(|(_, stock)| stock.reach.has(node));
        reached.map(|(id, _)| *id).collect()
    };
    snapshot.nodes.iter().map(|node| of(&node.name)).collect()
}

impl Session<'_> {
    /// The stocks that a node reaches, those that the fewest others reach first.
    pub fn stocks_of(&self, node: NodeId) -> &[StockId] {
        self.stocks_by_node.get(node.0 as usize).map_or(&[], Vec::as_slice)
    }
}
