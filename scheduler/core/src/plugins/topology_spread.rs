//! PodTopologySpread: equal pods stand in equal numbers in all domains of a label. What must
//! not be broken filters; what may be, scores. Pods that belong to one controller are spread
//! over hosts and zones even if nobody asked, as kube-scheduler does by default.

use std::collections::{BTreeMap, BTreeSet};

use super::{pod_counts::on_nodes, taint_toleration::repels};
use crate::{
    decision::Misfit,
    framework::{DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{
        Inclusion, LabelSelector, Name, NodeId, Operator, Pod, PodId, Requirement, TopologySpread,
        WhenUnsatisfiable, labels_match,
    },
    session::{Fits, Session, Stays},
};

const HOST: &str = "kubernetes.io/hostname";

/// Filters by `DoNotSchedule`, scores by `ScheduleAnyway`.
#[derive(Debug)]
pub(super) struct PodTopologySpread;

/// One constraint and the pods it counts.
struct Domains<'a> {
    constraint: TopologySpread,
    /// By node, as far as there are any.
    on_node: BTreeMap<NodeId, i64>,
    /// By value of the constraint's label.
    counts: BTreeMap<&'a str, i64>,
}

impl<'a> Domains<'a> {
    /// The pods that count on each node; no domain is known yet.
    fn new(session: &Session<'_>, pod: PodId, constraint: TopologySpread) -> Self {
        let mut on_node: BTreeMap<NodeId, i64> = BTreeMap::new();
        // An empty selector selects all pods, but kube-scheduler counts none by it.
        let selector = constraint.selector.as_ref();
        let selector = selector.filter(|selector| !selector.requirements.is_empty());
        let meant = session.meant_in(&session.pod(pod).namespace, selector);
        let others = meant.iter().copied().filter(|other| *other != pod);
        for (_, node, _) in on_nodes(session, others).filter(|(.., stays)| *stays == Stays::Yes) {
            *on_node.entry(node).or_default() += 1;
        }
        Self { constraint, on_node, counts: BTreeMap::new() }
    }

