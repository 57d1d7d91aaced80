//! Devices that several nodes reach: they count on each of these, and are given once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Name;

/// The nodes from which something can be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// This one.
    Node(Name),
    /// These.
    Nodes(Arc<BTreeSet<Name>>),
    /// Any.
    All,
}

impl Reach {
    /// It can be used from this node.
    pub fn has(&self, node: &Name) -> bool {
        match self {
            Self::Node(only) => only == node,
            Self::Nodes(nodes) => nodes.contains(node),
            Self::All => true,
        }
    }

    /// How many nodes that is.
    pub fn breadth(&self) -> usize {
        match self {
            Self::Node(_) => 1,
            Self::Nodes(nodes) => nodes.len(),
            Self::All => usize::MAX,
        }
    }

    /// It may be more than one node.
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::Node(_))
    }
}

/// Position in [`crate::Snapshot::stocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StockId(pub u32);

/// Devices that the same nodes reach, by what they are counted as there. A device that is counted
/// as several things is counted for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Who reaches them.
    pub reach: Reach,
    /// All that are published.
    pub all: BTreeMap<Name, i64>,
    /// Those that nobody has.
    pub free: BTreeMap<Name, i64>,
    /// Those that are free soon, though no pod gives them back: whoever had them is gone.
    pub returning: BTreeMap<Name, i64>,
}
