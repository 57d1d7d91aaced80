//! Which node is best for a pod. For shapes of which several pods come, the nodes on which they
//! fit are kept in order, and corrected for the nodes that changed since; where an answer
//! depends on more than the shape and one node, all nodes are looked at. Both ways choose the
//! same node.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fits, Mark, Session};
use crate::{
    decision::{Misfit, worst},
    framework::{DependsOn, NodeFilter, NodeScore, Ranking, Scoring, WaitingRoom},
    model::{NodeId, PodId, ShapeId},
};

/// A node on which a pod fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredNode {
    /// The node.
    pub node: NodeId,
    /// Weighted scores by plugin, in the order in which plugins are asked.
    pub scores: Vec<(String, i128)>,
}

/// What is known about shapes.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    shapes: BTreeMap<ShapeId, Known>,
}

#[derive(Clone, Debug)]
enum Known {
    /// A pod of it came once: keeping the nodes in order may not pay.
    SeenOnce,
    Ordered(Ordered),
}

/// Scores of a node in the order of their weight, each smaller for a better node.
type Rank = [i64; RANKS];
const RANKS: usize = 4;

/// The nodes on which pods of one shape fit.
#[derive(Clone, Debug)]
struct Ordered {
    known_until: Mark,
    /// May pods of the shape run there at all?
    eligible: Vec<bool>,
    ranks: Vec<Option<(Rank, Fits)>>,
    best_first: BTreeSet<(Rank, NodeId)>,
}

/// So many nodes are kept in order at most, summed over shapes.
const KEPT_MAX: usize = 1 << 20;

/// What filters say about one node, in their order.
pub type Verdicts = Vec<(String, Result<Fits, Misfit>)>;

