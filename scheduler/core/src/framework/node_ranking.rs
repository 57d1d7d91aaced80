//! The best node for a pod. For shapes with several pending pods the feasible nodes are kept ranked
//! and updated for changed nodes; when a result depends on more than the shape and one node, all
//! nodes are scanned. Both ways choose the same node.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    ChangeCursor, Fit, NodeFilter, NodeScore, PipelinePolicy, Ranking, ResultInputs, Scoring,
    Session, Statement,
};
use crate::{
    model::{NodeId, PodId, ShapeId},
    reason::{FitError, worst_fit_error},
};

/// A node on which a pod fits, with its scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoredNode {
    /// The node on which the pod fits.
    pub node: NodeId,
    /// Weighted scores by plugin, in plugin order.
    pub scores: Vec<(String, i128)>,
}

/// How nodes are compared at present, besides the plugins' scores.
#[derive(Clone, Debug, Default)]
pub(super) struct NodePreferences {
    looks_ahead: bool,
    /// Whether pods may be pipelined to any node. Overrides the profile.
    pipelines_anywhere: bool,
    /// While pods are placed in a topology domain: the preferred nodes of that domain with the size
    /// of the preference.
    pub(super) nodes: Option<BTreeMap<NodeId, i64>>,
}

/// Kept node rankings, by pod shape.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeRankings {
    shapes: BTreeMap<ShapeId, ShapeRanking>,
}

#[derive(Clone, Debug)]
enum ShapeRanking {
    /// One pod of the shape was placed so far: keeping a ranking may not pay off.
    SeenOnce,
    Ranked(RankedNodes),
}

/// Scores of a node, most important first; negated, so that the smallest rank is best.
type NodeRank = [i64; RANK_SCORES_MAX];
const RANK_SCORES_MAX: usize = 4;

/// The feasible nodes for pods of one shape, ranked.
#[derive(Clone, Debug)]
struct RankedNodes {
    updated_to: ChangeCursor,
    /// For each node, whether pods of the shape may run on it at all.
    eligible: Arc<[bool]>,
    ranks: Vec<Option<(NodeRank, Fit)>>,
    best_first: BTreeSet<(NodeRank, NodeId)>,
}

/// Maximum number of node entries that are kept ranked, summed over all shapes.
const RANKED_NODES_MAX: usize = 1 << 20;

/// The result of each filter for one node, with the plugin's name, in plugin order.
pub type FilterResults = Vec<(String, Result<Fit, FitError>)>;

impl Statement<'_> {
    /// Sets whether nodes are compared by their capacity after all releases (`true`), or nodes
    /// where a pod fits now come first. A pod pipelined with look-ahead keeps its capacity only if
    /// the next cycle, which finds that capacity free, chooses the same node.
    pub fn set_look_ahead(&mut self, ahead: bool) {
        self.session.preferences.looks_ahead = ahead;
        self.session.caches.rankings.take();
    }

    /// Whether pods may be pipelined to any node, for a gang whose victims are chosen with its
    /// nodes, or as the profile says.
    pub(crate) fn set_pipelines_anywhere(&mut self, anywhere: bool) {
        self.session.preferences.pipelines_anywhere = anywhere;
    }
}

