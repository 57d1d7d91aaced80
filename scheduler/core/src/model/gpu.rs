//! Parts of GPUs. Pods that share a device name it by its group; a device that is shared is
//! taken as a whole from what a node offers.

use super::{Name, Node};
use crate::resources::Resources;

/// A part of each of so many devices of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedGpu {
    /// How much of each.
    pub part: GpuPart,
    /// Of how many, at least one.
    pub devices: u32,
}

/// How much of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuPart {
    /// Thousandths of it (annotation `gpu-fraction`).
    Milli(i64),
    /// MiB of its memory (annotation `gpu-memory`).
    MemoryMib(i64),
}

/// The name of a shared device on its node.
pub type GpuGroup = Name;

impl SharedGpu {
    /// What it takes of one device of `node`, in the unit of [`Node::gpu_units`].
    pub fn units_on(&self, node: &Node) -> i64 {
        match self.part {
            GpuPart::Milli(milli) => milli.saturating_mul(node.gpu_memory_mib.max(1)),
            GpuPart::MemoryMib(mib) => mib.saturating_mul(1000),
        }
    }

    /// It is known how much of this a device of `node` has.
    pub const fn is_known_on(&self, node: &Node) -> bool {
        match self.part {
            GpuPart::Milli(_) => true,
            GpuPart::MemoryMib(_) => node.gpu_memory_mib > 0,
        }
    }

    /// So much of a device of `node`, in the unit in which this asks for it: thousandths or MiB.
    pub fn part_of(&self, node: &Node, units: i64) -> i64 {
        match self.part {
            GpuPart::Milli(_) => units / node.gpu_memory_mib.max(1),
            GpuPart::MemoryMib(_) => units / 1000,
        }
    }

    /// Thousandths of GPUs that queues pay for it in all, on devices of so much memory: memory
    /// is rounded up to whole hundredths of a device, as KAI does. Where nobody knows how much they
    /// have, it is all of it; KAI takes such devices for 100 MiB large, and charges many GPUs.
    pub fn milli_of(&self, device_mib: i64) -> i64 {
        let milli = match self.part {
            GpuPart::Milli(milli) => milli,
            GpuPart::MemoryMib(_) if device_mib <= 0 => 1000,
            GpuPart::MemoryMib(mib) => {
                let device = i128::from(device_mib);
                let hundredths = (i128::from(mib.max(0)) * 100 + device - 1) / device;
                i64::try_from(hundredths * 10).unwrap_or(i64::MAX)
            }
        };
        milli.saturating_mul(i64::from(self.devices))
    }
}

/// The label that says whether a node's GPUs are split.
pub const MIG_ENABLED: &str = "node-role.kubernetes.io/mig-enabled";
/// The label that says how.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// How the GPUs of a node are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigStrategy {
    /// All alike: an instance is offered as a whole GPU.
    Single,
    /// Instances are offered by profile.
    Mixed,
}

impl Node {
    /// Its GPUs are split, as the label `node-role.kubernetes.io/mig-enabled` says, or, where that
    /// is not there, the instances that it offers.
    pub fn is_split(&self) -> bool {
        self.says_whether_split().unwrap_or_else(|| are_instances(&self.allocatable))
    }

    /// What the label says, if it is there; nothing but true is.
    pub fn says_whether_split(&self) -> Option<bool> {
        let label = self.labels.get(MIG_ENABLED)?;
        Some(matches!(&**label, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// How its GPUs are split, where they are and the label `nvidia.com/mig.strategy` tells it.
    pub fn mig_strategy(&self) -> Option<MigStrategy> {
        if !self.is_split() {
            return None;
        }
        match &**self.labels.get(MIG_STRATEGY)? {
            "single" => Some(MigStrategy::Single),
            "mixed" => Some(MigStrategy::Mixed),
            _ => None,
        }
    }

    /// How much there is of each device: thousandths of MiB, or of a device where its memory is
    /// not known. Nobody who asks for memory fits there.
    pub fn gpu_units(&self) -> i64 {
        self.gpu_memory_mib.max(1).saturating_mul(1000)
    }
}

/// There are MIG instances among them.
pub(super) fn are_instances(resources: &Resources) -> bool {
    let mut extended = resources.extended.iter();
    extended.any(|(name, count)| *count > 0 && mig_gpus(name).is_some())
}

/// Whole GPUs that queues pay for one instance of a MIG profile (`nvidia.com/mig-2g.10gb`: two);
/// `None`: the resource is none.
pub fn mig_gpus(resource: &str) -> Option<i64> {
    let profile = resource.strip_prefix("nvidia.com/mig-")?;
    profile.split_once('g')?.0.parse().ok()
}
