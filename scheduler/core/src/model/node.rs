//! A node as far as decisions depend on it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{AttachedVolume, HeldClaim, Labels, Name, NumaTopology};
use crate::resources::Resources;

/// Label of nodes for work with GPUs, where the scheduler keeps to such labels; its value means
/// nothing.
pub const GPU_WORKER: &str = "node-role.kubernetes.io/gpu-worker";
/// The same for work without GPUs.
pub const CPU_WORKER: &str = "node-role.kubernetes.io/cpu-worker";

/// Label of a node: how many GPUs it has, whatever can be had of them.
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
    /// Its GPUs are published in `ResourceSlices`: only claims get them.
    pub gpus_by_claim: bool,
    /// How many devices it has of each selection of which a claim takes every one, whoever has them.
    pub published: BTreeMap<Name, i64>,
    /// Claims whose devices are taken, though no pod has them.
    pub held_claims: Vec<HeldClaim>,
    /// How many volumes of a driver it takes (`CSINode`); a driver that is missing: any number.
    pub volume_limits: BTreeMap<Name, i64>,
    /// Volumes that are attached to it, whether or not pods use them (`VolumeAttachment`).
    pub attached: BTreeSet<AttachedVolume>,
    /// Its zones, where they are published.
    pub numa: Option<NumaTopology>,
    /// `status.images`: bytes by name. They matter to profile `kube`'s scores only.
    pub images: BTreeMap<Name, i64>,
    /// `spec.unschedulable`: the node is cordoned.
    pub unschedulable: bool,
    /// Condition `Ready` is `True`. A node that is not ready adds nothing to the shares.
    pub ready: bool,
}

impl Node {
    /// What pods may have of it in the end, were none there.
    pub fn room(&self) -> Cow<'_, Resources> {
        let mut room = Cow::Borrowed(&self.allocatable);
        for held in self.held_claims.iter().filter(|held| !held.is_given_back) {
            room.to_mut().subtract(&held.devices);
        }
        room
    }

    /// It is labelled for work with GPUs.
    pub fn is_gpu_worker(&self) -> bool {
        self.labels.contains_key(GPU_WORKER)
    }

    /// How many GPUs it has by its label, else how many pods may have, in thousandths.
    pub(crate) fn gpus_there_milli(&self) -> i64 {
        let labelled = self.labels.get(GPU_COUNT).and_then(|count| count.parse::<i64>().ok());
        labelled.map_or(self.allocatable.gpu_milli, |count| count.saturating_mul(1000))
    }

    /// It is labelled for work without GPUs.
    pub fn is_cpu_worker(&self) -> bool {
        self.labels.contains_key(CPU_WORKER)
    }

    pub(crate) fn label(&mut self, key: &str) {
        self.labels.insert(key.into(), "".into());
    }
}

/// A taint: keeps pods away that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taint {
    /// `key`.
    pub key: Name,
    /// `value`, empty when absent.
    pub value: Name,
    /// `effect`.
    pub effect: TaintEffect,
}

impl Taint {
    /// Kubernetes puts it on nodes that are cordoned or not ready.
    pub(crate) fn is_of_state(&self) -> bool {
        *self.key == *CORDONED_TAINT || NOT_READY_TAINTS.contains(&&*self.key)
    }
}

/// Label of a node: its own name, as a rule.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Key of the taint that Kubernetes puts on a node that is cordoned, and takes off again.
pub const CORDONED_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Keys of those that it puts on a node that is not ready, and takes off again.
pub const NOT_READY_TAINTS: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintEffect {
    /// No new pod without a toleration.
    NoSchedule,
    /// Such nodes are chosen last.
    PreferNoSchedule,
    /// No new pod, and running ones leave.
    NoExecute,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_of_a_nodes_state_are_known_by_their_keys() {
        let is_of_state = |key: &str| {
            let effect = TaintEffect::NoSchedule;
            Taint { key: key.into(), value: "".into(), effect }.is_of_state()
        };
        assert!(is_of_state(CORDONED_TAINT) && NOT_READY_TAINTS.into_iter().all(is_of_state));
        assert!(!is_of_state("nvidia.com/gpu"));
    }
}
