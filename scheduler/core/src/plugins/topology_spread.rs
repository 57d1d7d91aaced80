//! PodTopologySpread: matching pods are spread evenly over the domains of a label. `DoNotSchedule`
//! constraints filter, `ScheduleAnyway` constraints score. Pods of one controller are spread over
//! hosts and zones by default, as in kube-scheduler.

use std::collections::{BTreeMap, BTreeSet};

use super::{pod_counts::placements_of, taint_toleration::has_untolerated_taint};
use crate::{
    framework::{Filter, Fit, NodeFilter, NodePresence, NodeScore, ResultInputs, Score, Session},
    model::{
        Inclusion, LabelSelector, Name, NodeId, Operator, Pod, PodId, Requirement, TopologySpread,
        WhenUnsatisfiable, labels_match,
    },
    reason::FitError,
};

const HOSTNAME_KEY: &str = "kubernetes.io/hostname";

/// Filters nodes by topology spread constraints with `DoNotSchedule`, scores them by those with
/// `ScheduleAnyway`.
#[derive(Debug)]
pub(super) struct PodTopologySpread;

/// A topology spread constraint with the matching pods that it counts.
struct ConstraintDomains<'a> {
    constraint: TopologySpread,
    /// Number of matching pods by node; nodes without any are absent.
    on_node: BTreeMap<NodeId, i64>,
    /// Number of matching pods by value of the topology key, that is by domain.
    counts: BTreeMap<&'a str, i64>,
}

impl<'a> ConstraintDomains<'a> {
    /// Counts the matching pods of each node. The counts of the domains are added later.
    fn new(session: &Session<'_>, pod: PodId, constraint: TopologySpread) -> Self {
        let mut on_node: BTreeMap<NodeId, i64> = BTreeMap::new();
        // An empty selector selects all pods, but kube-scheduler counts none for it.
        let selector = constraint.selector.as_ref();
        let selector = selector.filter(|selector| !selector.requirements.is_empty());
        let selected = session.pods_selected_in_namespace(&session.pod(pod).namespace, selector);
        let others = selected.iter().copied().filter(|other| *other != pod);
        for (_, node, _) in
            placements_of(session, others).filter(|(.., stays)| *stays == NodePresence::Staying)
        {
            *on_node.entry(node).or_default() += 1;
        }
        Self { constraint, on_node, counts: BTreeMap::new() }
    }

