//! What a cycle left behind, what a search for victims would consider, and the steps of a cycle one
//! by one: for explanations and for tests. No decision depends on this module.

pub use crate::{
    actions::{consolidate, preempt, reclaim},
    cycle::{allocate_again, decide},
    next_snapshot::next_snapshot,
    solver::{
        AcceptedSolutions, EvictableUnit, NextCycle, PlacedPods, Portion, eviction_order,
        reclaim_candidates,
    },
};
