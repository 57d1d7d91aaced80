//! Runs the cycles of an explanation. A search for suggestions runs many, and in a large, saturated
//! cluster each simulates thousands of evictions: if the profile limits these, an explanation that
//! reaches the limit goes on with those for its own pod group, for a few cycles.

use std::cell::Cell;

use schedlab_scheduler_core::{
    Plan, Profile, Snapshot, framework::Statement, inspect::run_cycle, model::PodGroupId,
    profile::VictimSearch,
};

/// All cycles of an explanation together simulate at most so many times the evictions that one
/// action may simulate.
const SIMULATIONS_MAX_FACTOR: usize = 4;

/// Number of cycles after the limit of simulated evictions, after which no further suggestion is
/// tried.
pub const CYCLES_AFTER_LIMIT: usize = 16;

/// Runs cycles for the explanation of one pod group.
pub(super) struct CycleSimulator<'a> {
    profile: &'a Profile,
    /// The profile with evictions for the explained group only.
    profile_of_group: Profile,
    /// Number of evictions that were simulated for all groups.
    simulated: Cell<usize>,
    is_limit_reached: Cell<bool>,
    /// Number of cycles with evictions for the explained group only.
    cycles_after_limit: Cell<usize>,
    /// Number of evictions that these cycles simulated.
    simulated_after_limit: Cell<usize>,
}

impl<'a> CycleSimulator<'a> {
    pub(super) fn new(profile: &'a Profile, group: PodGroupId) -> Self {
        let victim_search = VictimSearch::OnlyFor(group);
        Self {
            profile,
            profile_of_group: Profile { victim_search, ..profile.clone() },
            simulated: Cell::new(0),
            is_limit_reached: Cell::new(false),
            cycles_after_limit: Cell::new(0),
            simulated_after_limit: Cell::new(0),
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
        self.cycles_after_limit.set(self.cycles_after_limit.get() + 1);
        let (statement, plan) = run_cycle(cluster, &self.profile_of_group, &mut ());
        let simulated = self.simulated_after_limit.get() + statement.scenario_counts().simulated;
        self.simulated_after_limit.set(simulated);
        (statement, plan)
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

    /// Whether further suggestions may be tried: after the limit was reached, only for a few cycles
    /// that together simulate fewer evictions than the limit.
    pub(super) fn may_try_more(&self) -> bool {
        let most = self.profile.victim_search.simulations_max();
        let cycles = self.cycles_after_limit.get();
        // The explained cycle may be one of these.
        cycles <= 1
            || cycles < CYCLES_AFTER_LIMIT
                && most.is_none_or(|most| self.simulated_after_limit.get() <= most)
    }

    /// The limit of simulated evictions, if it was reached.
    pub(super) fn reached_limit(&self) -> Option<usize> {
        self.profile.victim_search.simulations_max().filter(|_| self.is_limit_reached())
    }
}
