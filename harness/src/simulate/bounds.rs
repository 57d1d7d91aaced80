//! What a trace may say of one thing: enough for every cluster, too little for a sum to overflow.

use std::fmt;

/// Whole numbers from one to another, both included.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    least: u64,
    most: u64,
}

/// Names up to a length.
#[derive(Clone, Copy)]
pub(super) struct NameBound {
    longest: usize,
}

/// Thousandths of a core; a million cores at most.
pub(super) const CPU_MILLI: Bound = Bound { least: 0, most: 1_000_000_000 };
/// MiB; a PiB at most.
pub(super) const MEMORY_MIB: Bound = Bound { least: 0, most: 1 << 30 };
/// GPUs of a node or a pod.
pub(super) const GPUS: Bound = Bound { least: 0, most: 1024 };
/// Thousandths of a GPU.
pub(super) const GPU_MILLI: Bound = Bound { least: 0, most: 1000 };
/// Pods of a gang.
pub(super) const PODS: Bound = Bound { least: 1, most: 100_000 };
/// Seconds; those of a hundred years at most.
pub(super) const SECS: Bound = Bound { least: 0, most: 3_155_760_000 };
/// A node's name is the value of a label, too.
pub(super) const NODE_NAME: NameBound = NameBound { longest: 63 };
/// A queue's is one of its pods'.
pub(super) const QUEUE_NAME: NameBound = NameBound { longest: 63 };
/// A pod's name says which member of a gang it is and how often it was started, in 253 characters.
pub(super) const JOB_NAME: NameBound = NameBound { longest: 200 };
/// Most GPUs that a queue may be given, and most of a weight.
const AMOUNT_MAX: f64 = 1_000_000_000.0;

pub(super) const MODEL: &str =
    "letters, digits, '-', '_' and '.', a letter or digit at both ends, at most 63 long";
pub(super) const AMOUNT: &str = "a number from 0 to 1000000000, or -1 for no bound";
pub(super) const WEIGHT: &str = "a number from 0 to 1000000000";
pub(super) const PRIORITY: &str = "a whole number from -2147483648 to 2147483647";

impl Bound {
    pub(super) fn holds(self, count: u64) -> bool {
        (self.least..=self.most).contains(&count)
    }

    /// The same for what has fractions.
    pub(super) fn holds_part(self, count: f64) -> bool {
        use super::tally::figure;
        (figure(self.least)..=figure(self.most)).contains(&count)
    }

    /// A node has at least one of these.
    pub(super) fn of_a_node(self) -> Self {
        Self { least: 1, ..self }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}", self.least, self.most)
    }
}

impl NameBound {
    /// As Kubernetes takes it: parts between dots, none of which begins or ends with a dash.
    pub(super) fn holds(self, name: &str) -> bool {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_part = |part: &str| {
            !part.is_empty()
                && part.chars().all(fits)
                && !part.starts_with('-')
                && !part.ends_with('-')
        };
        name.len() <= self.longest && name.split('.').all(is_part)
    }
}

impl fmt::Display for NameBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule =
            "a name of lower-case letters, digits and '-', with letters or digits at the ends";
        write!(f, "{rule} of its parts between dots, at most {} long", self.longest)
    }
}

/// A GPU model becomes a label of its nodes.
pub(super) fn is_model(model: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let ends = |c: char| c.is_ascii_alphanumeric();
    model.is_empty()
        || model.len() <= 63
            && model.chars().all(fits)
            && model.starts_with(ends)
            && model.ends_with(ends)
}

#[expect(clippy::float_cmp, reason = "-1 is written, not calculated")]
pub(super) fn is_amount(amount: f64) -> bool {
    is_weight(amount) || amount == -1.0
}

pub(super) fn is_weight(weight: f64) -> bool {
    (0.0..=AMOUNT_MAX).contains(&weight)
}
