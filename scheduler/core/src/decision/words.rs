//! Amounts in words.

use std::fmt;

use crate::resources::ResourceName;

/// An amount of a resource in the unit in which people think of it, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// Of what.
    pub resource: ResourceName,
    /// In the units of [`crate::resources::Resources`].
    pub amount: i64,
}

impl Quantity {
    /// How the resource is called.
    pub fn name(&self) -> &str {
        match &self.resource {
            ResourceName::Memory => "memory",
            ResourceName::Gpu
            | ResourceName::Cpu
            | ResourceName::Pods
            | ResourceName::Extended(_) => self.unit(),
        }
    }

    /// How the unit is called.
    pub fn unit(&self) -> &str {
        match &self.resource {
            ResourceName::Gpu => "GPUs",
            ResourceName::Cpu => "CPU cores",
            ResourceName::Memory => "GB memory",
            ResourceName::Pods => "pods",
            ResourceName::Extended(name) => name,
        }
    }

    /// The amount in that unit.
    pub fn number(&self) -> String {
        Decimal { amount: self.amount, per_unit: self.per_unit() }.to_string()
    }

    /// The amount with its unit as people say it, `1 GPU`; what is displayed keeps to KAI's
    /// `1 GPUs`.
    pub fn counted(&self) -> String {
        let one = match self.resource {
            ResourceName::Gpu => "1 GPU",
            ResourceName::Cpu => "1 CPU core",
            ResourceName::Pods => "1 pod",
            ResourceName::Memory | ResourceName::Extended(_) => return self.to_string(),
        };
        if self.amount == self.per_unit() { one.to_owned() } else { self.to_string() }
    }

    /// The amount with its unit as KAI writes it where it is told before of what: `2 cores`, `1 GB`.
    pub(crate) fn brief(&self) -> String {
        let unit = match &self.resource {
            ResourceName::Cpu => "cores",
            ResourceName::Memory => "GB",
            ResourceName::Gpu | ResourceName::Pods | ResourceName::Extended(_) => self.unit(),
        };
        format!("{} {unit}", self.number())
    }

    /// At least as much, of which no part is lost when it is written down.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let grain = self.grain();
        let more = (grain - self.amount.rem_euclid(grain)) % grain;
        Self { amount: self.amount.saturating_add(more), ..self }
    }

    /// The least amount that can be written down.
    pub(crate) fn grain(&self) -> i64 {
        (self.per_unit() / 1000).max(1)
    }

    const fn per_unit(&self) -> i64 {
        match self.resource {
            ResourceName::Gpu | ResourceName::Cpu => 1000,
            ResourceName::Memory => 1_000_000_000,
            ResourceName::Pods | ResourceName::Extended(_) => 1,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number(), self.unit())
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listing(all: &[String], and: &str) -> String {
    match all {
        [before @ .., last] if !before.is_empty() => format!("{} {and} {last}", before.join(", ")),
        _ => all.join(""),
    }
}

/// A fraction as a decimal, to thousandths, without trailing zeros.
pub(crate) struct Decimal {
    pub(crate) amount: i64,
    pub(crate) per_unit: i64,
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = i128::from(self.amount) * 1000 / i128::from(self.per_unit);
        let sign = if thousandths < 0 { "-" } else { "" };
        let thousandths = thousandths.unsigned_abs();
        let (whole, rest) = (thousandths / 1000, thousandths % 1000);
        if rest == 0 {
            return write!(f, "{sign}{whole}");
        }
        let rest = format!("{rest:03}");
        write!(f, "{sign}{whole}.{}", rest.trim_end_matches('0'))
    }
}
