//! Runs the cycles of an explanation. A search for suggestions runs many, and in a large, saturated
//! cluster each simulates thousands of evictions: if the profile limits these, an explanation that
//! reaches the limit goes on with those for its own pod group.

use std::cell::Cell;

use schedlab_scheduler_core::{
    Plan, Profile, Snapshot, framework::Statement, inspect::run_cycle, model::PodGroupId,
    profile::VictimSearch,
};

/// All cycles of an explanation together simulate at most so many times the evictions that one
/// action may simulate.
const SIMULATIONS_MAX_FACTOR: usize = 4;

/// Runs cycles for the explanation of one pod group.
pub(super) struct CycleSimulator<'a> {
    profile: &'a Profile,
    /// The profile with evictions for the explained group only.
    profile_of_group: Profile,
    /// Number of evictions that were simulated for all groups.
    simulated: Cell<usize>,
    is_limit_reached: Cell<bool>,
}

impl<'a> CycleSimulator<'a> {
    pub(super) fn new(profile: &'a Profile, group: PodGroupId) -> Self {
        let victim_search = VictimSearch::OnlyFor(group);
        Self {
            profile,
            profile_of_group: Profile { victim_search, ..profile.clone() },
            simulated: Cell::new(0),
            is_limit_reached: Cell::new(false),
        }
    }

    /// Runs a cycle: with evictions for all groups, or, once the limit is reached, for the explained
    /// group only.
    pub(super) fn run<'s>(&'s self, cluster: &'s Snapshot) -> (Statement<'s>, Plan) {
        if !self.is_limit_reached() {
            let (statement, plan) = run_cycle(cluster, self.profile, &mut ());
            self.record(&statement);
            if !statement.is_search_limited() {
                return (statement, plan);
            }
        }
        run_cycle(cluster, &self.profile_of_group, &mut ())
    }

    /// Records the evictions that a cycle with evictions for all groups simulated.
    pub(super) fn record(&self, statement: &Statement<'_>) {
        let simulated = self.simulated.get() + statement.scenario_counts().simulated;
        self.simulated.set(simulated);
        let most = self.profile.victim_search.simulations_max();
        let is_spent = most.is_some_and(|most| simulated >= most * SIMULATIONS_MAX_FACTOR);
        if is_spent || statement.is_search_limited() {
            self.is_limit_reached.set(true);
        }
    }

    /// Whether the limit of simulated evictions was reached.
    pub(super) fn is_limit_reached(&self) -> bool {
        self.is_limit_reached.get()
    }

    /// The limit of simulated evictions, if it was reached.
    pub(super) fn reached_limit(&self) -> Option<usize> {
        self.profile.victim_search.simulations_max().filter(|_| self.is_limit_reached())
    }
}
