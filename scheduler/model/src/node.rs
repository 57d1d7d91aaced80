//! A node, as far as decisions depend on it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{AttachedVolume, DeviceAmounts, Labels, Name, NodeDevice, NumaTopology, UnusedClaim};
use crate::resources::Resources;

/// Label of GPU workers, for schedulers that restrict nodes by role. The label's value is ignored.
pub const GPU_WORKER: &str = "node-role.kubernetes.io/gpu-worker";
/// Label of CPU workers, for schedulers that restrict nodes by role. The label's value is ignored.
pub const CPU_WORKER: &str = "node-role.kubernetes.io/cpu-worker";

/// Label with the number of GPUs of a node, whether or not they are allocatable.
const GPU_COUNT: &str = "nvidia.com/gpu.count";

/// A node and what it offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Name,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// Memory of each GPU in MiB (label `nvidia.com/gpu.memory`); 0: unknown.
    pub gpu_memory_mib: i64,
    /// Whether the node's GPUs are published in `ResourceSlices`, so that only claims can use them.
    pub gpus_via_dra: bool,
    /// Number of devices that the node publishes, by device selection, allocated devices included.
    /// Used for claims with allocation mode `All`.
    pub published_devices: BTreeMap<Name, i64>,
    /// The devices that the node can use, in the order of allocation. Without devices of the node
    /// alone, only the counts of these are known.
    pub devices: Vec<NodeDevice>,
    /// Counters that its devices consume: what other devices leave of them.
    pub device_counters: DeviceAmounts,
    /// Claims that take devices of the node although no pod uses them.
    pub unused_claims: Vec<UnusedClaim>,
    /// Maximum number of volumes of the node by driver (`CSINode`); no entry means no limit.
    pub volume_limits: BTreeMap<Name, i64>,
    /// Volumes that are attached to the node, whether or not pods use them (`VolumeAttachment`).
    pub attached_volumes: BTreeSet<AttachedVolume>,
    /// The node's NUMA zones, when they are published.
    pub numa: Option<NumaTopology>,
    /// `status.images`: size in bytes by image name. Only scores of profile `kube` use them.
    pub images: BTreeMap<Name, i64>,
    /// `spec.unschedulable`: the node is cordoned.
    pub unschedulable: bool,
    /// Whether condition `Ready` is `True`. Nodes that are not ready add nothing to the total that
    /// queues share.
    pub ready: bool,
}

impl Node {
    /// What pods could use of the node if no pod were there.
    pub fn capacity_when_empty(&self) -> Cow<'_, Resources> {
        let mut room = Cow::Borrowed(&self.allocatable);
        for held in self.unused_claims.iter().filter(|held| !held.is_deallocating) {
            room.to_mut().subtract(&held.devices);
        }
        room
    }

    /// Whether a device plugin of it provides one of these resources.
    pub fn has_device_plugin_for(&self, resources: &Resources) -> bool {
        let has_gpus = self.allocatable.gpu_milli > 0 && !self.gpus_via_dra;
        let mut others = resources.extended.keys();
        resources.gpu_milli > 0 && has_gpus
            || others.any(|name| self.allocatable.extended_amount(name) > 0)
    }

    /// Whether counting its devices by kind does not tell if claims can be allocated.
    pub fn needs_device_search(&self) -> bool {
        self.devices.iter().any(|device| device.properties.needs_search())
    }

    /// Whether it can use devices that several nodes can use.
    pub fn has_multi_node_devices(&self) -> bool {
        self.devices.iter().any(|device| device.properties.is_multi_node)
    }

    /// Whether the node has the label of GPU workers.
    pub fn is_gpu_worker(&self) -> bool {
        self.labels.contains_key(GPU_WORKER)
    }

    /// Number of the node's GPUs in thousandths: by its label `nvidia.com/gpu.count`, otherwise the
    /// allocatable ones.
    pub fn installed_gpu_milli(&self) -> i64 {
        let labelled = self.labels.get(GPU_COUNT).and_then(|count| count.parse::<i64>().ok());
        labelled.map_or(self.allocatable.gpu_milli, |count| count.saturating_mul(1000))
    }

    /// Whether the node has the label of CPU workers.
    pub fn is_cpu_worker(&self) -> bool {
        self.labels.contains_key(CPU_WORKER)
    }

    /// Gives the node the label with an empty value.
    pub fn add_label(&mut self, key: &str) {
        self.labels.insert(key.into(), "".into());
    }
}

/// A taint: repels pods that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// `key` of the taint.
    pub key: Name,
    /// `value` of the taint; empty when absent.
    pub value: Name,
    /// `effect` of the taint.
    pub effect: TaintEffect,
}

impl Taint {
    /// Whether Kubernetes sets this taint on cordoned or not-ready nodes.
    pub fn is_set_by_kubernetes(&self) -> bool {
        *self.key == *CORDONED_TAINT || NOT_READY_TAINTS.contains(&&*self.key)
    }
}

/// Label of nodes with the node's name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Key of the taint that Kubernetes sets on cordoned nodes and removes again.
pub const CORDONED_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Keys of the taints that Kubernetes sets on not-ready nodes and removes again.
pub const NOT_READY_TAINTS: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods without a toleration are rejected.
    NoSchedule,
    /// Nodes with this taint are chosen last.
    PreferNoSchedule,
    /// New pods are rejected and running ones evicted.
    NoExecute,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_set_by_kubernetes_are_recognized_by_key() {
        let is_of_state = |key: &str| {
            let effect = TaintEffect::NoSchedule;
            Taint { key: key.into(), value: "".into(), effect }.is_set_by_kubernetes()
        };
        assert!(is_of_state(CORDONED_TAINT) && NOT_READY_TAINTS.into_iter().all(is_of_state));
        assert!(!is_of_state("nvidia.com/gpu"));
    }
}
