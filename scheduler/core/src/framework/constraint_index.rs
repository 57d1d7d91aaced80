//! Index of pods with constraints on other pods.

use std::collections::{BTreeMap, BTreeSet};

use super::Session;
use crate::{
    Snapshot,
    model::{GpuFraction, PodGroupId, PodId, PodShape},
};

/// Pods with constraints on other pods, so that checks can skip the rest.
#[derive(Clone, Debug)]
pub(super) struct ConstraintIndex {
    anti_affinity: Vec<PodId>,
    affinity: Vec<PodId>,
    claims: Vec<PodId>,
    volumes: Vec<PodId>,
    /// Groups with pods that request GPU memory.
    gpu_memory_groups: BTreeSet<PodGroupId>,
    /// Pods of groups with topology constraints.
    topology_groups: BTreeMap<PodGroupId, Vec<PodId>>,
}

impl ConstraintIndex {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
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
            shape
                .fractional_gpu
                .is_some_and(|shared| matches!(shared.fraction, GpuFraction::MemoryMib(_)))
        };
        let group_of = |pod: PodId| snapshot.pods[pod.0 as usize].group;
        Self {
            gpu_memory_groups: with(memory).into_iter().filter_map(group_of).collect(),
            anti_affinity: with(|shape| !shape.pod_anti_affinity.is_empty()),
            topology_groups: pods_with_topology(snapshot),
            claims: with(|shape| !shape.claims.is_empty()),
            volumes: with(|shape| !shape.volumes.is_empty()),
            affinity: with(|shape| {
                !shape.pod_preferences.is_empty() || !shape.pod_affinity.is_empty()
            }),
        }
    }
}

fn pods_with_topology(snapshot: &Snapshot) -> BTreeMap<PodGroupId, Vec<PodId>> {
    let mut placed: BTreeMap<PodGroupId, Vec<PodId>> = BTreeMap::new();
    let groups = (0..).map(PodGroupId).zip(&snapshot.pod_groups);
    placed.extend(
        groups.filter(|(_, group)| group.has_topology_constraint()).map(|(id, _)| (id, Vec::new())),
    );
    if placed.is_empty() {
        return placed;
    }
    for (pod, id) in snapshot.pods.iter().zip(0..) {
        if let Some(pods) = pod.group.and_then(|group| placed.get_mut(&group)) {
            pods.push(PodId(id));
        }
    }
    placed
}

impl Session<'_> {
    /// Pods of a group with topology constraints; none for other groups.
    pub(super) fn pods_of_topology_group(&self, group: PodGroupId) -> &[PodId] {
        self.constraints.topology_groups.get(&group).map_or(&[], Vec::as_slice)
    }

    /// Pods with required anti-affinity, on any node.
    pub fn anti_affinity_pods(&self) -> &[PodId] {
        &self.constraints.anti_affinity
    }

    /// The charge of the group's pods depends on the node, since some request GPU memory.
    pub fn is_charged_by_node(&self, group: PodGroupId) -> bool {
        self.constraints.gpu_memory_groups.contains(&group)
    }

    /// Pods with device claims, on any node.
    pub fn pods_with_claims(&self) -> &[PodId] {
        &self.constraints.claims
    }

    /// Pods with volume claims, on any node.
    pub fn pods_with_volumes(&self) -> &[PodId] {
        &self.constraints.volumes
    }

    /// Pods with required affinity, or preferred affinity or anti-affinity, on any node.
    pub fn pods_with_affinity(&self) -> &[PodId] {
        &self.constraints.affinity
    }
}
