//! PodTopologySpread: equal pods stand in equal numbers in all domains of a label. What must
//! not be broken filters; what may be, scores. Pods that belong to one controller are spread
//! over hosts and zones even if nobody asked, as kube-scheduler does by default.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    pod_counts::on_nodes,
    selectors::{labels_match, selects_node},
};
use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{
        LabelSelector, Name, NodeId, Operator, Pod, PodId, Requirement, TopologySpread,
        WhenUnsatisfiable,
    },
    session::{Fits, Session, Stays},
};

/// Filters by `DoNotSchedule`, scores by `ScheduleAnyway`.
#[derive(Debug)]
pub(super) struct PodTopologySpread;

/// One constraint and the pods it counts, by value of its label.
struct Domains<'a> {
    constraint: TopologySpread,
    counts: BTreeMap<&'a Name, i64>,
}

impl Filter for PodTopologySpread {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let constraints = &session.shape_of(pod).topology_spread;
        let hard: Vec<TopologySpread> = constraints
            .iter()
            .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule)
            .cloned()
            .collect();
        if hard.is_empty() {
            return None;
        }
        let shape = session.shape_of(pod);
        let counted: BTreeSet<NodeId> = session
            .node_ids()
            .filter(|node| selects_node(shape, session.node(*node)))
            .filter(|node| has_all_labels(session, *node, &hard))
            .collect();
        let domains = domains(session, pod, hard, &counted);
        let own = session.pod(pod);
        Some(Box::new(move |node| {
            domains.iter().try_for_each(|domains| domains.judge(session, own, node))?;
            Ok(Fits::Now)
        }))
    }
}

impl Domains<'_> {
    fn judge(&self, session: &Session<'_>, pod: &Pod, node: NodeId) -> Result<(), Misfit> {
        let labels = &session.node(node).labels;
        let value = labels.get(&self.constraint.topology_key);
        let value = value.ok_or(Misfit::TopologySpreadLabel)?;
        let enough = self.constraint.min_domains.is_none_or(|least| {
            i64::from(least) <= i64::try_from(self.counts.len()).unwrap_or(i64::MAX)
        });
        let least = if enough { self.counts.values().copied().min().unwrap_or(0) } else { 0 };
        let itself = i64::from(labels_match(self.constraint.selector.as_ref(), &pod.labels));
        let here = self.counts.get(value).copied().unwrap_or(0);
        if here + itself - least > i64::from(self.constraint.max_skew) {
            return Err(Misfit::TopologySpread);
        }
        Ok(())
    }
}

impl Domains<'_> {
    fn count(&mut self, session: &Session<'_>, pod: PodId, node: NodeId) {
        let matches = labels_match(self.constraint.selector.as_ref(), &session.pod(pod).labels);
        let value = session.node(node).labels.get(&self.constraint.topology_key);
        let count = value.and_then(|value| self.counts.get_mut(value));
        if let (true, Some(count)) = (matches, count) {
            *count += 1;
        }
    }

    fn score(&self, session: &Session<'_>, node: NodeId, weight: f64) -> f64 {
        let value = session.node(node).labels.get(&self.constraint.topology_key);
        let Some(value) = value else { return 0.0 };
        let here = self.counts.get(value).copied().unwrap_or(0);
        let here = f64::from(u32::try_from(here).unwrap_or(u32::MAX));
        here * weight + f64::from(self.constraint.max_skew) - 1.0
    }
}

fn has_all_labels(session: &Session<'_>, node: NodeId, constraints: &[TopologySpread]) -> bool {
    let labels = &session.node(node).labels;
    constraints.iter().all(|constraint| labels.contains_key(&constraint.topology_key))
}

/// The matching pods that stay, by constraint and domain, on the nodes of `counted`.
fn domains<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    constraints: Vec<TopologySpread>,
    counted: &BTreeSet<NodeId>,
) -> Vec<Domains<'a>> {
    let mut all: Vec<Domains<'a>> = constraints
        .into_iter()
        .map(|constraint| Domains { constraint, counts: BTreeMap::new() })
        .collect();
    for domains in &mut all {
        let key = &domains.constraint.topology_key;
        let values = counted.iter().filter_map(|node| session.node(*node).labels.get(key));
        domains.counts = values.map(|value| (value, 0)).collect();
    }
    let namespace = &session.pod(pod).namespace;
    for (other, node, stays) in on_nodes(session, session.pod_ids()) {
        let of_other = session.pod(other);
        let counts = other != pod && stays == Stays::Yes && of_other.namespace == *namespace;
        if !counts || !counted.contains(&node) {
            continue;
        }
        for domains in &mut all {
            domains.count(session, other, node);
        }
    }
    all
}

impl Score for PodTopologySpread {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        !soft_constraints(session, pod).is_empty()
    }

    fn pre_score<'a>(
        &self,
        session: &'a Session<'_>,
        pod: PodId,
        feasible: &[NodeId],
    ) -> NodeScore<'a> {
        let soft = soft_constraints(session, pod);
        let shape = session.shape_of(pod);
        let asked_for = !shape.topology_spread.is_empty();
        let counted: BTreeSet<NodeId> = session
            .node_ids()
            .filter(|node| selects_node(shape, session.node(*node)))
            .filter(|node| !asked_for || has_all_labels(session, *node, &soft))
            .collect();
        let all = domains(session, pod, soft, &counted);
        let weights: Vec<f64> = all
            .iter()
            .map(|domains| {
                let key = &domains.constraint.topology_key;
                let values = feasible.iter().filter_map(|at| session.node(*at).labels.get(key));
                domain_weight(values.collect::<BTreeSet<_>>().len())
            })
            .collect();
        Box::new(move |node| {
            if !counted.contains(&node) {
                return NOT_COUNTED;
            }
            let scores = all.iter().zip(&weights);
            let scores = scores.map(|(domains, weight)| domains.score(session, node, *weight));
            rounded(scores.sum())
        })
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let counted = || scores.iter().copied().filter(|score| *score != NOT_COUNTED);
        let (least, most) = (counted().min().unwrap_or(0), counted().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                NOT_COUNTED => 0,
                _ if most == 0 => 100,
                score => 100 * (most + least - score) / most,
            };
        }
    }
}

/// The score of a node that lacks a label of a constraint that the pod itself asked for.
const NOT_COUNTED: i64 = -1;

/// Domains weigh more the more there are of them: the logarithm of their number and two.
fn domain_weight(domains: usize) -> f64 {
    f64::from(u32::try_from(domains).unwrap_or(u32::MAX) + 2).ln()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are small; `as` saturates")]
fn rounded(score: f64) -> i64 {
    score.round() as i64
}

/// What the pod asks for; else, for pods of one controller, what kube-scheduler adds.
fn soft_constraints(session: &Session<'_>, pod: PodId) -> Vec<TopologySpread> {
    let constraints = &session.shape_of(pod).topology_spread;
    if constraints.is_empty() {
        return by_default(session.pod(pod));
    }
    let soft = constraints
        .iter()
        .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway);
    soft.cloned().collect()
}

/// Spread over hosts and zones, for pods of a ReplicaSet or StatefulSet. Those are known by
/// their hash label; their fellows are the pods with the same labels, less those that number
/// them. kube-scheduler reads the selectors of Services and controllers instead.
fn by_default(pod: &Pod) -> Vec<TopologySpread> {
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
    };
    vec![constraint("kubernetes.io/hostname", 3), constraint("topology.kubernetes.io/zone", 5)]
}
