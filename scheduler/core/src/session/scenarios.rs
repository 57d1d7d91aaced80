//! How much was searched for victims, for whoever measures it.

use super::Session;

/// Sets of victims that were looked at in this cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scenarios {
    /// Tried for real: the victims evicted, then they and the job served.
    pub simulated: usize,
    /// Passed over without a trial, since counts of room or limits of queues did not suffice.
    pub filtered: usize,
}

impl Session<'_> {
    /// Since the cycle began.
    pub const fn scenarios(&self) -> Scenarios {
        self.scenarios
    }

    pub(crate) const fn count_simulated(&mut self) {
        self.scenarios.simulated += 1;
    }

    pub(crate) const fn count_filtered(&mut self) {
        self.scenarios.filtered += 1;
    }
}
