//! Places pods together: all of them or none. When a group or sub-group has a topology constraint,
//! domains are tried one after the other, sub-group within group.

use std::collections::BTreeSet;

use super::{
    Fit, PermitStatus, PodState, Session, Statement,
    topology::{CandidateDomain, PodSet, TopologyQuery},
};
use crate::{
    model::{NodeId, PodGroupId, PodId},
    reason::{FitErrors, NoTopologyDomain, Reason},
};

/// The failure to place pods together: one of them fits on no node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementFailure {
    /// The pod that fits on no node.
    pub pod: PodId,
    /// Number of pods placed before the pod that failed.
    pub found: u32,
    /// Errors of all nodes for the pod that failed.
    pub fit_errors: FitErrors,
    /// Set when no topology domain holds the pod and those that are placed together with it.
    pub no_domain: Option<Box<NoTopologyDomain>>,
}

impl PlacementFailure {
    /// The failure when no topology domain holds all pods of the set: none of them is placed.
    pub(super) fn for_no_domain(no_domain: NoTopologyDomain, pod_set: PodSet<'_>) -> Self {
        let (pod, no_domain) = (pod_set.pods[0], Some(Box::new(no_domain)));
        Self { pod, found: 0, fit_errors: FitErrors::default(), no_domain }
    }

    /// Merges the failures to place the same pods in two domains. The failure in the domain where
    /// more pods were placed counts.
    pub(super) fn merge(self, other: Self) -> Self {
        let (mut most, other) =
            if other.found > self.found { (other, self) } else { (self, other) };
        most.fit_errors.merge(other.fit_errors);
        if let (Some(most), Some(other)) = (&mut most.no_domain, other.no_domain) {
            most.merge(*other);
        }
        most
    }
}

/// Maximum number of shapes whose pods are moved to the front of the placement order.
const REORDERINGS_MAX: usize = 16;

/// How pods are placed, and whether failures are explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlacementMode {
    /// Allocate each pod, or pipeline it.
    Allocate,
    /// Like `Allocate`, without explaining failures.
    AllocateUnexplained,
    /// Pipeline all pods, without explaining failures.
    Pipeline,
}

impl PlacementMode {
    /// Whether a failure is explained, which costs more than detecting it.
    pub(super) const fn explains_failure(self) -> bool {
        matches!(self, Self::Allocate)
    }
}

impl Session<'_> {
    /// Runs the PreFilter plugins for the next pods of a group.
    ///
    /// # Errors
    ///
    /// The reason of the first PreFilter plugin that rejects the pods.
    pub fn pre_filter(&self, group: PodGroupId, pods: &[PodId]) -> Result<(), Reason> {
        let mut plugins = self.profile.plugins.pre_filter.iter();
        plugins.try_for_each(|plugin| plugin.pre_filter(self, group, pods))
    }

    /// Whether the group has pods to place next and no PreFilter plugin rejects these pods.
    pub fn may_be_placed(&self, group: PodGroupId) -> bool {
        let pods = self.next_chunk(group);
        !pods.is_empty() && self.pre_filter(group, &pods).is_ok()
    }

    /// Splits the pods by the child sub-groups of a sub-group, in order of their first pods. Pods
    /// that are in no child form a part of their own (`None`).
    fn split_by_sub_group(
        &self,
        PodSet { group, sub_group, pods }: PodSet<'_>,
    ) -> Vec<(Option<usize>, Vec<PodId>)> {
        let group = self.group(group);
        let mut parts: Vec<(Option<usize>, Vec<PodId>)> = Vec::new();
        for &pod in pods {
            let lineage = group.path_to_root(self.pod(pod).sub_group);
            let below = lineage.take_while(|at| Some(*at) != sub_group).last();
            match parts.iter_mut().find(|(known, _)| *known == below) {
                Some((_, pods)) => pods.push(pod),
                None => parts.push((below, vec![pod])),
            }
        }
        parts
    }
}

