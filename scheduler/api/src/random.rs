//! Seeded pseudo-random numbers. Generated names and orders are derived from them, so that equal
//! seeds give equal runs.

/// The random number generator `SplitMix64`.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator. Equal seeds give equal sequences.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next random number.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `bound`, by the remainder: lower numbers are slightly more frequent.
    ///
    /// # Panics
    ///
    /// The bound is 0.
    pub const fn remainder(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A random number below `bound`, by the high half of a product. The number differs from that
    /// of [`Self::remainder`] for an equal seed.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u128::try_from(bound).expect("an index fits");
        usize::try_from((u128::from(self.next_u64()) * bound) >> 64).expect("below the bound")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference_implementation() {
        let mut numbers = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| numbers.next_u64()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
