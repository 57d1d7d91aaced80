//! Breaches of rules, and their text.

use std::fmt;

use super::objects::{Name, Time};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The violated rule.
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
        write!(f, "rule {} ({}): {}", rule.invariant_number(), rule.rule_name(), self.detail)
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

/// The rules of the audit, numbered as in the documented list of invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Rule 1: the requests of the pods on a node stay within its capacity.
    Capacity,
    /// Rule 2: each GPU is given to one pod, exists, and pods get the requested number.
    Devices,
    /// Rule 3: a pod is bound only once, while it is alive, and to a node that accepts it.
    Binding,
    /// Rule 4: the minimum of a gang is bound within one time window; a quiescent gang is bound
    /// whole or not at all.
    Gang,
    /// Rule 5: no queue exceeds its limit, and non-preemptible pods stay within quota, at every
    /// level.
    Bounds,
    /// Rule 6: the usage in a queue status is the sum over the queue's pods.
    Accounts,
    /// Rule 9: victims are preemptible and not of the preemptor's own job; preemption within a
    /// queue needs a lower priority.
    Victim,
    /// Rule 12: a gang is evicted whole, or loses only pods above its minimum.
    WholeGang,
    /// Rule 22: no pod is bound to a deleted node.
    GoneNode,
    /// Rule 29: amounts of resources are never negative.
    Negative,
}

impl Rule {
    /// All rules, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Capacity,
        Self::Devices,
        Self::Binding,
        Self::Gang,
        Self::Bounds,
        Self::Accounts,
        Self::Victim,
        Self::WholeGang,
        Self::GoneNode,
        Self::Negative,
    ];

    /// Number of the rule in the list of invariants.
    pub fn invariant_number(self) -> u8 {
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

    /// Short name of the rule, for messages.
    pub fn rule_name(self) -> &'static str {
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

/// Formats an amount that is given in thousandths: `1500` becomes `1.5`.
pub(super) fn format_thousandths(thousandths: i128) -> String {
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
    use super::format_thousandths;

    #[test]
    fn amounts_are_printed_with_sign_and_minimal_digits() {
        let output = [0, 500, -500, -1500, -2000, 1005].map(format_thousandths);
        assert_eq!(output, ["0", "0.5", "-0.5", "-1.5", "-2", "1.005"]);
    }
}
