//! What a cycle left behind, and what a search for victims would consider: for explanations and
//! for tests. No decision depends on this module.

pub use crate::{
    cycle::decide,
    next_snapshot::next_snapshot,
    solver::{EvictableUnit, PlacedPods, Portion, eviction_order, reclaim_candidates},
};
