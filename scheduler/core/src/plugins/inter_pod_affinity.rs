//! InterPodAffinity: pods that want to be near, or far from, others. Required terms filter,
//! those of pods that are there already included; preferred terms score, both ways.

use std::collections::BTreeSet;

use super::pod_counts::{PodCounts, on_nodes};
use crate::{
    decision::Misfit,
    framework::{Apart, DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{Name, NodeId, Pod, PodId, PodShape, PodStatus},
    session::{Fits, Session, Stays},
};

/// Filters by required, scores by preferred terms.
#[derive(Debug)]
pub(super) struct InterPodAffinity;

/// The score as KAI has it: weights as they add up, and who needs the pod that comes counts nothing.
#[derive(Debug)]
pub(super) struct PodAffinity;

impl Filter for InterPodAffinity {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn keeps_apart(&self) -> bool {
        true
    }

    fn parts<'a>(&self, session: &'a Session<'_>, (a, b): (PodId, PodId)) -> Vec<Apart<'a>> {
        let (of, namespaces) = (&session.pod(a).namespace, &session.snapshot.namespaces);
        let terms = session.shape_of(a).pod_anti_affinity.iter();
        let shunning = terms.filter(|term| term.selects(namespaces, of, session.pod(b)));
        shunning.map(|term| Apart::Label(&term.topology_key)).collect()
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let terms = Terms::of(session, pod);
        if terms.say_nothing() {
            return None;
        }
        Some(Box::new(move |node| terms.judge(session, node)))
    }
}

/// Where pods stand that matter to one pod.
struct Terms<'a> {
    shape: &'a PodShape,
    /// Those its affinity wants.
    wanted: PodCounts<'a>,
    /// It is the first of a series that wants each other.
    is_first: bool,
    /// Nobody whom its affinity wants is anywhere, and pods of its own gang are among them.
    wants_mates: bool,
    /// Those its anti-affinity shuns; staying, then leaving.
    shunned: [PodCounts<'a>; 2],
    /// Those whose anti-affinity shuns it; staying, then leaving.
    shunning: [PodCounts<'a>; 2],
    /// Labels over which others shun it.
    shunning_keys: BTreeSet<&'a Name>,
}

impl<'a> Terms<'a> {
    fn of(session: &'a Session<'_>, id: PodId) -> Self {
        let (pod, shape) = (session.pod(id), session.shape_of(id));
        let mut terms = Self {
            shape,
            wanted: PodCounts::default(),
            is_first: wants(session, shape, (pod, pod)),
            wants_mates: false,
            shunned: [PodCounts::default(), PodCounts::default()],
            shunning: [PodCounts::default(), PodCounts::default()],
            shunning_keys: BTreeSet::new(),
        };
        terms.count_wanted(session, id);
        terms.count_shunned(session, id);
        terms.count_shunning(session, id);
        terms.is_first &= terms.wanted.is_empty();
        terms.wants_mates = terms.wanted.is_empty() && wants_mates(session, (pod, shape));
        terms
    }

    fn count_wanted(&mut self, session: &'a Session<'_>, id: PodId) {
        let mut meant = self.shape.pod_affinity.iter().map(|term| session.meant_by(term, id));
        let Some(first) = meant.next() else { return };
        let rest: Vec<_> = meant.collect();
        let by_all = |pod: &PodId| rest.iter().all(|meant| meant.binary_search(pod).is_ok());
        let wanted = first.iter().copied().filter(|pod| *pod != id && by_all(pod));
        // Who would leave for this pod is gone when it comes; who is leaving anyway is still there.
        let is_leaving = |pod: PodId| session.pod(pod).status == PodStatus::Releasing;
        let there = on_nodes(session, wanted)
            .filter(|(pod, _, stays)| *stays == Stays::Yes || is_leaving(*pod));
        for (_, node, _) in there {
            for term in &self.shape.pod_affinity {
                self.wanted.add(session, (node, &term.topology_key), 1);
            }
        }
    }

    fn count_shunned(&mut self, session: &'a Session<'_>, id: PodId) {
        for term in &self.shape.pod_anti_affinity {
            let meant = session.meant_by(term, id);
            let shunned = meant.iter().copied().filter(|pod| *pod != id);
            for (_, node, stays) in on_nodes(session, shunned) {
                let at = usize::from(stays == Stays::No);
                self.shunned[at].add(session, (node, &term.topology_key), 1);
            }
        }
    }

    fn count_shunning(&mut self, session: &'a Session<'_>, id: PodId) {
        for (other, term) in session.minding(id).shunning.iter().filter(|(pod, _)| *pod != id) {
            let key = &session.shape_of(*other).pod_anti_affinity[*term].topology_key;
            for (_, node, stays) in on_nodes(session, std::iter::once(*other)) {
                let at = usize::from(stays == Stays::No);
                self.shunning[at].add(session, (node, key), 1);
                self.shunning_keys.insert(key);
            }
        }
    }

    fn say_nothing(&self) -> bool {
        let own = &self.shape;
        own.pod_affinity.is_empty()
            && own.pod_anti_affinity.is_empty()
            && self.shunning_keys.is_empty()
    }

    fn judge(&self, session: &Session<'_>, node: NodeId) -> Result<Fits, Misfit> {
        let near = self.shape.pod_affinity.iter().all(|term| {
            let count = self.wanted.of(session, node, &term.topology_key);
            count.is_some_and(|count| count > 0 || self.is_first)
        });
        if !near {
            let misfit =
                if self.wants_mates { Misfit::AffinityToMates } else { Misfit::PodAffinity };
            return Err(misfit);
        }
        let shunned_over = self.shape.pod_anti_affinity.iter().map(|term| &term.topology_key);
        let shunned_over: BTreeSet<&Name> = shunned_over.collect();
        let some = |counts: &PodCounts<'_>, keys: &BTreeSet<&Name>| {
            keys.iter().any(|key| counts.of(session, node, key).is_some_and(|count| count > 0))
        };
        if some(&self.shunned[0], &shunned_over) {
            return Err(Misfit::PodAntiAffinity);
        }
        if some(&self.shunning[0], &self.shunning_keys) {
            return Err(Misfit::OthersAntiAffinity);
        }
        let later =
            some(&self.shunning[1], &self.shunning_keys) || some(&self.shunned[1], &shunned_over);
        Ok(if later { Fits::Later } else { Fits::Now })
    }
}

/// `other` is what all affinity terms of `pod` want.
fn wants(session: &Session<'_>, shape: &PodShape, (of, other): (&Pod, &Pod)) -> bool {
    let (terms, namespaces) = (&shape.pod_affinity, &session.snapshot.namespaces);
    !terms.is_empty() && terms.iter().all(|term| term.selects(namespaces, &of.namespace, other))
}

/// A pod of its own gang, itself left out, is what its affinity wants.
fn wants_mates(session: &Session<'_>, (pod, shape): (&Pod, &PodShape)) -> bool {
    let is_mate = |other: &&Pod| {
        let waits = matches!(other.status, PodStatus::Pending | PodStatus::Gated);
        pod.group.is_some() && other.group == pod.group && other.uid != pod.uid && waits
    };
    let mut mates = session.snapshot.pods.iter().filter(is_mate);
    !shape.pod_affinity.is_empty() && mates.any(|mate| wants(session, shape, (pod, mate)))
}

/// What a required affinity of a pod that is there counts for one that comes.
#[derive(Clone, Copy)]
struct HardAffinityWeight(i64);

impl Score for InterPodAffinity {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        some_terms(session, pod, HardAffinityWeight(1))
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        sums_of_weights(session, pod, HardAffinityWeight(1))
    }

    fn normalize_score(&self, scores: &mut [i64]) {
        let least = scores.iter().copied().min().unwrap_or(0);
        let spread = scores.iter().copied().max().unwrap_or(0) - least;
        for score in scores {
            *score = if spread == 0 { 0 } else { percent(*score - least, spread) };
        }
    }
}

