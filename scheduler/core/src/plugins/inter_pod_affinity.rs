//! InterPodAffinity: affinity and anti-affinity between pods. Required terms filter, including the
//! anti-affinity of existing pods; preferred terms of both sides score.

use std::collections::BTreeSet;

use super::pod_counts::{PodCounts, placements_of};
use crate::{
    framework::{
        ExclusionDomain, Filter, Fit, NodeFilter, NodePresence, NodeScore, ResultInputs, Score,
        Session,
    },
    model::{Name, NodeId, Pod, PodId, PodShape, PodStatus},
    reason::FitError,
};

/// Filters nodes by required pod affinity and anti-affinity, and scores nodes by preferred terms.
#[derive(Debug)]
pub(super) struct InterPodAffinity;

/// The pod affinity score of KAI: the plain sum of weights, without the required terms of existing
/// pods.
#[derive(Debug)]
pub(super) struct KaiPodAffinity;

impl Filter for InterPodAffinity {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn rejects_for_other_pods(&self) -> bool {
        true
    }

    fn exclusion_domains<'a>(
        &self,
        session: &'a Session<'_>,
        a: PodId,
        b: PodId,
    ) -> Vec<ExclusionDomain<'a>> {
        let (namespace, namespaces) = (&session.pod(a).namespace, &session.snapshot.namespaces);
        let terms = session.shape_of(a).pod_anti_affinity.iter();
        let matching = terms.filter(|term| term.selects_pod(namespaces, namespace, session.pod(b)));
        matching.map(|term| ExclusionDomain::Label(&term.topology_key)).collect()
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let own = session.shape_of(pod);
        let has_terms = !own.pod_affinity.is_empty() || !own.pod_anti_affinity.is_empty();
        if !has_terms && session.anti_affinity_pods().is_empty() {
            return None;
        }
        let terms = AffinityState::new(session, pod);
        if terms.is_empty() {
            return None;
        }
        Some(Box::new(move |node| terms.check_node(session, node)))
    }
}