impl Statement<'_> {
    /// Allocates all of `pods`, and pipelines those that must wait for capacity; if one of them
    /// finds no node, none is placed. Permit plugins decide whether some pods may be bound before
    /// the others.
    ///
    /// # Errors
    ///
    /// A plugin rejects the pods, or there are no nodes for all of them. No pod is placed then.
    pub fn allocate_all(&mut self, pods: &[PodId]) -> Result<(), PlacementFailure> {
        self.allocate_with_permit(pods, PlacementMode::Allocate)
    }

    /// Like [`Self::allocate_all`], without explaining failures.
    ///
    /// # Errors
    ///
    /// As [`Self::allocate_all`]; the failure has no details.
    pub fn allocate_all_unexplained(&mut self, pods: &[PodId]) -> Result<(), PlacementFailure> {
        self.allocate_with_permit(pods, PlacementMode::AllocateUnexplained)
    }

    fn allocate_with_permit(
        &mut self,
        pods: &[PodId],
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        self.place_group(pods, mode)?;
        self.wait_if_not_permitted(pods);
        Ok(())
    }

    /// Pipelines allocated pods if a Permit plugin says that they wait.
    pub(super) fn wait_if_not_permitted(&mut self, pods: &[PodId]) {
        let permits = &self.profile.plugins.permit;
        if permits.iter().any(|permit| permit.permit(self, pods) == PermitStatus::Wait) {
            for pod in pods {
                self.convert_to_pipelined(*pod);
            }
        }
    }

    /// Pipelines all of `pods` (pending, or evicted since the last commit), or none. The caller
    /// checks queue limits. Evicted pods of groups that are skipped (`is_skipped`) would not be
    /// started again, so these pods must keep their place.
    pub fn pipeline_all(&mut self, pods: &[PodId]) -> bool {
        let group = pods.first().and_then(|pod| self.pod(*pod).group);
        if group.is_some_and(|group| self.group(group).is_skipped) {
            return self.pipeline_all_in_place(pods);
        }
        self.place_group(pods, PlacementMode::Pipeline).is_ok()
    }

    fn pipeline_all_in_place(&mut self, pods: &[PodId]) -> bool {
        let start = self.checkpoint();
        for &pod in pods {
            let own: BTreeSet<NodeId> = self.pod(pod).node.into_iter().collect();
            let promised =
                self.place_one_by_one(&[pod], Some(&own), PlacementMode::Pipeline).is_ok();
            if !promised || !self.is_pipelined_in_place(pod) {
                self.undo_to(start);
                return false;
            }
        }
        true
    }

    /// Places pods of one pod group, within its topology constraints.
    fn place_group(&mut self, pods: &[PodId], mode: PlacementMode) -> Result<(), PlacementFailure> {
        let group = pods.first().and_then(|pod| self.pod(*pod).group);
        match group.filter(|group| self.group(*group).has_topology_constraint()) {
            Some(group) => {
                self.place_sub_group(PodSet { group, sub_group: None, pods }, None, mode)
            }
            None => self.place_one_by_one(pods, None, mode),
        }
    }

    /// Places the pods one by one. If a pod with device claims finds no node, pods before it may
    /// have taken devices that only it can use; the pods are then placed again with that pod first,
    /// once for each shape.
    fn place_one_by_one(
        &mut self,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        let failure = match self.place_in_order(pods, within, mode) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        let (mut order, mut blocked) = (pods.to_vec(), failure.pod);
        let mut shapes = BTreeSet::from([self.pod(pods[0]).shape]);
        while self.node_local_claims_of(blocked).next().is_some()
            && shapes.len() < REORDERINGS_MAX
            && shapes.insert(self.pod(blocked).shape)
        {
            order.retain(|pod| *pod != blocked);
            order.insert(0, blocked);
            match self.place_in_order(&order, within, mode) {
                Ok(()) => return Ok(()),
                Err(failure) => blocked = failure.pod,
            }
        }
        Err(failure)
    }

    fn place_in_order(
        &mut self,
        pods: &[PodId],
        within: Option<&BTreeSet<NodeId>>,
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        let start = self.checkpoint();
        for (&pod, found) in pods.iter().zip(0..) {
            let Some((node, fits)) = self.best_node(pod, within) else {
                let diagnosis = mode.explains_failure().then(|| self.fit_errors(pod, within));
                self.undo_to(start);
                let fit_errors = diagnosis.unwrap_or_default();
                return Err(PlacementFailure { pod, found, fit_errors, no_domain: None });
            };
            self.place_pod(pod, node, fits, mode);
        }
        Ok(())
    }

    /// Places a pod on the node that was found for it.
    pub(super) fn place_pod(&mut self, pod: PodId, node: NodeId, fit: Fit, mode: PlacementMode) {
        match mode {
            PlacementMode::Allocate | PlacementMode::AllocateUnexplained => {
                self.run_reserve_plugins(pod, node, fit);
            }
            PlacementMode::Pipeline => self.pipeline(pod, node),
        }
    }

    fn place_sub_group(
        &mut self,
        pod_set: PodSet<'_>,
        within: Option<&BTreeSet<NodeId>>,
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        let group = self.group(pod_set.group);
        match group.topology_constraint(pod_set.sub_group) {
            Some(constraint) => {
                self.place_in_domain(TopologyQuery { constraint, pod_set, within }, mode)
            }
            None => self.place_sub_groups(pod_set, within, mode),
        }
    }

    /// Places all the pods in the first topology domain that holds them.
    fn place_in_domain(
        &mut self,
        query: TopologyQuery<'_>,
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        let TopologyQuery { constraint, pod_set, within } = query;
        let domains = match self.candidate_domains(constraint, pod_set, within) {
            Ok(domains) => domains,
            Err(no_domain) if mode.explains_failure() => {
                return Err(self.diagnose_no_domain(query, no_domain));
            }
            Err(no_domain) => return Err(PlacementFailure::for_no_domain(no_domain, pod_set)),
        };
        let mut tried = Vec::new();
        for CandidateDomain { nodes, node_ranks, is_widest } in domains {
            let wider =
                node_ranks.map(|node_ranks| self.session.preferences.nodes.replace(node_ranks));
            let settled = self.place_sub_groups(pod_set, Some(&nodes), mode);
            if let Some(wider) = wider {
                self.session.preferences.nodes = wider;
            }
            match settled {
                Ok(()) => return Ok(()),
                Err(failure) if is_widest => tried.push((nodes, failure)),
                Err(_) => {}
            }
        }
        Err(if mode.explains_failure() {
            self.diagnose_failed_domains(query, tried)
        } else {
            tried.swap_remove(0).1
        })
    }

    /// Checks whether all the pods fit in some topology domain. Undoes its changes.
    pub(super) fn try_in_domain(
        &mut self,
        query: TopologyQuery<'_>,
    ) -> Result<(), PlacementFailure> {
        let start = self.checkpoint();
        let settled = self.place_in_domain(query, PlacementMode::Allocate);
        self.undo_to(start);
        settled
    }

    /// Places the pods sub-group by sub-group.
    fn place_sub_groups(
        &mut self,
        pod_set: PodSet<'_>,
        within: Option<&BTreeSet<NodeId>>,
        mode: PlacementMode,
    ) -> Result<(), PlacementFailure> {
        let start = self.checkpoint();
        let mut found = 0;
        for (sub_group, pods) in self.split_by_sub_group(pod_set) {
            let settled = match sub_group {
                Some(_) => {
                    let pod_set = PodSet { sub_group, pods: &pods, ..pod_set };
                    self.place_sub_group(pod_set, within, mode)
                }
                None => self.place_one_by_one(&pods, within, mode),
            };
            if let Err(failure) = settled {
                self.undo_to(start);
                return Err(PlacementFailure { found: found + failure.found, ..failure });
            }
            found += u32::try_from(pods.len()).expect("pod ids are 32 bits");
        }
        Ok(())
    }

    fn run_reserve_plugins(&mut self, pod: PodId, node: NodeId, fits: Fit) {
        for reserve in &self.profile.plugins.reserve {
            reserve.reserve(self, pod, node, fits);
        }
    }

    /// Pipelines an allocated pod to the capacity that it had been allocated.
    fn convert_to_pipelined(&mut self, pod: PodId) {
        if let PodState::Allocated(node) = self.state(pod) {
            let parts = self.portions_of(pod).pipeline_allocated();
            self.change_state(pod, PodState::Pipelined(node), parts);
        }
    }
}