    fn value(&self, session: &'a Session<'_>, node: NodeId) -> Option<&'a str> {
        session.node(node).labels.get(&self.constraint.topology_key).map(|value| &**value)
    }

    /// The constraint counts the pods of this node.
    fn includes(&self, session: &Session<'_>, pod: PodId, node: NodeId) -> bool {
        let (shape, of) = (session.shape_of(pod), session.node(node));
        let selected = match self.constraint.node_affinity_policy {
            Inclusion::Honor => shape.selects(of),
            Inclusion::Ignore => true,
        };
        let tolerated = match self.constraint.node_taints_policy {
            Inclusion::Honor => !repels(&of.taints, &shape.tolerations),
            Inclusion::Ignore => true,
        };
        selected && tolerated
    }

    /// Counts the pods on these nodes, by domain.
    fn count(&mut self, session: &'a Session<'_>, pod: PodId, nodes: &[NodeId]) {
        for node in nodes {
            let value = self.value(session, *node);
            if let Some(value) = value.filter(|_| self.includes(session, pod, *node)) {
                *self.counts.entry(value).or_default() += self.here(*node);
            }
        }
    }

    fn here(&self, node: NodeId) -> i64 {
        self.on_node.get(&node).copied().unwrap_or(0)
    }

    fn judge(&self, session: &'a Session<'_>, pod: &Pod, node: NodeId) -> Result<(), Misfit> {
        let key = || Name::clone(&self.constraint.topology_key);
        let value = self.value(session, node);
        let value = value.ok_or_else(|| Misfit::TopologySpreadLabel(key()))?;
        let least = self.counts.values().copied().min().unwrap_or(0);
        let itself = i64::from(labels_match(self.constraint.selector.as_ref(), &pod.labels));
        let here = self.counts.get(value).copied().unwrap_or(0);
        let is_uneven = |least| here + itself - least > i64::from(self.constraint.max_skew);
        if is_uneven(least) {
            return Err(Misfit::TopologySpread(key()));
        }
        // The least count is nothing where there are fewer domains than there have to be.
        match self.too_few_domains() {
            Some((domains, least)) if is_uneven(0) => {
                Err(Misfit::TooFewDomains { key: key(), domains, least })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How many domains there are, and how many there have to be, if that is more.
    fn too_few_domains(&self) -> Option<(u32, u32)> {
        let domains = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
        let least = u32::try_from(self.constraint.min_domains?).unwrap_or(0);
        (domains < least).then_some((domains, least))
    }
}

impl Filter for PodTopologySpread {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let constraints = session.shape_of(pod).topology_spread.iter();
        let hard = constraints
            .filter(|constraint| constraint.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule);
        let mut all: Vec<Domains<'a>> =
            hard.map(|constraint| Domains::new(session, pod, constraint.clone())).collect();
        if all.is_empty() {
            return None;
        }
        let nodes: Vec<NodeId> =
            session.node_ids().filter(|node| has_all_labels(session, *node, &all)).collect();
        for domains in &mut all {
            domains.count(session, pod, &nodes);
        }
        let own = session.pod(pod);
        Some(Box::new(move |node| {
            all.iter().try_for_each(|domains| domains.judge(session, own, node))?;
            Ok(Fits::Now)
        }))
    }
}

fn has_all_labels(session: &Session<'_>, node: NodeId, all: &[Domains<'_>]) -> bool {
    let labels = &session.node(node).labels;
    all.iter().all(|domains| labels.contains_key(&domains.constraint.topology_key))
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
        let constraints = soft_constraints(session, pod).into_iter();
        let mut all: Vec<Domains<'a>> =
            constraints.map(|constraint| Domains::new(session, pod, constraint)).collect();
        // Constraints that nobody asked for leave nodes without a zone in.
        let asked_for = !session.shape_of(pod).topology_spread.is_empty();
        let is_in =
            |node: NodeId, all: &[Domains<'_>]| !asked_for || has_all_labels(session, node, all);
        let scored: BTreeSet<NodeId> =
            feasible.iter().copied().filter(|node| is_in(*node, &all)).collect();
        let counted: Vec<NodeId> = session.node_ids().filter(|node| is_in(*node, &all)).collect();
        let mut weights = Vec::new();
        for domains in &mut all {
            weights.push(domains.open(session, pod, &scored, &counted));
        }
        Box::new(move |node| {
            if !scored.contains(&node) {
                return NOT_COUNTED;
            }
            let weighed = all.iter().zip(&weights);
            rounded(weighed.map(|(domains, weight)| domains.score(session, node, *weight)).sum())
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

impl<'a> Domains<'a> {
    /// Counts the pods of the domains in which nodes are scored; answers what a pod weighs.
    fn open(
        &mut self,
        session: &'a Session<'_>,
        pod: PodId,
        scored: &BTreeSet<NodeId>,
        counted: &[NodeId],
    ) -> f64 {
        if &*self.constraint.topology_key == HOST {
            return domain_weight(scored.len());
        }
        for node in scored {
            self.counts.insert(self.value(session, *node).unwrap_or_default(), 0);
        }
        for node in counted {
            let value = self.value(session, *node).unwrap_or_default();
            if self.counts.contains_key(value) && self.includes(session, pod, *node) {
                *self.counts.entry(value).or_default() += self.here(*node);
            }
        }
        domain_weight(self.counts.len())
    }

    fn score(&self, session: &'a Session<'_>, node: NodeId, weight: f64) -> f64 {
        let Some(value) = self.value(session, node) else { return 0.0 };
        let here = match &*self.constraint.topology_key {
            HOST => self.here(node),
            _ => self.counts.get(value).copied().unwrap_or(0),
        };
        let here = f64::from(u32::try_from(here).unwrap_or(u32::MAX));
        here * weight + f64::from(self.constraint.max_skew) - 1.0
    }
}

/// Domains weigh more the more there are of them: the logarithm of their number and two.
fn domain_weight(domains: usize) -> f64 {
    f64::from(u32::try_from(domains).unwrap_or(u32::MAX).saturating_add(2)).ln()
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
        node_affinity_policy: Inclusion::Honor,
        node_taints_policy: Inclusion::Ignore,
    };
    vec![constraint(HOST, 3), constraint("topology.kubernetes.io/zone", 5)]
}
