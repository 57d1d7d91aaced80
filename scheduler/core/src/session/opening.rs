//! Which nodes have to be opened for pods that have to be in one place.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{Session, Unplaced};
use crate::{
    decision::{Misfit, Opening, has_more, worst},
    model::{Name, NodeId, PodId},
};

/// A node that nothing but this keeps from the pods, and how many of them it has room for.
#[derive(Clone)]
struct Closed {
    node: NodeId,
    misfit: Misfit,
    room: u32,
}

impl Session<'_> {
    /// Of places that would hold `pods`, were all nodes open, the nodes that have to be opened in the
    /// one of which the fewest have to; where several things close them, those of the first.
    pub(super) fn opening(
        &self,
        pods: &[PodId],
        tried: &[(BTreeSet<NodeId>, Unplaced)],
    ) -> Option<Opening> {
        let ways = tried.iter().flat_map(|(place, why)| {
            let missing = pods.len().saturating_sub(why.found as usize);
            ways(&self.closed_to(why.pod, place), u32::try_from(missing).unwrap_or(u32::MAX))
        });
        let is_more = |way: &Vec<Closed>| way.windows(2).any(|two| two[0].misfit != two[1].misfit);
        let way = ways.min_by_key(|way| (is_more(way), way.len()))?;
        let misfit = way.first()?.misfit.clone();
        let alike = way.iter().filter(|closed| closed.misfit == misfit);
        let mut nodes: Vec<NodeId> = alike.map(|closed| closed.node).collect();
        nodes.sort();
        let nodes = nodes.into_iter().map(|node| Name::clone(&self.node(node).name)).collect();
        Some(Opening { misfit, nodes })
    }

    fn closed_to(&self, pod: PodId, place: &BTreeSet<NodeId>) -> Vec<Closed> {
        let (filters, shape) = (self.all_filters(pod), self.shape_of(pod));
        let is_alone = shape.minds_others();
        let closed = place.iter().filter_map(|node| {
            let against: Vec<Misfit> =
                filters.iter().filter_map(|filter| filter(*node).err()).collect();
            let (first, others) = against.split_first()?;
            let misfit = worst(first, others.iter().cloned());
            let opens = misfit.is_of_closed_nodes() && !has_more(&misfit, against.iter());
            let room = self.room_on(*node, pod);
            let room = if is_alone { room.min(1) } else { room };
            (opens && room > 0).then_some(Closed { node: *node, misfit, room })
        });
        closed.collect()
    }
}

/// What closes nodes is undone by itself, or all of it, on as many as so many pods need.
fn ways(closed: &[Closed], missing: u32) -> Vec<Vec<Closed>> {
    let kinds: BTreeSet<&Misfit> = closed.iter().map(|closed| &closed.misfit).collect();
    let each = kinds.into_iter().map(|kind| {
        let of_kind = closed.iter().filter(|closed| closed.misfit == *kind);
        of_kind.cloned().collect()
    });
    each.chain([closed.to_vec()]).filter_map(|closed| largest(closed, missing)).collect()
}

fn largest(mut closed: Vec<Closed>, missing: u32) -> Option<Vec<Closed>> {
    closed.sort_by_key(|closed| (Reverse(closed.room), closed.node));
    let mut room = 0_u32;
    let is_needed = |closed: &&Closed| {
        let is_short = room < missing;
        room = room.saturating_add(closed.room);
        is_short
    };
    let needed = closed.iter().take_while(is_needed).count();
    closed.truncate(needed);
    (room >= missing).then_some(closed)
}