impl Session<'_> {
    /// When the pod fits on the node, or why not.
    pub fn fits(&self, pod: PodId, node: NodeId) -> Result<Fits, Misfit> {
        all_pass(&self.filters(pod, |_| true), node)
    }

    /// Nodes on which pods of the shape of `pod` may run at all, whoever leaves.
    pub fn eligible_nodes(&self, pod: PodId) -> Vec<bool> {
        let filters = self.filters(pod, |depends_on| depends_on == DependsOn::Shape);
        self.node_ids().map(|node| all_pass(&filters, node).is_ok()).collect()
    }

    /// The same, and nodes that whoever runs the cluster could open to it.
    pub fn eligible_once_open(&self, pod: PodId) -> Vec<bool> {
        self.node_ids().map(self.once_open(pod)).collect()
    }

    /// The same for one node after the other.
    pub(super) fn once_open(&self, pod: PodId) -> impl Fn(NodeId) -> bool {
        let filters = self.filters(pod, |depends_on| depends_on == DependsOn::Shape);
        move |node| {
            let mut against = filters.iter().filter_map(|filter| filter(node).err());
            against.all(|misfit| misfit.is_of_closed_nodes())
        }
    }

    /// What stands most in the pod's way on nodes that refuse it, those first on which least does.
    pub fn worst_misfits(&self, pod: PodId) -> Vec<(NodeId, Misfit)> {
        let filters = self.filters(pod, |_| true);
        let mut refusing: Vec<(usize, NodeId, Misfit)> = Vec::new();
        for node in self.node_ids() {
            let against: Vec<Misfit> =
                filters.iter().filter_map(|filter| filter(node).err()).collect();
            if let Some((first, others)) = against.split_first() {
                refusing.push((against.len(), node, worst(first, others.iter().cloned())));
            }
        }
        refusing.sort_by_key(|(against, node, _)| (*against, *node));
        refusing.into_iter().map(|(_, node, worst)| (node, worst)).collect()
    }

    /// Nodes that nothing but what is used of them keeps the pod from.
    pub fn only_too_full(&self, pod: PodId) -> Vec<NodeId> {
        let filters = self.filters(pod, |_| true);
        let is_full = |node: NodeId| {
            let mut against = filters.iter().filter_map(|filter| filter(node).err());
            against.all(|misfit| misfit.is_too_full())
        };
        self.node_ids().filter(|node| is_full(*node)).collect()
    }

    /// Something speaks against the pod on each of these nodes, whoever leaves.
    pub(super) fn is_kept_from_all(
        &self,
        pod: PodId,
        mut nodes: impl Iterator<Item = NodeId>,
    ) -> bool {
        let filters = self.filters(pod, |_| true);
        let stays = |misfit: Misfit| !misfit.is_curable();
        let is_kept_from = |node| filters.iter().any(|filter| filter(node).is_err_and(stays));
        nodes.all(is_kept_from)
    }

    /// Those of `within`, or all.
    pub(super) fn nodes_among<'a>(
        &self,
        within: Option<&'a BTreeSet<NodeId>>,
    ) -> impl Iterator<Item = NodeId> + use<'a> {
        self.node_ids().filter(move |node| within.is_none_or(|nodes| nodes.contains(node)))
    }

    /// The best node for a waiting or moving pod, among `within` or all, and when it fits there.
    pub fn best_node(
        &mut self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fits)> {
        if !self.can_be_ordered(pod) {
            return self.best_of_all(pod, within);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let found = match candidates.ordered(self, pod) {
            Some(ordered) => ordered.best(self, pod, within),
            None => self.best_of_all(pod, within),
        };
        self.candidates = candidates;
        found
    }

    /// Whether there is a node for the pod depends on its shape and the room of nodes, nothing
    /// else: where a pod found none, an equal one finds none until somebody leaves.
    pub fn is_like_all_of_its_shape(&self, pod: PodId) -> bool {
        let placed = self.pod(pod).group.is_some_and(|group| self.group(group).is_placed());
        !placed && self.can_be_ordered(pod) && !self.depends_on_others(pod)
    }

    /// Whether there is a node for it depends on more than its shape and the room of that node.
    pub fn depends_on_others(&self, pod: PodId) -> bool {
        !self.filters(pod, |on| on == DependsOn::Cluster).is_empty()
    }

    /// The best node, found by looking at all of them.
    pub(super) fn best_of_all(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fits)> {
        let fitting = self.fitting(pod, within);
        let feasible: Vec<NodeId> = fitting.iter().map(|(node, _)| *node).collect();
        let scores = self.scores(pod, &feasible);
        let best = fitting.into_iter().zip(scores);
        best.max_by_key(|((node, _), score)| (*score, std::cmp::Reverse(*node))).map(|(it, _)| it)
    }

    /// The nodes on which the pod fits at once, each with its weighted score by every plugin.
    pub fn scored_nodes(&self, pod: PodId) -> Vec<ScoredNode> {
        let fitting = self.fitting(pod, None).into_iter();
        let now: Vec<NodeId> =
            fitting.filter(|(_, fits)| *fits == Fits::Now).map(|(node, _)| node).collect();
        let scored = |node: &NodeId| ScoredNode { node: *node, scores: Vec::new() };
        let mut nodes: Vec<ScoredNode> = now.iter().map(scored).collect();
        for (scoring, scores) in self.weighted_scores(pod, &now) {
            for (node, score) in nodes.iter_mut().zip(scores) {
                node.scores.push((format!("{:?}", scoring.plugin), score));
            }
        }
        nodes
    }

    /// What each filter that has a say answers about the pod on each node, by the filters' names.
    pub fn verdicts(&self, pod: PodId) -> Vec<Verdicts> {
        let filters = self.profile.plugins.filter.iter();
        let asked = filters
            .filter_map(|filter| Some((format!("{filter:?}"), filter.pre_filter(self, pod)?)));
        let asked: Vec<(String, NodeFilter<'_>)> = asked.collect();
        let of = |node| asked.iter().map(|(name, filter)| (name.clone(), filter(node))).collect();
        self.node_ids().map(of).collect()
    }

    /// Where it fits, and when.
    fn fitting(&self, pod: PodId, within: Option<&BTreeSet<NodeId>>) -> Vec<(NodeId, Fits)> {
        let filters = self.filters(pod, |_| true);
        let waits_for = |node: NodeId| match self.profile.plugins.waiting {
            WaitingRoom::AnyNode => true,
            WaitingRoom::NominatedNode => self.pod(pod).nominated == Some(node),
        };
        self.nodes_among(within)
            .filter_map(|node| all_pass(&filters, node).ok().map(|fits| (node, fits)))
            .filter(|(node, fits)| *fits == Fits::Now || waits_for(*node))
            .collect()
    }

    /// The weighted sum of normalized scores of each node.
    fn scores(&self, pod: PodId, feasible: &[NodeId]) -> Vec<i128> {
        let mut sums = vec![0; feasible.len()];
        for (_, scores) in self.weighted_scores(pod, feasible) {
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += score;
            }
        }
        sums
    }

    /// What each plugin that has a say gives to each node.
    fn weighted_scores<'a>(
        &'a self,
        pod: PodId,
        feasible: &'a [NodeId],
    ) -> impl Iterator<Item = (&'a Scoring, Vec<i128>)> + 'a {
        let scorings = self.profile.plugins.score.iter();
        scorings.filter(move |scoring| scoring.plugin.applies(self, pod)).map(move |scoring| {
            let score = scoring.plugin.pre_score(self, pod, feasible);
            let mut scores: Vec<i64> = feasible.iter().map(|node| score(*node)).collect();
            scoring.plugin.normalize_score(&mut scores);
            let weight = i128::from(scoring.weight);
            (scoring, scores.into_iter().map(|score| i128::from(score) * weight).collect())
        })
    }

    /// All that have a say about the pod.
    pub(super) fn all_filters(&self, pod: PodId) -> Vec<NodeFilter<'_>> {
        self.filters(pod, |_| true)
    }

    fn filters(&self, pod: PodId, wanted: impl Fn(DependsOn) -> bool) -> Vec<NodeFilter<'_>> {
        let filters = self.profile.plugins.filter.iter();
        let wanted = filters.filter(|filter| wanted(filter.depends_on()));
        wanted.filter_map(|filter| filter.pre_filter(self, pod)).collect()
    }

    fn filters_that_keep_apart(&self, pod: PodId) -> impl Iterator<Item = NodeFilter<'_>> {
        let filters = self.profile.plugins.filter.iter().filter(|filter| filter.keeps_apart());
        filters.filter_map(move |filter| filter.pre_filter(self, pod))
    }

    /// Where other pods are matters to it, whatever room they take.
    pub fn is_kept_apart(&self, pod: PodId) -> bool {
        self.filters_that_keep_apart(pod).next().is_some()
    }

    /// Where it is, or is promised to be, no other pod stands in its way.
    pub fn is_apart(&self, pod: PodId) -> bool {
        let Some(node) = self.state(pod).charged_on() else { return true };
        self.filters_that_keep_apart(pod).all(|filter| filter(node).is_ok())
    }

    /// No score about the pod depends on more than its shape and one node.
    fn can_be_ordered(&self, pod: PodId) -> bool {
        let plugins = &self.profile.plugins;
        let mut scores = plugins.score.iter().map(|scoring| &scoring.plugin);
        plugins.ranking == Ranking::Bands
            && plugins.waiting == WaitingRoom::AnyNode
            && scores
                .all(|score| score.depends_on() != DependsOn::Cluster || !score.applies(self, pod))
    }
}