impl Session<'_> {
    /// Whether nodes are compared by their capacity after all releases.
    pub const fn looks_ahead(&self) -> bool {
        self.preferences.looks_ahead
    }

    /// Preferred nodes for the pods that are being placed, with the size of the preference.
    pub const fn preferred_nodes(&self) -> Option<&BTreeMap<NodeId, i64>> {
        self.preferences.nodes.as_ref()
    }

    /// Runs all filters: when the pod fits on the node, or why not.
    ///
    /// # Errors
    ///
    /// The first reason by which a Filter plugin rejects the node for the pod.
    pub fn fit(&self, pod: PodId, node: NodeId) -> Result<Fit, FitError> {
        run_filters(&self.selected_filters(pod, |_| true), node)
    }

    /// For each node, whether pods of this shape may run on it at all, whichever pods leave.
    pub fn eligible_nodes(&self, pod: PodId) -> Arc<[bool]> {
        let shape = self.pod(pod).shape;
        if let Some(known) = self.caches.eligible_nodes.borrow().get(&shape) {
            return Arc::clone(known);
        }
        let filters = self.selected_filters(pod, |depends_on| depends_on == ResultInputs::Shape);
        let eligible: Arc<[bool]> =
            self.node_ids().map(|node| run_filters(&filters, node).is_ok()).collect();
        self.caches.eligible_nodes.borrow_mut().insert(shape, Arc::clone(&eligible));
        eligible
    }

    /// Like [`Self::eligible_nodes`]; nodes that an operator could open (uncordon, untaint or
    /// label) count as eligible.
    pub fn eligible_nodes_if_opened(&self, pod: PodId) -> Arc<[bool]> {
        self.node_ids().map(self.is_eligible_if_opened(pod)).collect()
    }

    /// Like [`Self::eligible_nodes_if_opened`], as a function of one node.
    pub(super) fn is_eligible_if_opened(&self, pod: PodId) -> impl Fn(NodeId) -> bool {
        let filters = self.selected_filters(pod, |depends_on| depends_on == ResultInputs::Shape);
        move |node| {
            let mut errors = filters.iter().filter_map(|filter| filter(node).err());
            errors.all(|fit_error| fit_error.is_node_closed())
        }
    }

    /// The worst error of each node that rejects the pod; nodes with the fewest errors first.
    pub fn worst_fit_errors_by_node(&self, pod: PodId) -> Vec<(NodeId, FitError)> {
        let filters = self.selected_filters(pod, |_| true);
        let mut refusing: Vec<(usize, NodeId, FitError)> = Vec::new();
        for node in self.node_ids() {
            let errors: Vec<FitError> =
                filters.iter().filter_map(|filter| filter(node).err()).collect();
            if let Some((first, others)) = errors.split_first() {
                refusing.push((errors.len(), node, worst_fit_error(first, others.iter().cloned())));
            }
        }
        refusing.sort_by_key(|(errors, node, _)| (*errors, *node));
        refusing.into_iter().map(|(_, node, worst)| (node, worst)).collect()
    }

    /// Nodes that reject the pod only because they lack free capacity.
    pub fn nodes_that_are_only_too_full(&self, pod: PodId) -> Vec<NodeId> {
        if self.fit_depends_on_shape_only(pod) {
            return self.full_nodes_of_shape(pod);
        }
        let filters = self.selected_filters(pod, |_| true);
        let is_full = |node: NodeId| {
            let mut errors = filters.iter().filter_map(|filter| filter(node).err());
            errors.all(|fit_error| fit_error.is_node_too_full())
        };
        self.node_ids().filter(|node| is_full(*node)).collect()
    }

    /// Whether each of the nodes has an error that no eviction resolves.
    pub(super) fn is_unresolvable_on_all(
        &self,
        pod: PodId,
        mut nodes: impl Iterator<Item = NodeId>,
    ) -> bool {
        let filters = self.selected_filters(pod, |_| true);
        let stays = |fit_error: FitError| !fit_error.is_resolvable_by_eviction();
        let is_kept_from = |node| filters.iter().any(|filter| filter(node).is_err_and(stays));
        nodes.all(is_kept_from)
    }

    /// The nodes of `within`; all nodes if it is `None`.
    pub(super) fn nodes_within<'a>(
        &self,
        within: Option<&'a BTreeSet<NodeId>>,
    ) -> impl Iterator<Item = NodeId> + use<'a> {
        let all = within.is_none().then(|| self.node_ids());
        all.into_iter().flatten().chain(within.into_iter().flatten().copied())
    }

    /// The best node for a pending or moving pod, `within` a set of nodes or among all, and when
    /// the pod fits there.
    pub fn best_node(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fit)> {
        if !self.can_keep_ranking(pod) {
            return self.best_node_by_scan(pod, within);
        }
        let mut candidates = self.caches.rankings.take();
        let found = match candidates.ranked_nodes(self, pod) {
            Some(ordered) => ordered.best_accepted_node(self, pod, within),
            None => self.best_node_by_scan(pod, within),
        };
        self.caches.rankings.replace(candidates);
        found
    }

    /// Whether the pod's fit depends only on its shape and on the capacity of nodes. If such a pod
    /// fits on no node, no pod of the same shape fits until some pod leaves.
    pub fn fit_depends_on_shape_only(&self, pod: PodId) -> bool {
        let placed =
            self.pod(pod).group.is_some_and(|group| self.group(group).has_topology_constraint());
        !placed && self.can_keep_ranking(pod) && !self.fit_depends_on_cluster(pod)
    }

    /// Whether a pod that fits on no node of a placement shows that no other pod of its shape fits
    /// there until some pod leaves.
    pub(super) fn fit_is_same_for_shape(&self, pod: PodId) -> bool {
        self.pod(pod).nominated_node.is_none() && !self.fit_depends_on_cluster(pod)
    }

    /// Whether the pod's fit depends on more than its shape and the node's capacity, such as on
    /// pods of other nodes.
    pub fn fit_depends_on_cluster(&self, pod: PodId) -> bool {
        !self.selected_filters(pod, |on| on == ResultInputs::Cluster).is_empty()
    }

    /// Finds the best node by filtering and scoring all nodes, without a kept ranking.
    pub(super) fn best_node_by_scan(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fit)> {
        let fitting = self.feasible_nodes(pod, within);
        let feasible: Vec<NodeId> = fitting.iter().map(|(node, _)| *node).collect();
        let scores = self.total_scores(pod, &feasible);
        let best = fitting.into_iter().zip(scores);
        best.max_by_key(|((node, _), score)| (*score, std::cmp::Reverse(*node))).map(|(it, _)| it)
    }

    /// The nodes on which the pod fits now, each with its weighted scores.
    pub fn scored_nodes(&self, pod: PodId) -> Vec<ScoredNode> {
        self.scored_nodes_within(pod, None)
    }

    /// Like [`Self::scored_nodes`], `within` a set of nodes or among all.
    pub fn scored_nodes_within(
        &self,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Vec<ScoredNode> {
        let fitting = self.feasible_nodes(pod, within).into_iter();
        let now: Vec<NodeId> =
            fitting.filter(|(_, fits)| *fits == Fit::Now).map(|(node, _)| node).collect();
        let scored = |node: &NodeId| ScoredNode { node: *node, scores: Vec::new() };
        let mut nodes: Vec<ScoredNode> = now.iter().map(scored).collect();
        for (scoring, scores) in self.weighted_scores(pod, &now) {
            for (node, score) in nodes.iter_mut().zip(scores) {
                node.scores.push((format!("{:?}", scoring.plugin), score));
            }
        }
        nodes
    }

    /// The results of all filters for the pod, one list per node.
    pub fn filter_results(&self, pod: PodId) -> Vec<FilterResults> {
        let filters = self.profile.plugins.filter.iter();
        let applicable = filters
            .filter_map(|filter| Some((format!("{filter:?}"), filter.pre_filter(self, pod)?)));
        let applicable: Vec<(String, NodeFilter<'_>)> = applicable.collect();
        let of =
            |node| applicable.iter().map(|(name, filter)| (name.clone(), filter(node))).collect();
        self.node_ids().map(of).collect()
    }

    /// The nodes on which the pod fits, each with when it fits.
    fn feasible_nodes(&self, pod: PodId, within: Option<&BTreeSet<NodeId>>) -> Vec<(NodeId, Fit)> {
        let eligible = self.eligible_nodes(pod);
        let filters = self.selected_filters(pod, |on| on != ResultInputs::Shape);
        let waits_for = |node: NodeId| match self.profile.plugins.pipeline_policy {
            PipelinePolicy::AnyNode => true,
            PipelinePolicy::NominatedNode if self.preferences.pipelines_anywhere => true,
            PipelinePolicy::NominatedNode => self.pod(pod).nominated_node == Some(node),
        };
        self.nodes_within(within)
            .filter(|node| eligible[node.0 as usize])
            .filter_map(|node| run_filters(&filters, node).ok().map(|fits| (node, fits)))
            .filter(|(node, fits)| *fits == Fit::Now || waits_for(*node))
            .collect()
    }

    /// The sum of the weighted scores of each feasible node.
    fn total_scores(&self, pod: PodId, feasible: &[NodeId]) -> Vec<i128> {
        let mut sums = vec![0; feasible.len()];
        for (_, scores) in self.weighted_scores(pod, feasible) {
            for (sum, score) in sums.iter_mut().zip(scores) {
                *sum += score;
            }
        }
        sums
    }

    /// For each score plugin, the normalized and weighted scores of the feasible nodes.
    fn weighted_scores<'a>(
        &'a self,
        pod: PodId,
        feasible: &'a [NodeId],
    ) -> impl Iterator<Item = (&'a Scoring, Vec<i128>)> + 'a {
        let scorings = self.profile.plugins.score.iter();
        scorings.filter(move |scoring| scoring.plugin.applies_to_pod(self, pod)).map(
            move |scoring| {
                let score = scoring.plugin.pre_score(self, pod, feasible);
                let mut scores: Vec<i64> = feasible.iter().map(|node| score(*node)).collect();
                scoring.plugin.normalize_score(&mut scores);
                let weight = i128::from(scoring.weight);
                (scoring, scores.into_iter().map(|score| i128::from(score) * weight).collect())
            },
        )
    }

    /// All filters that apply to the pod.
    pub(super) fn all_filters(&self, pod: PodId) -> Vec<NodeFilter<'_>> {
        self.selected_filters(pod, |_| true)
    }

    fn selected_filters(
        &self,
        pod: PodId,
        is_selected: impl Fn(ResultInputs) -> bool,
    ) -> Vec<NodeFilter<'_>> {
        let filters = self.profile.plugins.filter.iter();
        let selects = filters.filter(|filter| is_selected(filter.result_depends_on()));
        selects.filter_map(|filter| filter.pre_filter(self, pod)).collect()
    }

    fn anti_affinity_filters(&self, pod: PodId) -> impl Iterator<Item = NodeFilter<'_>> {
        let filters =
            self.profile.plugins.filter.iter().filter(|filter| filter.rejects_for_other_pods());
        filters.filter_map(move |filter| filter.pre_filter(self, pod))
    }

    /// Whether a filter may reject nodes for this pod because of other pods on them, even if the
    /// capacity suffices.
    pub fn has_anti_affinity(&self, pod: PodId) -> bool {
        self.anti_affinity_filters(pod).next().is_some()
    }

    /// Whether no other pod excludes this pod from the node where it is allocated or pipelined.
    pub fn satisfies_anti_affinity(&self, pod: PodId) -> bool {
        let Some(node) = self.state(pod).charged_node() else { return true };
        self.anti_affinity_filters(pod).all(|filter| filter(node).is_ok())
    }

    /// Whether all scores of the pod depend only on its shape and on the scored node, so that a
    /// ranking can be kept.
    fn can_keep_ranking(&self, pod: PodId) -> bool {
        let plugins = &self.profile.plugins;
        let mut scores = plugins.score.iter().map(|scoring| &scoring.plugin);
        plugins.ranking == Ranking::Bands
            && plugins.pipeline_policy == PipelinePolicy::AnyNode
            && scores.all(|score| {
                score.result_depends_on() != ResultInputs::Cluster
                    || !score.applies_to_pod(self, pod)
            })
    }
}

