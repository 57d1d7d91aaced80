//! What counts tell about moves before any is simulated ([`SearchMode::Move`]): whether the job and
//! the evicted pods can all have a place, and which pods move in vain. A simulation costs a hundred
//! times as much as these counts, and on a full cluster almost every one fails.

use std::collections::BTreeMap;

use super::{EvictableUnit, Search, SearchMode, Solution};
use crate::{
    framework::FreedCapacity,
    model::{NodeId, ShapeId},
};

/// Number of shapes of one scenario up to which they are compared with each other.
const SHAPES_MAX: usize = 16;

impl<A: Fn(&Solution) -> bool> Search<'_, '_, '_, A> {
    /// Whether there is room for the job and all evicted pods, as far as counts show: for each
    /// shape, all nodes together have as much room as those pods take that may run on no other
    /// nodes.
    pub(super) fn may_place_all(&mut self, evicted: &[&EvictableUnit]) -> bool {
        let mut pods = self.preemptor.pods_by_shape(self.statement);
        let mut freed: BTreeMap<NodeId, FreedCapacity> = BTreeMap::new();
        for &(pod, node) in evicted.iter().flat_map(|unit| &unit.pods) {
            let shape = self.statement.pod(pod).shape;
            self.capacity.count_shape(shape, || self.statement.shape_eligibility(pod));
            let groups = self.statement.allocated_gpu_groups(pod);
            let spec = self.statement.shape_of(pod);
            freed.entry(node).or_default().free_pod(self.statement.node(node), spec, groups);
            // A pod whose node was closed or relabelled may stay there without a place elsewhere.
            if self.capacity.is_eligible(shape, node) {
                *pods.entry(shape).or_default() += 1;
            }
        }
        if pods.len() > SHAPES_MAX {
            return true;
        }
        pods.keys().all(|smaller| {
            let taken = pods.iter().map(|(shape, count)| {
                count.saturating_mul(self.capacity.times_requested(*shape, *smaller))
            });
            let taken = taken.fold(0, u64::saturating_add);
            taken == 0 || self.capacity.count_room_once_freed(*smaller, &freed) >= taken
        })
    }

    /// The shape of the job, if pods with equal requests move for it in vain: wherever such a pod
    /// could go, the job could go.
    pub(super) fn interchangeable_shape(&self) -> Option<ShapeId> {
        let first = *self.preemptor.pods.first()?;
        let shape = self.statement.pod(first).shape;
        let is_plain = self.mode == SearchMode::Move
            && self.required_domains.is_none()
            && !self.statement.group(self.preemptor.group).has_topology_constraint()
            && self.preemptor.pods.iter().all(|pod| self.statement.pod(*pod).shape == shape)
            && !self.statement.fit_depends_on_cluster(first);
        is_plain.then_some(shape)
    }

    /// Whether all pods of the unit request as much as the `shape` and may run on no other nodes.
    pub(super) fn moves_in_vain(&mut self, unit: &EvictableUnit, shape: ShapeId) -> bool {
        let Self { statement, capacity, shapes_in_vain, .. } = self;
        unit.pods.iter().all(|&(pod, _)| {
            let other = statement.pod(pod).shape;
            *shapes_in_vain.entry(other).or_insert_with(|| {
                capacity.count_shape(other, || statement.shape_eligibility(pod));
                let requested = &statement.snapshot.shapes[shape.0 as usize].requests;
                capacity.times_requested(other, shape) > 0
                    && statement.shape_of(pod).requests == *requested
            })
        })
    }
}
