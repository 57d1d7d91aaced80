//! Breaches of rules, and their text.

use std::fmt;

use super::objects::{Name, Time};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: Rule,
    /// Time of the violation.
    pub at: Time,
    /// The objects involved, the violating one first; reports show its history.
    pub objects: Vec<AuditedObject>,
    /// The actual and the allowed state, with numbers.
    pub detail: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        write!(f, "rule {} ({}): {}", rule.number(), rule.name(), self.detail)
    }
}

/// A reference to an object that a breach involves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuditedObject {
    /// A pod, as `namespace/name`.
    Pod(Name),
    /// A pod group, as `namespace/name`.
    Group(Name),
    /// A queue.
    Queue(Name),
    /// A node.
    Node(Name),
    /// A claim on devices, as `namespace/name`.
    Claim(Name),
}

/// The rules, numbered as in the list of invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The requests of the pods on a node stay within its capacity.
    Capacity,
    /// No GPU is given to two pods, only existing GPUs are given, and in the requested number.
    Devices,
    /// A pod is bound once, while alive, and to a node that accepts it.
    Binding,
    /// The minimum of a gang is bound within one window; a quiescent gang is whole or absent.
    Gang,
    /// No queue exceeds its limit, and non-preemptible pods stay within quota, at every level.
    Bounds,
    /// A queue status is the sum over its pods.
    Accounts,
    /// Victims are preemptible, not of the preemptor's job, and within one queue of lower priority.
    Victim,
    /// A gang is evicted whole, or only its pods above the minimum.
    WholeGang,
    /// No pod is bound to a deleted node.
    GoneNode,
    /// Amounts are never negative.
    Negative,
}

impl Rule {
    /// The number in the list of invariants.
    pub fn number(self) -> u8 {
        match self {
            Self::Capacity => 1,
            Self::Devices => 2,
            Self::Binding => 3,
            Self::Gang => 4,
            Self::Bounds => 5,
            Self::Accounts => 6,
            Self::Victim => 9,
            Self::WholeGang => 12,
            Self::GoneNode => 22,
            Self::Negative => 29,
        }
    }

    /// A short name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Devices => "devices",
            Self::Binding => "valid binding",
            Self::Gang => "gang atomicity",
            Self::Bounds => "quota and limit",
            Self::Accounts => "queue status",
            Self::Victim => "valid victim",
            Self::WholeGang => "whole-gang eviction",
            Self::GoneNode => "no bind to a deleted node",
            Self::Negative => "no negative amounts",
        }
    }
}

/// Formats an amount in thousandths.
pub(super) fn amount(thousandths: i128) -> String {
    let (whole, rest) = (thousandths / 1000, (thousandths % 1000).abs());
    if rest == 0 {
        return whole.to_string();
    }
    let sign = if thousandths < 0 && whole == 0 { "-" } else { "" };
    let text = format!("{sign}{whole}.{rest:03}");
    text.trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn amounts_are_printed_with_sign_and_minimal_digits() {
        let output = [0, 500, -500, -1500, -2000, 1005].map(amount);
        assert_eq!(output, ["0", "0.5", "-0.5", "-1.5", "-2", "1.005"]);
    }
}
