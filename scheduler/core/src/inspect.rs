//! What a cycle left behind, what a search for victims would consider, and the steps of a cycle one
//! by one: for explanations and for tests. No decision depends on this module.

pub use crate::{
    actions::{consolidate, preempt, reclaim},
    cycle::{allocate_as_next_cycle, run_cycle},
    next_snapshot::next_snapshot,
    solver::{
        AcceptedSolutions, EvictableUnit, NextCycle, PlacedPods, UnitPortion, eviction_order,
        reclaim_candidates,
    },
};
