//! Which closed nodes must be opened for pods that must be in one domain.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    framework::{PlacementFailure, Session},
    model::{Name, NodeId, PodId},
    reason::{FitError, NodesToOpen, has_other_errors, worst_fit_error},
};

/// A node that would hold pods if an operator resolved the error `closed_by`, and the number of
/// pods that it would hold.
#[derive(Clone)]
struct ClosedNode {
    node: NodeId,
    closed_by: FitError,
    capacity: u32,
}

impl Session<'_> {
    /// The nodes to open so that one domain holds `pods`: those in the domain that needs the fewest
    /// nodes opened. When the nodes are closed for several reasons, only the nodes with the first
    /// reason are returned.
    pub(super) fn nodes_to_open(
        &self,
        pods: &[PodId],
        tried: &[(BTreeSet<NodeId>, PlacementFailure)],
    ) -> Option<NodesToOpen> {
        let ways = tried.iter().flat_map(|(domain, why)| {
            let missing = pods.len().saturating_sub(why.found as usize);
            opening_sets(
                &self.closed_nodes(why.pod, domain),
                u32::try_from(missing).unwrap_or(u32::MAX),
            )
        });
        let is_more =
            |way: &Vec<ClosedNode>| way.windows(2).any(|two| two[0].closed_by != two[1].closed_by);
        let way = ways.min_by_key(|way| (is_more(way), way.len()))?;
        let fit_error = way.first()?.closed_by.clone();
        let alike = way.iter().filter(|closed| closed.closed_by == fit_error);
        let mut nodes: Vec<NodeId> = alike.map(|closed| closed.node).collect();
        nodes.sort();
        let nodes = nodes.into_iter().map(|node| Name::clone(&self.node(node).name)).collect();
        Some(NodesToOpen { closed_by: fit_error, nodes })
    }

    fn closed_nodes(&self, pod: PodId, domain: &BTreeSet<NodeId>) -> Vec<ClosedNode> {
        let (filters, shape) = (self.all_filters(pod), self.shape_of(pod));
        let is_alone = shape.may_exclude_neighbors();
        let closed = domain.iter().filter_map(|node| {
            let errors: Vec<FitError> =
                filters.iter().filter_map(|filter| filter(*node).err()).collect();
            let (first, others) = errors.split_first()?;
            let fit_error = worst_fit_error(first, others.iter().cloned());
            let opens = fit_error.is_node_closed() && !has_other_errors(&fit_error, errors.iter());
            let capacity = self.count_fits_on(*node, pod);
            let capacity = if is_alone { capacity.min(1) } else { capacity };
            (opens && capacity > 0).then_some(ClosedNode {
                node: *node,
                closed_by: fit_error,
                capacity,
            })
        });
        closed.collect()
    }
}

/// Sets of closed nodes that together hold `missing` pods: one set for each reason by which nodes
/// are closed, and one over all reasons.
fn opening_sets(closed: &[ClosedNode], missing: u32) -> Vec<Vec<ClosedNode>> {
    let kinds: BTreeSet<&FitError> = closed.iter().map(|closed| &closed.closed_by).collect();
    let each = kinds.into_iter().map(|kind| {
        let of_kind = closed.iter().filter(|closed| closed.closed_by == *kind);
        of_kind.cloned().collect()
    });
    each.chain([closed.to_vec()])
        .filter_map(|closed| smallest_sufficient(closed, missing))
        .collect()
}

fn smallest_sufficient(mut closed: Vec<ClosedNode>, missing: u32) -> Option<Vec<ClosedNode>> {
    closed.sort_by_key(|closed| (Reverse(closed.capacity), closed.node));
    let mut capacity = 0_u32;
    let is_needed = |closed: &&ClosedNode| {
        let is_short = capacity < missing;
        capacity = capacity.saturating_add(closed.capacity);
        is_short
    };
    let needed = closed.iter().take_while(is_needed).count();
    closed.truncate(needed);
    (capacity >= missing).then_some(closed)
}
