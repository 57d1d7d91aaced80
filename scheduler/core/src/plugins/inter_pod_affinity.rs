//! InterPodAffinity: pods that want to be near, or far from, others. Required terms filter,
//! those of pods that are there already included; preferred terms score, both ways.

use std::collections::BTreeSet;

use super::{
    pod_counts::{PodCounts, on_nodes},
    selectors::term_selects,
};
use crate::{
    decision::Misfit,
    framework::{Apart, DependsOn, Filter, NodeFilter, NodeScore, Score},
    model::{Name, NodeId, Pod, PodAffinityTerm, PodId, PodShape, PodStatus},
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
        let (pair, namespaces) = ((session.pod(a), session.pod(b)), &session.snapshot.namespaces);
        let terms = session.shape_of(a).pod_anti_affinity.iter();
        let shunning = terms.filter(|term| term_selects(term, namespaces, pair));
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
        let shunning = session.shunning_pods().iter().copied().filter(|other| *other != id);
        for (other, node, stays) in on_nodes(session, shunning) {
            terms.note_shunning(session, pod, (other, node, stays));
        }
        if !shape.pod_affinity.is_empty() || !shape.pod_anti_affinity.is_empty() {
            let others = session.pod_ids().filter(|other| *other != id);
            for (other, node, stays) in on_nodes(session, others) {
                terms.note(session, pod, (other, node, stays));
            }
        }
        terms.is_first &= terms.wanted.is_empty();
        terms.wants_mates = terms.wanted.is_empty() && wants_mates(session, (pod, shape));
        terms
    }

    fn note(
        &mut self,
        session: &'a Session<'_>,
        pod: &Pod,
        (other, node, stays): (PodId, NodeId, Stays),
    ) {
        let (of_other, shape) = (session.pod(other), self.shape);
        // Who would leave for this pod is gone when it comes; who is leaving anyway is still there.
        let leaves_for_others = stays == Stays::No && of_other.status != PodStatus::Releasing;
        if !leaves_for_others && wants(session, shape, (pod, of_other)) {
            for term in &shape.pod_affinity {
                self.wanted.add(session, (node, &term.topology_key), 1);
            }
        }
        let (at, namespaces) = (usize::from(stays == Stays::No), &session.snapshot.namespaces);
        for term in &shape.pod_anti_affinity {
            if term_selects(term, namespaces, (pod, of_other)) {
                self.shunned[at].add(session, (node, &term.topology_key), 1);
            }
        }
    }

    fn note_shunning(
        &mut self,
        session: &'a Session<'_>,
        pod: &Pod,
        (other, node, stays): (PodId, NodeId, Stays),
    ) {
        let (at, namespaces) = (usize::from(stays == Stays::No), &session.snapshot.namespaces);
        for term in &session.shape_of(other).pod_anti_affinity {
            if term_selects(term, namespaces, (session.pod(other), pod)) {
                self.shunning[at].add(session, (node, &term.topology_key), 1);
                self.shunning_keys.insert(&term.topology_key);
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
fn wants(session: &Session<'_>, shape: &PodShape, pair: (&Pod, &Pod)) -> bool {
    let (terms, namespaces) = (&shape.pod_affinity, &session.snapshot.namespaces);
    !terms.is_empty() && terms.iter().all(|term| term_selects(term, namespaces, pair))
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
    let mut others = on_nodes(session, others_that_matter(session, pod));
    others.any(|(other, ..)| terms_between(session, (pod, other), hard).next().is_some())
}

fn sums_of_weights<'a>(
    session: &'a Session<'_>,
    pod: PodId,
    hard: HardAffinityWeight,
) -> NodeScore<'a> {
    let mut sums = PodCounts::default();
    let mut keys = BTreeSet::<&Name>::new();
    for (other, node, _) in on_nodes(session, others_that_matter(session, pod)) {
        for (term, weight) in terms_between(session, (pod, other), hard) {
            sums.add(session, (node, &term.topology_key), weight);
            keys.insert(&term.topology_key);
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

/// All others when the pod itself has preferences, else those that have some.
fn others_that_matter<'a>(
    session: &'a Session<'_>,
    pod: PodId,
) -> Box<dyn Iterator<Item = PodId> + 'a> {
    let others = move |other: &PodId| *other != pod;
    if session.shape_of(pod).pod_preferences.is_empty() {
        Box::new(session.preferring_pods().iter().copied().filter(others))
    } else {
        Box::new(session.pod_ids().filter(others))
    }
}

/// Terms of a pod that comes which select one that is there, and the other way round, with
/// their weights.
fn terms_between<'a>(
    session: &'a Session<'_>,
    (comes, is_there): (PodId, PodId),
    hard: HardAffinityWeight,
) -> impl Iterator<Item = (&'a PodAffinityTerm, i64)> {
    let (new, old) = (session.pod(comes), session.pod(is_there));
    let namespaces = &session.snapshot.namespaces;
    let mine = session.shape_of(comes).pod_preferences.iter();
    let mine = mine.filter(move |(_, term)| term_selects(term, namespaces, (new, old)));
    let theirs = session.shape_of(is_there).pod_preferences.iter();
    let theirs = theirs.filter(move |(_, term)| term_selects(term, namespaces, (old, new)));
    let needs = session.shape_of(is_there).pod_affinity.iter();
    let needs = needs.filter(move |term| term_selects(term, namespaces, (old, new)));
    let preferences = mine.chain(theirs).map(|(weight, term)| (term, i64::from(*weight)));
    preferences.chain(needs.map(move |term| (term, hard.0)).filter(|(_, weight)| *weight > 0))
}