    fn domain_of(&self, session: &'a Session<'_>, node: NodeId) -> Option<&'a str> {
        session.node(node).labels.get(&self.constraint.topology_key).map(|value| &**value)
    }

    /// Whether the constraint counts the pods of this node, by its node affinity and taints
    /// policies.
    fn includes_node(&self, session: &Session<'_>, pod: PodId, node: NodeId) -> bool {
        let (shape, node_info) = (session.shape_of(pod), session.node(node));
        let selected = match self.constraint.node_affinity_policy {
            Inclusion::Honor => shape.selects_node(node_info),
            Inclusion::Ignore => true,
        };
        let tolerated = match self.constraint.node_taints_policy {
            Inclusion::Honor => !has_untolerated_taint(&node_info.taints, &shape.tolerations),
            Inclusion::Ignore => true,
        };
        selected && tolerated
    }

    /// Adds the matching pods of these nodes to the counts of their domains.
    fn count_matching_pods(&mut self, session: &'a Session<'_>, pod: PodId, nodes: &[NodeId]) {
        for node in nodes {
            let value = self.domain_of(session, *node);
            if let Some(value) = value.filter(|_| self.includes_node(session, pod, *node)) {
                *self.counts.entry(value).or_default() += self.matching_pods_on(*node);
            }
        }
    }

    fn matching_pods_on(&self, node: NodeId) -> i64 {
        self.on_node.get(&node).copied().unwrap_or(0)
    }

    fn check_skew(
        &self,
        session: &'a Session<'_>,
        pod: &Pod,
        node: NodeId,
    ) -> Result<(), FitError> {
        let key = || Name::clone(&self.constraint.topology_key);
        let value = self.domain_of(session, node);
        let value = value.ok_or_else(|| FitError::TopologySpreadLabelMissing(key()))?;
        let min_count = self.counts.values().copied().min().unwrap_or(0);
        let self_match = i64::from(labels_match(self.constraint.selector.as_ref(), &pod.labels));
        let count = self.counts.get(value).copied().unwrap_or(0);
        let is_uneven =
            |min_count| count + self_match - min_count > i64::from(self.constraint.max_skew);
        if is_uneven(min_count) {
            return Err(FitError::TopologySpread(key()));
        }
        // With fewer domains than `minDomains`, the minimum count is 0.
        match self.domains_below_minimum() {
            Some((domains, min_count)) if is_uneven(0) => {
                Err(FitError::TooFewDomains { key: key(), domains, min_domains: min_count })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The number of domains and the constraint's `minDomains`, if there are fewer domains than
    /// that.
    fn domains_below_minimum(&self) -> Option<(u32, u32)> {
        let domains = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
        let min_domains = u32::try_from(self.constraint.min_domains?).unwrap_or(0);
        (domains < min_domains).then_some((domains, min_domains))
    }
}

impl Filter for PodTopologySpread {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let constraints = session.shape_of(pod).topology_spread.iter();
        let hard = constraints
            .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        let mut all: Vec<ConstraintDomains<'a>> = hard
            .map(|constraint| ConstraintDomains::new(session, pod, constraint.clone()))
            .collect();
        if all.is_empty() {
            return None;
        }
        let nodes: Vec<NodeId> =
            session.node_ids().filter(|node| has_all_labels(session, *node, &all)).collect();
        for domains in &mut all {
            domains.count_matching_pods(session, pod, &nodes);
        }
        let own = session.pod(pod);
        Some(Box::new(move |node| {
            all.iter().try_for_each(|domains| domains.check_skew(session, own, node))?;
            Ok(Fit::Now)
        }))
    }
}

fn has_all_labels(
    session: &Session<'_>,
    node: NodeId,
    constraints: &[ConstraintDomains<'_>],
) -> bool {
    let labels = &session.node(node).labels;
    constraints.iter().all(|domains| labels.contains_key(&domains.constraint.topology_key))
}

impl Score for PodTopologySpread {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        !soft_constraints(session, pod).is_empty()
    }

    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a> {
        let constraints = soft_constraints(session, pod).into_iter();
        let mut all: Vec<ConstraintDomains<'a>> = constraints
            .map(|constraint| ConstraintDomains::new(session, pod, constraint))
            .collect();
        // Default constraints include nodes without a zone label.
        let is_explicit = !session.shape_of(pod).topology_spread.is_empty();
        let is_included = |node: NodeId, all: &[ConstraintDomains<'_>]| {
            !is_explicit || has_all_labels(session, node, all)
        };
        let scored: BTreeSet<NodeId> =
            feasible.iter().copied().filter(|node| is_included(*node, &all)).collect();
        let counted: Vec<NodeId> =
            session.node_ids().filter(|node| is_included(*node, &all)).collect();
        let mut weights = Vec::new();
        for domains in &mut all {
            weights.push(domains.count_scored_domains(session, pod, &scored, &counted));
        }
        Box::new(move |node| {
            if !scored.contains(&node) {
                return IGNORED_NODE;
            }
            let weighed = all.iter().zip(&weights);
            round_score(
                weighed.map(|(domains, weight)| domains.spread_score(session, node, *weight)).sum(),
            )
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let counted = || scores.iter().copied().filter(|score| *score != IGNORED_NODE);
        let (min, max) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                IGNORED_NODE => 0,
                _ if max == 0 => 100,
                score => 100 * (max + min - score) / max,
            };
        }
    }
}

/// Score of a node that lacks a label of an explicit constraint.
const IGNORED_NODE: i64 = -1;

impl<'a> ConstraintDomains<'a> {
    /// Counts the matching pods in the domains of the scored nodes, and returns the weight of one
    /// pod in the score.
    fn count_scored_domains(
        &mut self,
        session: &'a Session<'_>,
        pod: PodId,
        scored: &BTreeSet<NodeId>,
        counted: &[NodeId],
    ) -> f64 {
        if &*self.constraint.topology_key == HOSTNAME_KEY {
            return domain_weight(scored.len());
        }
        for node in scored {
            self.counts.insert(self.domain_of(session, *node).unwrap_or_default(), 0);
        }
        for node in counted {
            let value = self.domain_of(session, *node).unwrap_or_default();
            if self.counts.contains_key(value) && self.includes_node(session, pod, *node) {
                *self.counts.entry(value).or_default() += self.matching_pods_on(*node);
            }
        }
        domain_weight(self.counts.len())
    }

    fn spread_score(&self, session: &'a Session<'_>, node: NodeId, weight: f64) -> f64 {
        let Some(value) = self.domain_of(session, node) else { return 0.0 };
        let count = match &*self.constraint.topology_key {
            HOSTNAME_KEY => self.matching_pods_on(node),
            _ => self.counts.get(value).copied().unwrap_or(0),
        };
        let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        count * weight + f64::from(self.constraint.max_skew) - 1.0
    }
}

/// The weight of a pod when there are this many domains: the logarithm of their number plus two.
fn domain_weight(domains: usize) -> f64 {
    f64::from(u32::try_from(domains).unwrap_or(u32::MAX).saturating_add(2)).ln()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are small; `as` saturates")]
fn round_score(score: f64) -> i64 {
    score.round() as i64
}

/// The `ScheduleAnyway` constraints of the pod; if it has no topology spread constraints, the
/// default ones of kube-scheduler.
fn soft_constraints(session: &Session<'_>, pod: PodId) -> Vec<TopologySpread> {
    let constraints = &session.shape_of(pod).topology_spread;
    if constraints.is_empty() {
        return default_constraints(session.pod(pod));
    }
    let soft = constraints
        .iter()
        .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway);
    soft.cloned().collect()
}

/// The default spread over hosts and zones for pods of a ReplicaSet or StatefulSet. Such pods have
/// a hash label; matching pods are those with the same labels, without labels that number the pods.
/// Difference from kube-scheduler, which uses the selectors of Services and controllers.
fn default_constraints(pod: &Pod) -> Vec<TopologySpread> {
    let hashes = ["pod-template-hash", "controller-revision-hash"];
    if !hashes.iter().any(|key| pod.labels.contains_key(*key)) {
        return Vec::new();
    }
    let numbers = ["statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"];
    let labels = pod.labels.iter().filter(|(key, _)| !numbers.contains(&&***key));
    let requirements = labels.map(|(key, value)| Requirement {
        key: key.clone(),
        operator: Operator::In,
        values: vec![value.clone()],
    });
    let selector = LabelSelector { requirements: requirements.collect() };
    let constraint = |key: &str, max_skew| TopologySpread {
        max_skew,
        topology_key: key.into(),
        when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
        selector: Some(selector.clone()),
        min_domains: None,
        node_affinity_policy: Inclusion::Honor,
        node_taints_policy: Inclusion::Ignore,
    };
    vec![constraint(HOSTNAME_KEY, 3), constraint("topology.kubernetes.io/zone", 5)]
}