/// For one pod: counts by topology domain of the pods that matter for its pod affinity.
struct AffinityState<'a> {
    shape: &'a PodShape,
    /// Counts of the pods that the pod's affinity terms select.
    affinity_matches: PodCounts<'a>,
    /// The pod matches its own affinity and no existing pod does: any node satisfies the affinity.
    matches_only_itself: bool,
    /// No pod with a node matches the pod's affinity, but pending pods of the same gang do.
    needs_gang_peer: bool,
    /// Counts of the pods that the pod's anti-affinity selects: staying pods, then terminating
    /// ones.
    anti_affinity_matches: [PodCounts<'a>; 2],
    /// Counts of the pods whose anti-affinity selects the pod: staying pods, then terminating ones.
    existing_anti_affinity: [PodCounts<'a>; 2],
    /// Topology keys of the anti-affinity terms of existing pods that select the pod.
    existing_anti_affinity_keys: BTreeSet<&'a Name>,
}

impl<'a> AffinityState<'a> {
    fn new(session: &'a Session<'_>, id: PodId) -> Self {
        let (pod, shape) = (session.pod(id), session.shape_of(id));
        let mut terms = Self {
            shape,
            affinity_matches: PodCounts::default(),
            matches_only_itself: affinity_selects(session, shape, pod, pod),
            needs_gang_peer: false,
            anti_affinity_matches: [PodCounts::default(), PodCounts::default()],
            existing_anti_affinity: [PodCounts::default(), PodCounts::default()],
            existing_anti_affinity_keys: BTreeSet::new(),
        };
        terms.count_affinity(session, id);
        terms.count_anti_affinity(session, id);
        terms.count_existing_anti_affinity(session, id);
        terms.matches_only_itself &= terms.affinity_matches.is_empty();
        terms.needs_gang_peer =
            terms.affinity_matches.is_empty() && affinity_selects_gang_peer(session, pod, shape);
        terms
    }

    fn count_affinity(&mut self, session: &'a Session<'_>, id: PodId) {
        let mut selected =
            self.shape.pod_affinity.iter().map(|term| session.pods_selected_by(term, id));
        let Some(first) = selected.next() else { return };
        let rest: Vec<_> = selected.collect();
        let by_all = |pod: &PodId| rest.iter().all(|selected| selected.binary_search(pod).is_ok());
        let matching = first.iter().copied().filter(|pod| *pod != id && by_all(pod));
        // A victim of this pod is gone when the pod starts; a pod that was leaving before is still
        // there.
        let is_leaving = |pod: PodId| session.pod(pod).status == PodStatus::Releasing;
        let existing = placements_of(session, matching)
            .filter(|(pod, _, stays)| *stays == NodePresence::Staying || is_leaving(*pod));
        for (_, node, _) in existing {
            for term in &self.shape.pod_affinity {
                self.affinity_matches.add_to_domain(session, node, &term.topology_key, 1);
            }
        }
    }

    fn count_anti_affinity(&mut self, session: &'a Session<'_>, id: PodId) {
        for term in &self.shape.pod_anti_affinity {
            let selected = session.pods_selected_by(term, id);
            let matching = selected.iter().copied().filter(|pod| *pod != id);
            for (_, node, stays) in placements_of(session, matching) {
                let at = usize::from(stays == NodePresence::Leaving);
                self.anti_affinity_matches[at].add_to_domain(session, node, &term.topology_key, 1);
            }
        }
    }

    fn count_existing_anti_affinity(&mut self, session: &'a Session<'_>, id: PodId) {
        for (other, term) in
            session.terms_selecting_pod(id).anti_affinity.iter().filter(|(pod, _)| *pod != id)
        {
            let key = &session.shape_of(*other).pod_anti_affinity[*term].topology_key;
            for (_, node, stays) in placements_of(session, std::iter::once(*other)) {
                let at = usize::from(stays == NodePresence::Leaving);
                self.existing_anti_affinity[at].add_to_domain(session, node, key, 1);
                self.existing_anti_affinity_keys.insert(key);
            }
        }
    }

    fn is_empty(&self) -> bool {
        let own = &self.shape;
        own.pod_affinity.is_empty()
            && own.pod_anti_affinity.is_empty()
            && self.existing_anti_affinity_keys.is_empty()
    }

    fn check_node(&self, session: &Session<'_>, node: NodeId) -> Result<Fit, FitError> {
        let has_affinity = self.shape.pod_affinity.iter().all(|term| {
            let count = self.affinity_matches.count_in_domain(session, node, &term.topology_key);
            count.is_some_and(|count| count > 0 || self.matches_only_itself)
        });
        if !has_affinity {
            let error = if self.needs_gang_peer {
                FitError::PodAffinityToOwnGang
            } else {
                FitError::PodAffinity
            };
            return Err(error);
        }
        let anti_affinity_keys = self.shape.pod_anti_affinity.iter().map(|term| &term.topology_key);
        let anti_affinity_keys: BTreeSet<&Name> = anti_affinity_keys.collect();
        let has_matches = |counts: &PodCounts<'_>, keys: &BTreeSet<&Name>| {
            keys.iter().any(|key| {
                counts.count_in_domain(session, node, key).is_some_and(|count| count > 0)
            })
        };
        if has_matches(&self.anti_affinity_matches[0], &anti_affinity_keys) {
            return Err(FitError::PodAntiAffinity);
        }
        if has_matches(&self.existing_anti_affinity[0], &self.existing_anti_affinity_keys) {
            return Err(FitError::ExistingPodsAntiAffinity);
        }
        let later = has_matches(&self.existing_anti_affinity[1], &self.existing_anti_affinity_keys)
            || has_matches(&self.anti_affinity_matches[1], &anti_affinity_keys);
        Ok(if later { Fit::Later } else { Fit::Now })
    }
}