impl Score for PodAffinity {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn applies(&self, session: &Session<'_>, pod: PodId) -> bool {
        some_terms(session, pod, HardAffinityWeight(0))
    }

    fn pre_score<'a>(&self, session: &'a Session<'_>, pod: PodId, _: &[NodeId]) -> NodeScore<'a> {
        sums_of_weights(session, pod, HardAffinityWeight(0))
    }
}

fn some_terms(session: &Session<'_>, pod: PodId, hard: HardAffinityWeight) -> bool {
    let weights = weights(session, pod, hard);
    weights.iter().any(|(other, ..)| session.state(*other).places().next().is_some())
}

fn sums_of_weights<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    hard: HardAffinityWeight,
) -> NodeScore<'a> {
    let mut sums = PodCounts::default();
    let mut keys = BTreeSet::<&Name>::new();
    for (other, key, weight) in weights(session, pod, hard) {
        for (_, node, _) in on_nodes(session, std::iter::once(other)) {
            sums.add(session, (node, key), weight);
            keys.insert(key);
        }
    }
    Box::new(move |node| keys.iter().map(|key| sums.of(session, node, key).unwrap_or(0)).sum())
}

/// In floating point, as kube-scheduler has it: exact arithmetic would differ by one here and
/// there.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "sums of weights")]
fn percent(score: i64, of: i64) -> i64 {
    (100.0 * (score as f64 / of as f64)) as i64
}

/// The other pods that are meant by preferred terms of a pod that comes, or mean it by theirs, each
/// with the term's label and weight.
fn weights<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    hard: HardAffinityWeight,
) -> Vec<(PodId, &'a Name, i64)> {
    let mut weights = Vec::new();
    for (weight, term) in &session.shape_of(pod).pod_preferences {
        let meant = session.meant_by(term, pod);
        weights.extend(meant.iter().map(|other| (*other, &term.topology_key, (*weight).into())));
    }
    let minding = session.minding(pod);
    weights.extend(minding.preferring.iter().map(|(other, at)| {
        let (weight, term) = &session.shape_of(*other).pod_preferences[*at];
        (*other, &term.topology_key, i64::from(*weight))
    }));
    let needing = minding.needing.iter().filter(|_| hard.0 > 0);
    weights.extend(needing.map(|(other, at)| {
        let term = &session.shape_of(*other).pod_affinity[*at];
        (*other, &term.topology_key, hard.0)
    }));
    weights.retain(|(other, ..)| *other != pod);
    weights
}
