//! GPU sharing. Pods that share a GPU name it by its group; a shared GPU is taken from the node's
//! resources as a whole.

use super::{Name, Node};
use crate::resources::Resources;

/// A request for a fraction of each of several GPUs of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FractionalGpu {
    /// The requested fraction of each GPU.
    pub fraction: GpuFraction,
    /// Number of GPUs of which a fraction is requested, at least one.
    pub devices: u32,
}

/// A fraction of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuFraction {
    /// Thousandths of a GPU (annotation `gpu-fraction`).
    Milli(i64),
    /// GPU memory in MiB (annotation `gpu-memory`).
    MemoryMib(i64),
}

/// Name of a shared GPU on its node.
pub type GpuGroup = Name;

impl FractionalGpu {
    /// What the fraction takes from one GPU of `node`, in the unit of [`Node::units_per_gpu`].
    pub fn units_on(&self, node: &Node) -> i64 {
        match self.fraction {
            GpuFraction::Milli(milli) => milli.saturating_mul(node.gpu_memory_mib.max(1)),
            GpuFraction::MemoryMib(mib) => mib.saturating_mul(1000),
        }
    }

    /// Whether the fraction can be converted to units: a request for memory needs a node with known
    /// GPU memory.
    pub const fn is_size_known_on(&self, node: &Node) -> bool {
        match self.fraction {
            GpuFraction::Milli(_) => true,
            GpuFraction::MemoryMib(_) => node.gpu_memory_mib > 0,
        }
    }

    /// Converts units of a GPU of `node` to the unit of this request: thousandths or MiB.
    pub fn from_units(&self, node: &Node, units: i64) -> i64 {
        match self.fraction {
            GpuFraction::Milli(_) => units / node.gpu_memory_mib.max(1),
            GpuFraction::MemoryMib(_) => units / 1000,
        }
    }

    /// What queues are charged for the request, in thousandths of a GPU, on GPUs with `device_mib`
    /// MiB. Memory is rounded up to whole hundredths of a GPU, as in KAI. On GPUs of unknown size
    /// memory is charged as whole GPUs; KAI assumes 100 MiB there and charges many GPUs.
    pub fn charged_milli(&self, device_mib: i64) -> i64 {
        let milli = match self.fraction {
            GpuFraction::Milli(milli) => milli,
            GpuFraction::MemoryMib(_) if device_mib <= 0 => 1000,
            GpuFraction::MemoryMib(mib) => {
                let device = i128::from(device_mib);
                let hundredths = (i128::from(mib.max(0)) * 100 + device - 1) / device;
                i64::try_from(hundredths * 10).unwrap_or(i64::MAX)
            }
        };
        milli.saturating_mul(i64::from(self.devices))
    }
}

/// Label that says whether the GPUs of a node are split into MIG instances.
pub const MIG_ENABLED: &str = "node-role.kubernetes.io/mig-enabled";
/// Label that says how GPUs are split into MIG instances.
pub const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// How the GPUs of a node are split into MIG instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigStrategy {
    /// All instances are alike and offered as whole GPUs.
    Single,
    /// Instances are offered by profile.
    Mixed,
}

impl Node {
    /// Whether the node's GPUs are split into MIG instances: by the label
    /// `node-role.kubernetes.io/mig-enabled`, or, without that label, by the MIG instances among
    /// the node's resources.
    pub fn is_mig_enabled(&self) -> bool {
        self.mig_enabled_label().unwrap_or_else(|| has_mig_instances(&self.allocatable))
    }

    /// Value of the label `node-role.kubernetes.io/mig-enabled`, when the node has it; anything but
    /// a true value is false.
    pub fn mig_enabled_label(&self) -> Option<bool> {
        let label = self.labels.get(MIG_ENABLED)?;
        Some(matches!(&**label, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// The MIG strategy by the label `nvidia.com/mig.strategy`; `None` when MIG is not enabled.
    pub fn mig_strategy(&self) -> Option<MigStrategy> {
        if !self.is_mig_enabled() {
            return None;
        }
        match &**self.labels.get(MIG_STRATEGY)? {
            "single" => Some(MigStrategy::Single),
            "mixed" => Some(MigStrategy::Mixed),
            _ => None,
        }
    }

    /// Number of units of one GPU of the node: a unit is a thousandth of a MiB, or of a GPU when
    /// its memory is unknown. Requests for GPU memory do not fit in that case.
    pub fn units_per_gpu(&self) -> i64 {
        self.gpu_memory_mib.max(1).saturating_mul(1000)
    }
}

/// Whether `resources` contains MIG instances.
pub(super) fn has_mig_instances(resources: &Resources) -> bool {
    let mut extended = resources.extended.iter();
    extended.any(|(name, count)| *count > 0 && mig_profile_gpus(name).is_some())
}

/// Number of whole GPUs that queues are charged for one MIG instance (`nvidia.com/mig-2g.10gb`:
/// two); `None` when the resource is not a MIG profile.
pub fn mig_profile_gpus(resource: &str) -> Option<i64> {
    let profile = resource.strip_prefix("nvidia.com/mig-")?;
    profile.split_once('g')?.0.parse().ok()
}
