//! Exact amounts of what nodes offer and pods ask: integers only, so that equal inputs give
//! equal decisions on every machine.

use std::collections::BTreeMap;

use crate::model::Name;

/// Amounts of every resource. Units: thousandths of a GPU and of a CPU core, bytes, pods, and
/// plain counts for extended resources other than `nvidia.com/gpu`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// `nvidia.com/gpu`, in thousandths of a device.
    pub gpu_milli: i64,
    /// `cpu`, in thousandths of a core.
    pub cpu_milli: i64,
    /// `memory`, in bytes.
    pub memory_bytes: i64,
    /// `pods`: one for each pod.
    pub pods: i64,
    /// Other extended resources by name (`ephemeral-storage` and hugepages included).
    pub extended: BTreeMap<Name, i64>,
}

/// One value for each resource that queues account for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerResource<T> {
    /// `nvidia.com/gpu`.
    pub gpu: T,
    /// `cpu`.
    pub cpu: T,
    /// `memory`.
    pub memory: T,
}

/// A bound that may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Amount {
    /// At most this much, in the units of [`Resources`].
    Exactly(i64),
    /// No bound (`-1` in the Queue API).
    Unlimited,
}

impl Resources {
    /// The part that queues account for.
    pub const fn accounted(&self) -> PerResource<i64> {
        PerResource { gpu: self.gpu_milli, cpu: self.cpu_milli, memory: self.memory_bytes }
    }
}

impl<T: Copy> PerResource<T> {
    /// GPU, CPU, memory.
    pub const fn values(self) -> [T; 3] {
        [self.gpu, self.cpu, self.memory]
    }
}

impl PerResource<i64> {
    /// Sum of each; never wraps.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_add(other.gpu),
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    /// Difference of each; never wraps.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            gpu: self.gpu.saturating_sub(other.gpu),
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    /// No part of it exceeds its bound.
    pub fn within(self, bounds: PerResource<Amount>) -> bool {
        self.values().into_iter().zip(bounds.values()).all(|(value, bound)| bound.holds(value))
    }
}

impl Amount {
    /// `value` does not exceed it.
    pub const fn holds(self, value: i64) -> bool {
        match self {
            Self::Exactly(bound) => value <= bound,
            Self::Unlimited => true,
        }
    }

    /// The bound, or `otherwise` where there is none.
    pub const fn or(self, otherwise: i64) -> i64 {
        match self {
            Self::Exactly(bound) => bound,
            Self::Unlimited => otherwise,
        }
    }
}
