//! Counts of the victim search, for metrics.

use super::Session;

/// Number of victim sets (scenarios) considered in this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScenarioCounts {
    /// Simulated: victims evicted, then they and the preemptor placed.
    pub simulated: usize,
    /// Rejected without simulation by capacity counts or queue limits.
    pub filtered: usize,
}

impl Session<'_> {
    /// Counts since the start of the cycle.
    pub const fn scenarios(&self) -> ScenarioCounts {
        self.scenarios
    }

    pub(crate) const fn count_simulated(&mut self) {
        self.scenarios.simulated += 1;
    }

    pub(crate) const fn count_filtered(&mut self) {
        self.scenarios.filtered += 1;
    }
}
