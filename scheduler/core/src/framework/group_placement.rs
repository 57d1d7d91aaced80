//! The pod group cycle of kube-scheduler. In each placement (a topology domain, or all nodes) every
//! pending pod of a pod group is tried; a placement is feasible if the minimum of the group finds
//! room there. The group is placed in the feasible placement with the highest score.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fit, GroupScheduling, PlacementFailure, Session, Statement, placement::PlacementMode};
use crate::{
    model::{Name, NodeId, PodGroupId, PodId, ShapeId, TopologyConstraint},
    reason::{FitErrors, NoTopologyDomain},
};

/// A placement of a pod group in which its minimum finds room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlacement {
    /// The value of the topology label; `None` if the group needs no domain.
    pub domain: Option<Name>,
    /// The nodes of the placement.
    pub nodes: BTreeSet<NodeId>,
    /// The pods that find a node, in the order in which they were tried.
    pub assignments: Vec<Assignment>,
    /// Weighted scores by plugin, in plugin order.
    pub scores: Vec<(String, i128)>,
}

/// The node that a pod of the group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The pod.
    pub pod: PodId,
    /// Its node.
    pub node: NodeId,
    /// When the pod fits on the node.
    pub fit: Fit,
}

/// A placement to try: the value of the topology label, and its nodes.
struct Candidate {
    domain: Option<Name>,
    nodes: BTreeSet<NodeId>,
}

impl GroupPlacement {
    fn total_score(&self) -> i128 {
        self.scores.iter().map(|(_, score)| score).sum()
    }
}

impl Session<'_> {
    /// Whether all pending pods of a pod group are tried together, rather than its next pods.
    pub fn runs_pod_group_cycle(&self, group: PodGroupId) -> bool {
        let runs = matches!(self.profile.plugins.group_scheduling, GroupScheduling::Cycle { .. });
        let is_single =
            || !self.group(group).is_gang() && self.members(group).waiting_pods().nth(1).is_none();
        runs && !is_single()
    }

    /// Minimum number of pods that must have a node, at least one.
    fn minimum_of_gang(&self, group: PodGroupId) -> usize {
        let minimum = self.group(group).sub_groups.iter().map(|leaf| leaf.min_member).sum::<u32>();
        minimum.max(1) as usize
    }

    /// The topology constraint of a group without sub-groups.
    fn topology_of_gang(&self, group: PodGroupId) -> Option<&TopologyConstraint> {
        let group = self.group(group);
        group.topology_constraint(None).or_else(|| group.topology_constraint(Some(0)))
    }

    /// The placements of a pod group, by domain. Pods of the group that have a node, terminating
    /// ones too, determine the domain; if they are in several, there is no placement.
    fn placement_candidates(&self, group: PodGroupId) -> Vec<Candidate> {
        let Some(constraint) = self.topology_of_gang(group) else {
            return vec![Candidate { domain: None, nodes: self.node_ids().collect() }];
        };
        let Ok(levels) = self.resolve_levels(constraint) else { return Vec::new() };
        let mut domains: BTreeMap<Vec<Name>, BTreeSet<NodeId>> = BTreeMap::new();
        for node in self.node_ids() {
            if let Some(domain) = levels.domain_of(self, node) {
                domains.entry(domain).or_default().insert(node);
            }
        }
        let members = self.pods_of_topology_group(group).iter();
        let nodes = members.filter_map(|pod| self.state(*pod).nodes_with_presence().next());
        let used: BTreeSet<_> = nodes.map(|(node, _)| levels.domain_of(self, node)).collect();
        if !used.is_empty() {
            let only = used.first().cloned().flatten().filter(|_| used.len() == 1);
            domains.retain(|domain, _| only.as_ref() == Some(domain));
        }
        let domains = domains.into_iter();
        domains.map(|(path, nodes)| Candidate { domain: path.last().cloned(), nodes }).collect()
    }

    /// Adds the scores of all `PlacementScore` plugins to the placements.
    fn score_placements(&self, group: PodGroupId, placements: &mut [GroupPlacement]) {
        let GroupScheduling::Cycle { score } = &self.profile.plugins.group_scheduling else {
            return;
        };
        for scoring in score {
            let of =
                |placement: &GroupPlacement| scoring.plugin.score_placement(self, group, placement);
            let mut scores: Vec<i64> = placements.iter().map(of).collect();
            scoring.plugin.normalize_placement_score(&mut scores);
            for (placement, score) in placements.iter_mut().zip(scores) {
                let weighted = i128::from(score) * i128::from(scoring.weight);
                placement.scores.push((format!("{:?}", scoring.plugin), weighted));
            }
        }
    }
}

