//! Pods that care for where others are.

use std::collections::BTreeSet;

use super::Session;
use crate::{
    Snapshot,
    model::{GpuPart, PodGroupId, PodId, PodShape},
};

/// Pods that care for where others are, so that nobody else need be asked.
#[derive(Clone, Debug)]
pub(super) struct Customs {
    pub(super) shunning: Vec<PodId>,
    pub(super) preferring: Vec<PodId>,
    pub(super) claiming: Vec<PodId>,
    pub(super) volumes: Vec<PodId>,
    /// Groups with pods that ask for memory of devices.
    pub(super) of_device_memory: BTreeSet<PodGroupId>,
}

impl Customs {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let with = |cares: fn(&PodShape) -> bool| {
            let shapes: Vec<bool> = snapshot.shapes.iter().map(cares).collect();
            if !shapes.contains(&true) {
                return Vec::new();
            }
            let pods = snapshot.pods.iter().zip(0..);
            let caring = pods.filter(|(pod, _)| shapes[pod.shape.0 as usize]);
            caring.map(|(_, at)| PodId(at)).collect()
        };
        let memory = |shape: &PodShape| {
            shape.shared_gpu.is_some_and(|shared| matches!(shared.part, GpuPart::MemoryMib(_)))
        };
        let group_of = |pod: PodId| snapshot.pods[pod.0 as usize].group;
        Self {
            of_device_memory: with(memory).into_iter().filter_map(group_of).collect(),
            shunning: with(|shape| !shape.pod_anti_affinity.is_empty()),
            claiming: with(|shape| !shape.claims.is_empty()),
            volumes: with(|shape| !shape.volumes.is_empty()),
            preferring: with(|shape| {
                !shape.pod_preferences.is_empty() || !shape.pod_affinity.is_empty()
            }),
        }
    }
}

impl Session<'_> {
    /// Pods that shun others, wherever they are.
    pub fn shunning_pods(&self) -> &[PodId] {
        &self.customs.shunning
    }

    /// What pods of the group cost their queue depends on the node: some ask for memory of devices.
    pub fn is_priced_by_node(&self, group: PodGroupId) -> bool {
        self.customs.of_device_memory.contains(&group)
    }

    /// Pods with claims on devices, wherever they are.
    pub fn claiming_pods(&self) -> &[PodId] {
        &self.customs.claiming
    }

    /// Pods with claims on volumes, wherever they are.
    pub fn volume_pods(&self) -> &[PodId] {
        &self.customs.volumes
    }

    /// Pods that would like, or need, to be near to or far from others, wherever they are.
    pub fn preferring_pods(&self) -> &[PodId] {
        &self.customs.preferring
    }
}
