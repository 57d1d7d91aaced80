//! A broken rule, in words.

use std::fmt;

use crate::model::{Name, Time};

/// A rule that was not kept, when, by what, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which rule.
    pub rule: Rule,
    /// When.
    pub at: Time,
    /// What it is about, the culprit first: whose history tells how it came to this.
    pub concerns: Vec<Concern>,
    /// What was found and what is allowed.
    pub detail: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        write!(f, "rule {} ({}): {}", rule.number(), rule.name(), self.detail)
    }
}

/// An object that a breach is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
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

/// The rules, by the numbers of the list of invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// What pods on a node ask for is there.
    Capacity,
    /// No GPU is given to two pods, none that does not exist, as many as were asked for.
    Devices,
    /// A pod is bound once, alive, and to a node that takes it.
    Binding,
    /// A gang's minimum is bound within one moment; at rest it is whole or absent.
    Gang,
    /// No queue above its limit; non-preemptible work within quota, at every level.
    Bounds,
    /// A queue's status is what its pods add up to.
    Accounts,
    /// Victims are preemptible, not of the same job, and within a queue of lower priority.
    Victim,
    /// A gang is evicted whole, or only what is above its minimum.
    WholeGang,
    /// No pod is bound to a node that is gone.
    GoneNode,
    /// Quantities are never negative.
    Negative,
}

impl Rule {
    /// Its number in the list of invariants.
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

    /// A word or two for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Devices => "devices",
            Self::Binding => "bind once, where it may run",
            Self::Gang => "gang atomicity",
            Self::Bounds => "quota and limit",
            Self::Accounts => "queue status",
            Self::Victim => "who may be evicted",
            Self::WholeGang => "whole gangs are evicted",
            Self::GoneNode => "no bind to a node that is gone",
            Self::Negative => "no negative amounts",
        }
    }
}

/// An amount in thousandths, in its own unit.
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
    fn amounts_are_told_with_their_sign_and_no_more_digits_than_they_have() {
        let told = [0, 500, -500, -1500, -2000, 1005].map(amount);
        assert_eq!(told, ["0", "0.5", "-0.5", "-1.5", "-2", "1.005"]);
    }
}