/// The first error of the filters; without an error, the latest of their fits.
fn run_filters(filters: &[NodeFilter<'_>], node: NodeId) -> Result<Fit, FitError> {
    filters.iter().try_fold(Fit::Now, |fits, filter| Ok(fits.max(filter(node)?)))
}

impl NodeRankings {
    /// The up-to-date ranking for the shape of `pod`; `None` when no ranking is kept for it, so
    /// that all nodes must be scanned.
    fn ranked_nodes(&mut self, session: &Session<'_>, pod: PodId) -> Option<&RankedNodes> {
        let shape = session.pod(pod).shape;
        let ranked = self.shapes.len() * session.snapshot.nodes.len();
        match self.shapes.get(&shape) {
            None => {
                self.shapes.insert(shape, ShapeRanking::SeenOnce);
                return None;
            }
            Some(ShapeRanking::SeenOnce) => {
                if ranked > RANKED_NODES_MAX {
                    self.shapes.retain(|_, ranking| matches!(ranking, ShapeRanking::SeenOnce));
                }
                let ordered = RankedNodes::new(session, pod);
                self.shapes.insert(shape, ShapeRanking::Ranked(ordered));
            }
            Some(ShapeRanking::Ranked(_)) => {}
        }
        match self.shapes.get_mut(&shape) {
            Some(ShapeRanking::Ranked(ordered)) => {
                ordered.refresh_changed_nodes(session, pod);
                Some(ordered)
            }
            Some(ShapeRanking::SeenOnce) | None => None,
        }
    }
}

impl RankedNodes {
    fn new(session: &Session<'_>, pod: PodId) -> Self {
        let mut ordered = Self {
            updated_to: session.changed_nodes().end_cursor(),
            eligible: session.eligible_nodes(pod),
            ranks: vec![None; session.snapshot.nodes.len()],
            best_first: BTreeSet::new(),
        };
        ordered.refresh_all_nodes(session, pod);
        ordered
    }

    fn refresh_changed_nodes(&mut self, session: &Session<'_>, pod: PodId) {
        let changed = session.changed_nodes();
        let cursor = changed.end_cursor();
        match changed.changes_since(self.updated_to) {
            Some(nodes) if nodes.len() < self.ranks.len() => {
                let evaluator = NodeEvaluator::new(session, pod);
                for again in nodes.chunk_by(|a, b| a == b) {
                    self.refresh_node(&evaluator, again[0]);
                }
            }
            Some(_) | None => self.refresh_all_nodes(session, pod),
        }
        self.updated_to = cursor;
    }

    fn refresh_all_nodes(&mut self, session: &Session<'_>, pod: PodId) {
        let evaluator = NodeEvaluator::new(session, pod);
        for node in session.node_ids() {
            let eligible = self.eligible[node.0 as usize];
            self.ranks[node.0 as usize] = eligible.then(|| evaluator.rank_and_fit(node)).flatten();
        }
        let ranked = session.node_ids().zip(&self.ranks);
        self.best_first =
            ranked.filter_map(|(node, rank)| rank.map(|(rank, _)| (rank, node))).collect();
    }

    fn refresh_node(&mut self, evaluator: &NodeEvaluator<'_>, node: NodeId) {
        let at = node.0 as usize;
        if !self.eligible[at] {
            return;
        }
        let after = evaluator.rank_and_fit(node);
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

    /// The first node in the ranking that all filters outside the ranking accept, and when the pod
    /// fits there.
    fn best_accepted_node(
        &self,
        session: &Session<'_>,
        pod: PodId,
        within: Option<&BTreeSet<NodeId>>,
    ) -> Option<(NodeId, Fit)> {
        let filters =
            session.selected_filters(pod, |depends_on| depends_on == ResultInputs::Cluster);
        let passes = |node: NodeId| {
            let (_, fits) = self.ranks[node.0 as usize]?;
            run_filters(&filters, node).ok().map(|others| (node, fits.max(others)))
        };
        let Some(within) = within else {
            return self.best_first.iter().find_map(|(_, node)| passes(*node));
        };
        let ranked = within.iter().filter_map(|node| {
            let (rank, _) = self.ranks[node.0 as usize]?;
            Some((rank, *node))
        });
        let mut ranked: Vec<(NodeRank, NodeId)> = ranked.collect();
        if filters.is_empty() {
            return passes(ranked.into_iter().min()?.1);
        }
        ranked.sort_unstable();
        ranked.into_iter().find_map(|(_, node)| passes(node))
    }
}

/// The filters and scores by which nodes are ranked for pods of one shape.
struct NodeEvaluator<'a> {
    filters: Vec<NodeFilter<'a>>,
    scores: Vec<NodeScore<'a>>,
}

impl<'a> NodeEvaluator<'a> {
    fn new(session: &'a Session<'_>, pod: PodId) -> Self {
        let scores = session.profile.plugins.score.iter().map(|scoring| &scoring.plugin);
        let scores: Vec<NodeScore<'a>> = scores
            .filter(|score| score.applies_to_pod(session, pod))
            .map(|score| score.pre_score(session, pod, &[]))
            .collect();
        debug_assert!(scores.len() <= RANK_SCORES_MAX, "a rank has {RANK_SCORES_MAX} places");
        Self {
            filters: session.selected_filters(pod, |on| on == ResultInputs::NodeCapacity),
            scores,
        }
    }

    fn rank_and_fit(&self, node: NodeId) -> Option<(NodeRank, Fit)> {
        let fits = run_filters(&self.filters, node).ok()?;
        let mut rank = [0; RANK_SCORES_MAX];
        for (slot, score) in rank.iter_mut().zip(&self.scores) {
            *slot = -score(node);
        }
        Some((rank, fits))
    }
}
