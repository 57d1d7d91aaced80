//! Amounts as text.

use std::fmt;

use crate::resources::ResourceName;

/// An amount of a resource, shown with its name in the customary unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The resource.
    pub resource: ResourceName,
    /// In the units of [`crate::resources::Resources`].
    pub amount: i64,
}

impl Quantity {
    /// Name of the resource.
    pub fn name(&self) -> &str {
        match &self.resource {
            ResourceName::Memory => "memory",
            ResourceName::Gpu
            | ResourceName::Cpu
            | ResourceName::Pods
            | ResourceName::Extended(_) => self.unit(),
        }
    }

    /// Name of the unit.
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

    /// The amount with its unit in the singular where it applies, `1 GPU`. `Display` keeps KAI's `1
    /// GPUs`.
    pub fn with_unit(&self) -> String {
        let one = match self.resource {
            ResourceName::Gpu => "1 GPU",
            ResourceName::Cpu => "1 CPU core",
            ResourceName::Pods => "1 pod",
            ResourceName::Memory | ResourceName::Extended(_) => return self.to_string(),
        };
        if self.amount == self.per_unit() { one.to_owned() } else { self.to_string() }
    }

    /// The amount with the short unit that KAI uses after the resource has been named: `2 cores`,
    /// `1 GB`.
    pub(crate) fn brief(&self) -> String {
        let unit = match &self.resource {
            ResourceName::Cpu => "cores",
            ResourceName::Memory => "GB",
            ResourceName::Gpu | ResourceName::Pods | ResourceName::Extended(_) => self.unit(),
        };
        format!("{} {unit}", self.number())
    }

    /// Rounds up to the next amount that can be written without loss.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let grain = self.resolution();
        let more = (grain - self.amount.rem_euclid(grain)) % grain;
        Self { amount: self.amount.saturating_add(more), ..self }
    }

    /// The smallest amount that can be written.
    pub fn resolution(&self) -> i64 {
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
pub(super) fn join_list(all: &[String], and: &str) -> String {
    match all {
        [before @ .., last] if !before.is_empty() => format!("{} {and} {last}", before.join(", ")),
        _ => all.join(""),
    }
}

/// A fraction as a decimal, to thousandths, without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The numerator.
    pub amount: i64,
    /// The denominator.
    pub per_unit: i64,
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
