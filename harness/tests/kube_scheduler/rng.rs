//! Random choices, derived from one seed.

use schedlab_api::random::SplitMix64;

/// Makes random choices.
#[derive(Clone, Debug)]
pub(crate) struct SeededRng(SplitMix64);

impl SeededRng {
    /// Equal seeds give equal sequences.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.0.remainder(most - least + 1)
    }

    /// One of the items.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let count = u64::try_from(items.len()).unwrap_or(1);
        items[usize::try_from(self.0.remainder(count)).unwrap_or(0)]
    }

    /// True with a probability of `chance` percent.
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.0.remainder(100) < chance
    }
}