impl Statement<'_> {
    /// The feasible placements of the pending pods of a group, by domain, with their scores; none if a
    /// PreFilter plugin rejects the pods. The statement stays as it is.
    pub fn group_placements(&mut self, group: PodGroupId) -> Vec<GroupPlacement> {
        let pods: Vec<PodId> = self.members(group).waiting_pods().collect();
        if self.pre_filter(group, &pods).is_err() {
            return Vec::new();
        }
        self.try_placements(group, PlacementMode::AllocateUnexplained).unwrap_or_default()
    }

    /// Allocates pending pods of a group, at least its minimum, in the best placement, and returns
    /// these pods. If one of them must wait for capacity, all are pipelined.
    ///
    /// # Errors
    ///
    /// The minimum finds room in no placement. No pod is placed then.
    pub fn allocate_group(&mut self, group: PodGroupId) -> Result<Vec<PodId>, PlacementFailure> {
        let pods = self.place_in_best_placement(group, PlacementMode::Allocate)?;
        self.wait_if_not_permitted(&pods);
        Ok(pods)
    }

    /// Pipelines pending pods of a group, at least its minimum, in the best placement, and returns
    /// these pods.
    ///
    /// # Errors
    ///
    /// As [`Self::allocate_group`]; the failure has no details.
    pub(crate) fn pipeline_group(
        &mut self,
        group: PodGroupId,
    ) -> Result<Vec<PodId>, PlacementFailure> {
        self.place_in_best_placement(group, PlacementMode::Pipeline)
    }

    fn place_in_best_placement(
        &mut self,
        group: PodGroupId,
        mode: PlacementMode,
    ) -> Result<Vec<PodId>, PlacementFailure> {
        let placements = self.try_placements(group, mode)?;
        // The first of equal placements, which `max_by_key` would return last.
        let best = placements.into_iter().rev().max_by_key(GroupPlacement::total_score);
        let assignments = best.expect("a group without placement has a failure").assignments;
        for Assignment { pod, node, fit } in &assignments {
            self.place_pod(*pod, *node, *fit, mode);
        }
        Ok(assignments.into_iter().map(|assignment| assignment.pod).collect())
    }

    /// Tries all placements. The statement stays as it is.
    fn try_placements(
        &mut self,
        group: PodGroupId,
        mode: PlacementMode,
    ) -> Result<Vec<GroupPlacement>, PlacementFailure> {
        let (mut placements, mut failures) = (Vec::new(), Vec::new());
        for Candidate { domain, nodes } in self.placement_candidates(group) {
            let within = domain.is_some().then_some(&nodes);
            let start = self.checkpoint();
            let placed = self.place_members(group, within, mode);
            self.undo_to(start);
            match placed {
                Ok(assignments) => {
                    let scores = Vec::new();
                    placements.push(GroupPlacement { domain, nodes, assignments, scores });
                }
                Err(failure) => failures.push((domain, failure)),
            }
        }
        if placements.is_empty() {
            return Err(self.failure_in_all_placements(group, failures));
        }
        if placements.len() > 1 {
            self.score_placements(group, &mut placements);
        }
        Ok(placements)
    }

    /// Places the pending pods of a group one by one. Pods that fit on no node are left out, until
    /// the others cannot be the minimum.
    fn place_members(
        &mut self,
        group: PodGroupId,
        within: Option<&BTreeSet<NodeId>>,
        mode: PlacementMode,
    ) -> Result<Vec<Assignment>, PlacementFailure> {
        let minimum = self.minimum_of_gang(group);
        let pods: Vec<PodId> = self.members(group).waiting_pods().collect();
        let with_node = self.members(group).scheduled_count() as usize;
        let (mut assignments, mut unfit) = (Vec::new(), BTreeSet::<ShapeId>::new());
        let mut last_unfit = None;
        for (at, &pod) in pods.iter().enumerate() {
            let shape = self.pod(pod).shape;
            let best = (!unfit.contains(&shape)).then(|| self.best_node(pod, within)).flatten();
            if let Some((node, fit)) = best {
                self.place_pod(pod, node, fit, mode);
                assignments.push(Assignment { pod, node, fit });
            } else {
                last_unfit = Some(pod);
                unfit.extend(self.fit_is_same_for_shape(pod).then_some(shape));
            }
            if with_node + assignments.len() + (pods.len() - at - 1) < minimum {
                break;
            }
        }
        if !assignments.is_empty() && with_node + assignments.len() >= minimum {
            return Ok(assignments);
        }
        let pod = last_unfit.or_else(|| pods.first().copied()).expect("the group has pending pods");
        let explains = mode.explains_failure() && last_unfit.is_some();
        let fit_errors = if explains { self.fit_errors(pod, within) } else { FitErrors::default() };
        let found = u32::try_from(assignments.len()).expect("pod ids are 32 bits");
        Err(PlacementFailure { pod, found, fit_errors, no_domain: None })
    }

    fn failure_in_all_placements(
        &self,
        group: PodGroupId,
        failures: Vec<(Option<Name>, PlacementFailure)>,
    ) -> PlacementFailure {
        let pods: Vec<PodId> = self.members(group).waiting_pods().collect();
        let domains = failures
            .iter()
            .filter_map(|(domain, failure)| Some((domain.clone()?, u64::from(failure.found))));
        let no_domain = self.topology_of_gang(group).map(|constraint| {
            Box::new(NoTopologyDomain {
                domains: domains.collect(),
                ..NoTopologyDomain::new(constraint, &pods)
            })
        });
        let first = failures.into_iter().next().map(|(_, failure)| failure);
        let first = first.unwrap_or_else(|| PlacementFailure {
            pod: *pods.first().expect("the group has pending pods"),
            found: 0,
            fit_errors: FitErrors::default(),
            no_domain: None,
        });
        PlacementFailure { no_domain, ..first }
    }
}
