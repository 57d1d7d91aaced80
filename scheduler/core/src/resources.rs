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