/// Whether all affinity terms of `pod` select `other`.
fn affinity_selects(session: &Session<'_>, shape: &PodShape, pod: &Pod, other: &Pod) -> bool {
    let (terms, namespaces) = (&shape.pod_affinity, &session.snapshot.namespaces);
    !terms.is_empty()
        && terms.iter().all(|term| term.selects_pod(namespaces, &pod.namespace, other))
}

/// Whether the pod's required affinity selects another pending pod of its gang.
fn affinity_selects_gang_peer(session: &Session<'_>, pod: &Pod, shape: &PodShape) -> bool {
    let is_peer = |other: &&Pod| {
        let waits = matches!(other.status, PodStatus::Pending | PodStatus::Gated);
        pod.group.is_some() && other.group == pod.group && other.uid != pod.uid && waits
    };
    let mut peers = session.snapshot.pods.iter().filter(is_peer);
    !shape.pod_affinity.is_empty() && peers.any(|mate| affinity_selects(session, shape, pod, mate))
}

/// The weight that a required affinity term of an existing pod has in scores (kube-scheduler:
/// `hardPodAffinityWeight`).
#[derive(Clone, Copy)]
struct HardPodAffinityWeight(i64);

impl Score for InterPodAffinity {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        has_weighted_pods(session, pod, HardPodAffinityWeight(1))
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        weight_sum_score(session, pod, HardPodAffinityWeight(1))
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let min = scores.iter().copied().min().unwrap_or(0);
        let spread = scores.iter().copied().max().unwrap_or(0) - min;
        for score in scores {
            *score = if spread == 0 { 0 } else { percent_of(*score - min, spread) };
        }
    }
}

impl Score for KaiPodAffinity {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn applies_to_pod(&self, session: &Session<'_>, pod: PodId) -> bool {
        has_weighted_pods(session, pod, HardPodAffinityWeight(0))
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        weight_sum_score(session, pod, HardPodAffinityWeight(0))
    }
}

fn has_weighted_pods(session: &Session<'_>, pod: PodId, hard: HardPodAffinityWeight) -> bool {
    let weights = weights_by_pod(session, pod, hard);
    weights.iter().any(|(other, ..)| session.state(*other).nodes_with_presence().next().is_some())
}

fn weight_sum_score<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    hard: HardPodAffinityWeight,
) -> NodeScore<'a> {
    let mut sums = PodCounts::default();
    let mut keys = BTreeSet::<&Name>::new();
    for (other, key, weight) in weights_by_pod(session, pod, hard) {
        for (_, node, _) in placements_of(session, std::iter::once(other)) {
            sums.add_to_domain(session, node, key, weight);
            keys.insert(key);
        }
    }
    Box::new(move |node| {
        keys.iter().map(|key| sums.count_in_domain(session, node, key).unwrap_or(0)).sum()
    })
}

/// `score` in percent of `total`. In floating point, as in kube-scheduler: exact arithmetic would
/// differ by one in some cases.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "sums of weights")]
fn percent_of(score: i64, total: i64) -> i64 {
    (100.0 * (score as f64 / total as f64)) as i64
}

/// The pods that the preferred terms of the pod select, and the pods whose terms select the pod,
/// each with topology key and weight.
fn weights_by_pod<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    hard: HardPodAffinityWeight,
) -> Vec<(PodId, &'a Name, i64)> {
    let mut weights = Vec::new();
    for (weight, term) in &session.shape_of(pod).pod_preferences {
        let selected = session.pods_selected_by(term, pod);
        weights.extend(selected.iter().map(|other| (*other, &term.topology_key, (*weight).into())));
    }
    let terms = session.terms_selecting_pod(pod);
    weights.extend(terms.preferred.iter().map(|(other, at)| {
        let (weight, term) = &session.shape_of(*other).pod_preferences[*at];
        (*other, &term.topology_key, i64::from(*weight))
    }));
    let required = terms.required.iter().filter(|_| hard.0 > 0);
    weights.extend(required.map(|(other, at)| {
        let term = &session.shape_of(*other).pod_affinity[*at];
        (*other, &term.topology_key, hard.0)
    }));
    weights.retain(|(other, ..)| *other != pod);
    weights
}
