//! Amounts as text.

use std::fmt;

use crate::resources::ResourceName;

/// An amount of a resource, which is printed with the resource's name in the customary unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// The resource.
    pub resource: ResourceName,
    /// The amount in the units of [`crate::resources::Resources`].
    pub amount: i64,
}

impl Quantity {
    /// Name of the resource.
    pub fn resource_name(&self) -> &str {
        match &self.resource {
            ResourceName::Memory => "memory",
            ResourceName::Gpu
            | ResourceName::Cpu
            | ResourceName::Pods
            | ResourceName::Extended(_) => self.unit_name(),
        }
    }

    /// Name of the unit in which the amount is printed.
    pub fn unit_name(&self) -> &str {
        match &self.resource {
            ResourceName::Gpu => "GPUs",
            ResourceName::Cpu => "CPU cores",
            ResourceName::Memory => "GB memory",
            ResourceName::Pods => "pods",
            ResourceName::Extended(name) => name,
        }
    }

    /// The amount as a number in the customary unit.
    pub fn amount_in_unit(&self) -> String {
        Decimal { amount: self.amount, per_unit: self.per_unit() }.to_string()
    }

    /// The amount with its unit, in the singular for one: `1 GPU`. `Display` prints `1 GPUs`, as
    /// KAI does.
    pub fn with_unit(&self) -> String {
        let one = match self.resource {
            ResourceName::Gpu => "1 GPU",
            ResourceName::Cpu => "1 CPU core",
            ResourceName::Pods => "1 pod",
            ResourceName::Memory | ResourceName::Extended(_) => return self.to_string(),
        };
        if self.amount == self.per_unit() { one.to_owned() } else { self.to_string() }
    }

    /// The amount with the short unit that KAI uses once the resource has been named: `2 cores`, `1
    /// GB`.
    pub(crate) fn with_short_unit(&self) -> String {
        let unit = match &self.resource {
            ResourceName::Cpu => "cores",
            ResourceName::Memory => "GB",
            ResourceName::Gpu | ResourceName::Pods | ResourceName::Extended(_) => self.unit_name(),
        };
        format!("{} {unit}", self.amount_in_unit())
    }

    /// Rounds the amount up to the next amount that can be printed without loss.
    #[must_use]
    pub fn rounded_up_to_resolution(self) -> Self {
        let grain = self.printed_resolution();
        let more = (grain - self.amount.rem_euclid(grain)) % grain;
        Self { amount: self.amount.saturating_add(more), ..self }
    }

    /// The smallest amount that can be printed without loss.
    pub fn printed_resolution(&self) -> i64 {
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
        write!(f, "{} {}", self.amount_in_unit(), self.unit_name())
    }
}

/// Joins a list with commas and a conjunction: `a`, `a and b`, `a, b and c`.
pub(super) fn join_list(items: &[String], conjunction: &str) -> String {
    match items {
        [before @ .., last] if !before.is_empty() => {
            format!("{} {conjunction} {last}", before.join(", "))
        }
        _ => items.join(""),
    }
}

/// A fraction that is printed as a decimal, to thousandths, without trailing zeros.
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
