//! Index of pods with constraints on other pods.

use std::collections::{BTreeMap, BTreeSet};

use super::{Session, group_states::GroupStates, pod::PodFacts};
use crate::{
    Snapshot,
    devices::{AllocationFailure, AllocationProblem},
    model::{ClaimRequests, GpuFraction, Name, Node, PodGroupId, PodId, PodShape},
};

/// Pods with constraints on other pods, so that checks can skip the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConstraintIndex {
    anti_affinity: Vec<PodId>,
    affinity: Vec<PodId>,
    claims: Vec<PodId>,
    /// Pods that have a node, by the names of their claims; `None` unless devices of some claim
    /// must be searched.
    claim_holders: Option<BTreeMap<Name, Vec<PodId>>>,
    volumes: Vec<PodId>,
    /// Groups with pods that request GPU memory.
    gpu_memory_groups: BTreeSet<PodGroupId>,
    /// Pods of groups with topology constraints.
    topology_groups: BTreeMap<PodGroupId, Vec<PodId>>,
}

impl ConstraintIndex {
    pub(super) fn new(snapshot: &Snapshot, facts: &[PodFacts], groups: &GroupStates) -> Self {
        let with = |cares: fn(&PodShape) -> bool| {
            let shapes: Vec<bool> = snapshot.shapes.iter().map(cares).collect();
            if !shapes.contains(&true) {
                return Vec::new();
            }
            let pods = facts.iter().zip(0..);
            let caring = pods.filter(|(pod, _)| shapes[pod.shape.0 as usize]);
            caring.map(|(_, at)| PodId(at)).collect()
        };
        let memory = |shape: &PodShape| {
            shape
                .fractional_gpu
                .is_some_and(|shared| matches!(shared.fraction, GpuFraction::MemoryMib(_)))
        };
        let group_of = |pod: PodId| facts[pod.0 as usize].group;
        Self {
            gpu_memory_groups: with(memory).into_iter().filter_map(group_of).collect(),
            anti_affinity: with(|shape| !shape.pod_anti_affinity.is_empty()),
            topology_groups: pods_with_topology(facts, groups),
            claims: with(|shape| !shape.claims.is_empty()),
            claim_holders: claim_holders(snapshot),
            volumes: with(|shape| !shape.volumes.is_empty()),
            affinity: with(|shape| {
                !shape.pod_preferences.is_empty() || !shape.pod_affinity.is_empty()
            }),
        }
    }
}

/// Pods that have a node, by the names of their claims; `None` if counting devices is exact for all
/// claims.
fn claim_holders(snapshot: &Snapshot) -> Option<BTreeMap<Name, Vec<PodId>>> {
    let needs_search = |shape: &PodShape| {
        shape.claim_requests().any(ClaimRequests::needs_allocation_search)
            || shape.claims.iter().any(|claim| claim.reach.is_pending())
    };
    let has_claims = |shape: &PodShape| shape.claim_requests().next().is_some();
    if !snapshot.shapes.iter().any(has_claims) {
        return None;
    }
    let are_counts_exact = !snapshot.shapes.iter().any(needs_search)
        && !snapshot.nodes.iter().any(Node::needs_device_search);
    if are_counts_exact {
        return None;
    }
    let mut holders: BTreeMap<Name, Vec<PodId>> = BTreeMap::new();
    for (pod, id) in snapshot.pods.iter().zip(0..).filter(|(pod, _)| pod.node.is_some()) {
        let shared = snapshot.shapes[pod.shape.0 as usize].claims.iter().map(|claim| &claim.name);
        for claim in pod.own_claims.iter().chain(shared) {
            holders.entry(Name::clone(claim)).or_default().push(PodId(id));
        }
    }
    Some(holders)
}

fn pods_with_topology(
    facts: &[PodFacts],
    groups: &GroupStates,
) -> BTreeMap<PodGroupId, Vec<PodId>> {
    let groups = (0..).map(PodGroupId).zip(groups.facts());
    let constrained = groups.filter(|(_, facts)| facts.has_topology_constraint);
    let mut placed: BTreeMap<PodGroupId, Vec<PodId>> =
        constrained.map(|(id, _)| (id, Vec::new())).collect();
    if placed.is_empty() {
        return placed;
    }
    for (pod, id) in facts.iter().zip(0..) {
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

    /// Pods with required anti-affinity, whether or not they have a node.
    pub fn anti_affinity_pods(&self) -> &[PodId] {
        &self.constraints.anti_affinity
    }

    /// Whether the charge of the group's pods depends on the node, because some of them request GPU
    /// memory.
    pub fn is_charged_by_node(&self, group: PodGroupId) -> bool {
        self.constraints.gpu_memory_groups.contains(&group)
    }

    /// Pods with device claims, whether or not they have a node.
    pub fn pods_with_claims(&self) -> &[PodId] {
        &self.constraints.claims
    }

    /// Whether some claim needs a search for devices, because counting devices does not tell
    /// whether the claim can be allocated.
    pub fn needs_device_search(&self) -> bool {
        self.constraints.claim_holders.is_some()
    }

    /// Pods that use the claim and have a node in the snapshot.
    pub fn claim_holders(&self, claim: &Name) -> &[PodId] {
        let holders = self.constraints.claim_holders.as_ref();
        holders.and_then(|holders| holders.get(claim)).map_or(&[], Vec::as_slice)
    }

    /// The pod's claims that request devices of one node, each with name and requests.
    pub fn node_local_claims_of(
        &self,
        pod: PodId,
    ) -> impl Iterator<Item = (&Name, &ClaimRequests)> {
        let (shape, pod) = (self.shape_of(pod), self.pod(pod));
        let own = pod.own_claims.iter().zip(shape.own_claims.iter().map(AsRef::as_ref));
        let shared = shape.claims.iter();
        own.chain(shared.filter_map(|claim| Some((&claim.name, claim.requests.as_deref()?))))
    }

    /// Those that request devices of this node: not those that its device plugin serves.
    pub fn node_claims_on<'s>(
        &'s self,
        pod: PodId,
        node: &'s Node,
    ) -> impl Iterator<Item = (&'s Name, &'s ClaimRequests)> {
        let served = self.shape_of(pod).claims.iter();
        let served = served.filter(|claim| claim.plugin_resources_on(node).is_some());
        let served: Vec<&Name> = served.map(|claim| &claim.name).collect();
        self.node_local_claims_of(pod).filter(move |(name, _)| !served.contains(name))
    }

    /// Whether the devices can be allocated. Each problem is searched at most once per cycle.
    ///
    /// # Errors
    /// No allocation exists, or none was found.
    pub(crate) fn allocation_outcome(
        &self,
        problem: AllocationProblem,
    ) -> Result<(), AllocationFailure> {
        self.caches.allocations.cached_outcome(problem)
    }

    /// Pods with volume claims, whether or not they have a node.
    pub fn pods_with_volumes(&self) -> &[PodId] {
        &self.constraints.volumes
    }

    /// Pods with required affinity, or preferred affinity or anti-affinity, whether or not they
    /// have a node.
    pub fn pods_with_affinity(&self) -> &[PodId] {
        &self.constraints.affinity
    }
}
