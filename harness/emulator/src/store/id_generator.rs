//! Deterministic uids and suffixes of generated names, derived from one seed.

use std::fmt::Write;

use schedlab_api::random::SplitMix64;

/// The alphabet of generated names in Kubernetes: no vowels, no characters that look alike.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A seeded generator of uids and name suffixes.
#[derive(Clone, Debug)]
pub(crate) struct IdGenerator {
    numbers: SplitMix64,
}

impl IdGenerator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { numbers: SplitMix64::new(seed) }
    }

    /// A uid in the form of a version 4 UUID.
    pub(crate) fn uid(&mut self) -> String {
        let (high, low) = (self.numbers.next_u64(), self.numbers.next_u64());
        let mut uid = String::with_capacity(36);
        write!(
            uid,
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | ((low >> 48) & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
        .expect("writing to a string does not fail");
        uid
    }

    /// A suffix of five letters derived from a uid: the same for every call.
    pub(crate) fn suffix_for(uid: &str) -> String {
        let state = uid.bytes().fold(0_u64, |state, byte| {
            state.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
        });
        Self::new(state).suffix()
    }

    /// A new suffix of five letters for `generateName`.
    pub(crate) fn suffix(&mut self) -> String {
        let mut random = self.numbers.next_u64();
        let mut letter = || {
            let index = usize::try_from(random % 27)
                .expect("the index of one of 27 letters fits into usize");
            random /= 27;
            char::from(NAME_LETTERS[index])
        };
        [letter(), letter(), letter(), letter(), letter()].iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_names() {
        let (mut one, mut other) = (IdGenerator::new(7), IdGenerator::new(7));
        assert_eq!((one.uid(), one.suffix()), (other.uid(), other.suffix()));
        assert_ne!(one.suffix(), one.suffix());
    }

    #[test]
    fn a_uid_looks_like_a_uuid_of_version_4() {
        let uid = IdGenerator::new(1).uid();
        let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(uid.as_bytes()[14], b'4');
    }
}