/// `Later` as soon as one says so.
fn all_pass(filters: &[NodeFilter<'_>], node: NodeId) -> Result<Fits, Misfit> {
    filters.iter().try_fold(Fits::Now, |fits, filter| Ok(fits.max(filter(node)?)))
}

impl Candidates {
    /// The nodes for the shape of `pod`, in order and up to date; `None`: look at all.
    fn ordered(&mut self, session: &Session<'_>, pod: PodId) -> Option<&Ordered> {
        let shape = session.pod(pod).shape;
        let kept = self.shapes.len() * session.snapshot.nodes.len();
        match self.shapes.get(&shape) {
            None => {
                self.shapes.insert(shape, Known::SeenOnce);
                return None;
            }
            Some(Known::SeenOnce) => {
                if kept > KEPT_MAX {
                    self.shapes.retain(|_, known| matches!(known, Known::SeenOnce));
                }
                let ordered = Ordered::new(session, pod);
                self.shapes.insert(shape, Known::Ordered(ordered));
            }
            Some(Known::Ordered(_)) => {}
        }
        match self.shapes.get_mut(&shape) {
            Some(Known::Ordered(ordered)) => {
                ordered.catch_up(session, pod);
                Some(ordered)
            }
            Some(Known::SeenOnce) | None => None,
        }
    }
}

impl Ordered {
    fn new(session: &Session<'_>, pod: PodId) -> Self {
        let mut ordered = Self {
            known_until: session.changed_nodes().mark(),
            eligible: session.eligible_nodes(pod),
            ranks: vec![None; session.snapshot.nodes.len()],
            best_first: BTreeSet::new(),
        };
        ordered.look_at_all(session, pod);
        ordered
    }

    fn catch_up(&mut self, session: &Session<'_>, pod: PodId) {
        let changed = session.changed_nodes();
        let mark = changed.mark();
        match changed.since(self.known_until) {
            Some(nodes) if nodes.len() < self.ranks.len() => {
                let judge = Judge::new(session, pod);
                for again in nodes.chunk_by(|a, b| a == b) {
                    self.look_at(&judge, again[0]);
                }
            }
            Some(_) | None => self.look_at_all(session, pod),
        }
        self.known_until = mark;
    }

    fn look_at_all(&mut self, session: &Session<'_>, pod: PodId) {
        let judge = Judge::new(session, pod);
        for node in session.node_ids() {
            let eligible = self.eligible[node.0 as usize];
            self.ranks[node.0 as usize] = eligible.then(|| judge.judge(node)).flatten();
        }
        let ranked = session.node_ids().zip(&self.ranks);
        self.best_first =
            ranked.filter_map(|(node, rank)| rank.map(|(rank, _)| (rank, node))).collect();
    }

    fn look_at(&mut self, judge: &Judge<'_>, node: NodeId) {
        let at = node.0 as usize;
        if !self.eligible[at] {
            return;
        }
        let after = judge.judge(node);
        let before = std::mem::replace(&mut self.ranks[at], after);
        if before.map(|(rank, _)| rank) == after.map(|(rank, _)| rank) {
            return;
        }
        if let Some((rank, _)) = before {
            self.best_first.remove(&(rank, node));
        }
        if let Some((rank, _)) = after {
            self.best_first.insert((rank, node));
        }
    }

    /// The first in order that nothing speaks against.
    fn best(
        &self,
        session: &Session<'_>,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fits)> {
        let filters = session.filters(pod, |depends_on| depends_on == DependsOn::Cluster);
        let passes = |node: NodeId| {
            let (_, fits) = self.ranks[node.0 as usize]?;
            all_pass(&filters, node).ok().map(|others| (node, fits.max(others)))
        };
        let Some(within) = within else {
            return self.best_first.iter().find_map(|(_, node)| passes(*node));
        };
        let ranked = within.iter().filter_map(|node| {
            let (rank, _) = self.ranks[node.0 as usize]?;
            Some((rank, *node))
        });
        let mut ranked: Vec<(Rank, NodeId)> = ranked.collect();
        if filters.is_empty() {
            return passes(ranked.into_iter().min()?.1);
        }
        ranked.sort_unstable();
        ranked.into_iter().find_map(|(_, node)| passes(node))
    }
}

/// What decides about nodes for pods of one shape.
struct Judge<'a> {
    filters: Vec<NodeFilter<'a>>,
    scores: Vec<NodeScore<'a>>,
}

impl<'a> Judge<'a> {
    fn new(session: &'a Session<'_>, pod: PodId) -> Self {
        let scores = session.profile.plugins.score.iter().map(|scoring| &scoring.plugin);
        let scores: Vec<NodeScore<'a>> = scores
            .filter(|score| score.applies(session, pod))
            .map(|score| score.pre_score(session, pod, &[]))
            .collect();
        debug_assert!(scores.len() <= RANKS, "a rank has {RANKS} places");
        Self { filters: session.filters(pod, |on| on == DependsOn::Room), scores }
    }

    fn judge(&self, node: NodeId) -> Option<(Rank, Fits)> {
        let fits = all_pass(&self.filters, node).ok()?;
        let mut rank = [0; RANKS];
        for (place, score) in rank.iter_mut().zip(&self.scores) {
            *place = -score(node);
        }
        Some((rank, fits))
    }
}
