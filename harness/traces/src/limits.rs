//! Limits of trace values: large enough for every cluster, small enough that sums do not overflow.

use std::fmt;

/// An inclusive range of whole numbers.
#[derive(Clone, Copy, Debug)]
pub struct IntRange {
    min: u64,
    max: u64,
}

/// The names that Kubernetes accepts, up to this length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameLimit {
    max_length: usize,
}

/// CPU in millicores; at most a million cores.
pub(crate) const CPU_MILLI_RANGE: IntRange = IntRange { min: 0, max: 1_000_000_000 };
/// Memory in MiB; at most 1 PiB.
pub(crate) const MEMORY_MIB_RANGE: IntRange = IntRange { min: 0, max: 1 << 30 };
/// Number of GPUs of a node or a pod.
pub(crate) const GPUS_RANGE: IntRange = IntRange { min: 0, max: 1024 };
/// Number of GPUs of a job, over all its pods.
pub(crate) const GPUS_OF_JOB_RANGE: IntRange = IntRange { min: 0, max: 1 << 20 };
/// A share of a GPU in thousandths.
pub(crate) const GPU_MILLI_RANGE: IntRange = IntRange { min: 0, max: 1000 };
/// Number of pods of a gang.
pub(crate) const PODS_RANGE: IntRange = IntRange { min: 1, max: 100_000 };
/// A time in seconds; at most a hundred years.
pub const SECS_RANGE: IntRange = IntRange { min: 0, max: 3_155_760_000 };
/// Node names are also label values, which have at most 63 characters.
pub(crate) const NODE_NAME_LIMIT: NameLimit = NameLimit { max_length: 63 };
/// Queue names are label values of the queues' pods, which have at most 63 characters.
pub(crate) const QUEUE_NAME_LIMIT: NameLimit = NameLimit { max_length: 63 };
/// Pod names append member and attempt numbers to the job name, within 253 characters.
pub(crate) const JOB_NAME_LIMIT: NameLimit = NameLimit { max_length: 200 };
/// Maximum number of GPUs of a queue, and maximum weight.
const AMOUNT_MAX: f64 = 1_000_000_000.0;

pub(crate) const ALLOWED_MODEL: &str =
    "letters, digits, '-', '_' and '.', a letter or digit at both ends, at most 63 long";
pub(crate) const ALLOWED_AMOUNT: &str = "a number from 0 to 1000000000, or -1 for no bound";
pub(crate) const ALLOWED_WEIGHT: &str = "a number from 0 to 1000000000";
/// Which seconds are allowed.
pub const ALLOWED_SECS: &str = "seconds from 0 to those of a hundred years";
pub(crate) const ALLOWED_PRIORITY: &str = "a whole number from -2147483648 to 2147483647";

impl IntRange {
    pub(crate) fn contains(self, count: u64) -> bool {
        (self.min..=self.max).contains(&count)
    }

    /// Like [`Self::contains`], for a fractional value.
    pub fn contains_fraction(self, count: f64) -> bool {
        use crate::numbers::to_f64;
        (to_f64(self.min)..=to_f64(self.max)).contains(&count)
    }

    /// The limits as text.
    pub(crate) fn limits(self) -> String {
        format!("from {} to {}", self.min, self.max)
    }

    /// The range with 0, for columns in which public traces write it.
    pub(crate) fn or_zero(self) -> Self {
        Self { min: 0, ..self }
    }

    /// The range without 0, for resources that every node has.
    pub(crate) fn at_least_one(self) -> Self {
        Self { min: 1, ..self }
    }
}

impl fmt::Display for IntRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.min, self.max)
    }
}

impl NameLimit {
    /// Whether Kubernetes accepts the name: non-empty parts between dots that do not begin or end
    /// with a hyphen.
    pub(crate) fn is_valid_name(self, name: &str) -> bool {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_part = |part: &str| {
            !part.is_empty()
                && part.chars().all(fits)
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        name.len() <= self.max_length && name.split('.').all(is_part)
    }
}

impl fmt::Display for NameLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule =
            "a name of lower-case letters, digits and '-', with letters or digits at the ends";
        write!(f, "{rule} of its parts between dots, at most {} long", self.max_length)
    }
}

/// Whether a GPU model is a valid label value.
pub(crate) fn is_valid_model(model: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    model.is_empty()
        || model.len() <= 63
            && model.chars().all(fits)
            && model.starts_with(ends)
            && model.ends_with(ends)
}

#[expect(clippy::float_cmp, reason = "-1 is written, not calculated")]
pub(crate) fn is_valid_amount(amount: f64) -> bool {
    is_valid_weight(amount) || amount == -1.0
}

pub(crate) fn is_valid_weight(weight: f64) -> bool {
    (0.0..=AMOUNT_MAX).contains(&weight)
}
