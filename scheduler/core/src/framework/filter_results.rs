//! The results of all filters for pods of one shape on every node, for shapes whose fit depends on
//! nothing else. The results follow the log of changed nodes, from cycle to cycle as long as no node
//! changes but in its pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{ChangeCursor, NodeFilter, Session};
use crate::{
    model::{NodeId, PodId, ShapeId},
    reason::{FitError, FitErrors, NodeRefusal},
};

/// The result of all filters for pods of a shape on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeFilterResult {
    /// Why the node rejects the pods; `None` if they fit.
    refusal: Option<NodeRefusal>,
    /// Whether the node is for pods of this kind, as far as it runs CPU or GPU workers only.
    has_matching_role: bool,
    /// Whether the node has no other error than that it is too full.
    is_only_too_full: bool,
}

/// The results for pods of one shape on all nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeFilterResults {
    updated_to: Option<ChangeCursor>,
    /// For each node its result, by position in `distinct`.
    by_node: Vec<u32>,
    /// The results that occurred so far, each with the number of nodes that have it now.
    distinct: Vec<(Arc<NodeFilterResult>, u32)>,
    positions: BTreeMap<Arc<NodeFilterResult>, u32>,
}

/// Maximum number of results that are kept, summed over all shapes.
const KEPT_RESULTS_MAX: usize = 1 << 22;

/// The results for pods of several shapes.
#[derive(Clone, Debug, Default)]
pub(super) struct FilterResultsByShape(BTreeMap<ShapeId, NodeFilterResults>);

impl FilterResultsByShape {
    /// The shapes of pods whose results are known.
    pub(super) fn shapes(&self) -> impl Iterator<Item = ShapeId> {
        self.0.keys().copied()
    }
}

impl Session<'_> {
    /// Like [`Self::fit_errors`] for a pod whose fit depends on its shape only, but for what an
    /// added node must be like.
    pub(super) fn fit_errors_of_shape(&self, pod: PodId) -> FitErrors {
        let node_selection = self.shape_of(pod).node_selection();
        let nodes_of_peers = self.nodes_of_gang_peers(pod);
        let ((mut fit_errors, is_any_for_it), near_peers) =
            self.with_filter_results(pod, |results| {
                let refusals = nodes_of_peers
                    .iter()
                    .filter_map(|node| Some((*node, results.refusal_of(*node)?.clone())));
                (results.fit_errors(), refusals.collect::<Vec<_>>())
            });
        for (node, refusal) in near_peers {
            if self.is_caused_by_gang_peers(pod, node, &refusal.worst) {
                fit_errors.mark_as_caused_by_peers(refusal);
            }
        }
        let excluded_nodes = if is_any_for_it { None } else { self.excluded_nodes_for(pod) };
        FitErrors { node_selection, excluded_nodes, ..fit_errors }
    }

    /// The nodes that pods of the pod's own group are on or pipelined to.
    fn nodes_of_gang_peers(&self, pod: PodId) -> BTreeSet<NodeId> {
        let group = self.pod(pod).group.filter(|group| self.members(*group).active_count() > 0);
        let peers = group.into_iter().flat_map(|group| self.pods_of_group(group));
        peers.flat_map(|peer| self.state(peer).occupied_nodes()).map(|(node, _)| node).collect()
    }

    /// Like [`Self::nodes_that_are_only_too_full`], for a pod whose fit depends on its shape only.
    pub(super) fn full_nodes_of_shape(&self, pod: PodId) -> Vec<NodeId> {
        self.with_filter_results(pod, |results| {
            let nodes = self.node_ids().zip(&results.by_node);
            let full = nodes.filter(|(_, at)| results.distinct[**at as usize].0.is_only_too_full);
            full.map(|(node, _)| node).collect()
        })
    }

    fn with_filter_results<T>(&self, pod: PodId, read: impl FnOnce(&NodeFilterResults) -> T) -> T {
        let mut known = self.caches.filter_results.0.borrow_mut();
        let shape = self.pod(pod).shape;
        if !known.0.contains_key(&shape)
            && known.0.len() * self.snapshot.nodes.len() > KEPT_RESULTS_MAX
        {
            known.0.clear();
        }
        let results = known.0.entry(shape).or_default();
        results.follow_changes(self, pod);
        read(results)
    }
}

impl NodeFilterResults {
    fn refusal_of(&self, node: NodeId) -> Option<&NodeRefusal> {
        self.distinct[self.by_node[node.0 as usize] as usize].0.refusal.as_ref()
    }

    /// The errors of all nodes, and whether some node is for pods of this kind.
    fn fit_errors(&self) -> (FitErrors, bool) {
        let (mut fit_errors, mut is_any_for_it) = (FitErrors::default(), false);
        for (result, nodes) in self.distinct.iter().filter(|(_, nodes)| *nodes > 0) {
            fit_errors.nodes += nodes;
            is_any_for_it |= result.has_matching_role;
            if let Some(refusal) = &result.refusal {
                *fit_errors.refusals.entry(refusal.clone()).or_default() += nodes;
            }
        }
        (fit_errors, is_any_for_it)
    }

    fn follow_changes(&mut self, session: &Session<'_>, pod: PodId) {
        let changed = session.changed_nodes();
        let since = self.updated_to.and_then(|cursor| changed.changes_since(cursor));
        self.updated_to = Some(changed.end_cursor());
        match since {
            Some([]) => {}
            Some(nodes) => {
                let filters = session.all_filters(pod);
                let nodes: BTreeSet<NodeId> = nodes.iter().copied().collect();
                for node in nodes {
                    let at = self.position_of(NodeFilterResult::new(&filters, node));
                    let before = std::mem::replace(&mut self.by_node[node.0 as usize], at);
                    self.distinct[before as usize].1 -= 1;
                    self.distinct[at as usize].1 += 1;
                }
            }
            None => {
                let filters = session.all_filters(pod);
                let updated_to = self.updated_to;
                *self = Self { updated_to, ..Self::default() };
                for node in session.node_ids() {
                    let at = self.position_of(NodeFilterResult::new(&filters, node));
                    self.by_node.push(at);
                    self.distinct[at as usize].1 += 1;
                }
            }
        }
    }

    fn position_of(&mut self, result: NodeFilterResult) -> u32 {
        if let Some(at) = self.positions.get(&result) {
            return *at;
        }
        let at = u32::try_from(self.distinct.len()).expect("few results differ");
        let result = Arc::new(result);
        self.distinct.push((Arc::clone(&result), 0));
        self.positions.insert(result, at);
        at
    }
}

impl NodeFilterResult {
    fn new(filters: &[NodeFilter<'_>], node: NodeId) -> Self {
        let against: Vec<FitError> =
            filters.iter().filter_map(|filter| filter(node).err()).collect();
        Self {
            has_matching_role: !against.iter().any(FitError::is_worker_role_mismatch),
            is_only_too_full: against.iter().all(FitError::is_node_too_full),
            refusal: NodeRefusal::new(against, |_| false),
        }
    }
}
