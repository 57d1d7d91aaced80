//! What counts tell about moves before any is simulated ([`SearchMode::Move`]): whether the job and
//! the evicted pods can all have a place, and which pods move in vain. A simulation costs a hundred
//! times as much as these counts, and on a full cluster almost every one fails.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use super::{EvictableUnit, Preemptor, Search, SearchMode, Solution};
use crate::{
    framework::{CapacityIndex, FreedCapacity, PodState, Session},
    model::{NodeId, PodId, ShapeId},
};

/// Number of shapes of one scenario up to which they are compared with each other.
const SHAPES_MAX: usize = 16;

/// What all moves together can make room for: no pod leaves the cluster, so a job cannot be placed
/// if it and the pods that may run only on the job's nodes need more room than these nodes have.
pub(super) struct MoveBounds {
    /// For the most frequent shapes of placed pods, the number of these pods.
    placed: Vec<(ShapeId, u64)>,
    /// For each shape that jobs were compared with: how many of its pods would have room beside
    /// the placed ones, if all preemptible pods were placed again in the best way.
    room: BTreeMap<ShapeId, u64>,
}

/// The pods of one shape that have a place.
#[derive(Clone)]
struct PlacedPods {
    first: PodId,
    count: u64,
    eligible: Arc<[bool]>,
}

impl PlacedPods {
    fn new(session: &Session<'_>, first: PodId) -> Self {
        Self { first, count: 0, eligible: session.eligible_nodes(first) }
    }
}

impl MoveBounds {
    pub(super) fn new(session: &Session<'_>, capacity: &mut CapacityIndex) -> Self {
        let mut of_shapes = vec![None::<PlacedPods>; session.snapshot.shapes.len()];
        for pod in session.pod_ids() {
            let Some(node) = node_to_keep(session, pod) else { continue };
            if capacity.is_overcommitted(node) {
                continue;
            }
            let of_shape = of_shapes[session.pod(pod).shape.0 as usize]
                .get_or_insert_with(|| PlacedPods::new(session, pod));
            of_shape.count += u64::from(of_shape.eligible[node.0 as usize]);
        }
        let placed = (0..).map(ShapeId).zip(of_shapes);
        let placed = placed.filter_map(|(shape, pods)| Some((shape, pods?)));
        let mut placed: Vec<(ShapeId, PlacedPods)> = placed.collect();
        placed.sort_by_key(|(_, pods)| Reverse(pods.count));
        placed.truncate(SHAPES_MAX);
        for (shape, pods) in &placed {
            capacity.count_shape(*shape, || session.shape_eligibility(pods.first));
        }
        let counts = placed.iter().map(|(shape, pods)| (*shape, pods.count)).collect();
        let mut bounds = Self { placed: counts, room: BTreeMap::new() };
        for (_, pods) in placed {
            bounds.compare_with_shape_of(session, capacity, pods.first);
        }
        bounds
    }

    /// Whether there may be moves after which the job has a place.
    pub(super) fn may_place(
        &mut self,
        session: &Session<'_>,
        capacity: &mut CapacityIndex,
        job: &Preemptor,
    ) -> bool {
        for &pod in &job.pods {
            self.compare_with_shape_of(session, capacity, pod);
        }
        let needed = job.pods_by_shape(session);
        self.room.iter().all(|(shape, room)| count_taken(capacity, &needed, *shape) <= *room)
    }

    fn compare_with_shape_of(
        &mut self,
        session: &Session<'_>,
        capacity: &mut CapacityIndex,
        pod: PodId,
    ) {
        let shape = session.pod(pod).shape;
        capacity.count_shape(shape, || session.shape_eligibility(pod));
        if self.room.contains_key(&shape) || self.room.len() == 2 * SHAPES_MAX {
            return;
        }
        let placed = self.placed.iter().map(|(shape, count)| (shape, count));
        let taken = count_taken(capacity, placed, shape);
        self.room.insert(shape, session.max_room_for_shape_of(pod).saturating_sub(taken));
    }
}

/// A shape for whose pods the assumed evictions of a search leave too little room.
pub(crate) struct BlockingShape {
    shape: ShapeId,
    /// Number of assumed evictions that are counted.
    counted: usize,
    /// Number of pods of the shape in whose place the job and the evicted pods will be.
    taken: u64,
    /// By shape of evicted pods: in the place of how many pods of the blocking shape each will be.
    times_requested: BTreeMap<ShapeId, u64>,
    /// Number of pods of the shape for which there is room once the pods are evicted.
    room: u64,
    room_by_node: Vec<u32>,
}

impl BlockingShape {
    /// Counts more assumed evictions, and returns whether there is too little room.
    fn is_short(
        &mut self,
        session: &Session<'_>,
        capacity: &mut CapacityIndex,
        evicted: &[&EvictableUnit],
    ) -> bool {
        for &(pod, node) in evicted.iter().flat_map(|unit| &unit.pods) {
            let room = capacity.room_once_evicted(self.shape, node);
            let before = std::mem::replace(&mut self.room_by_node[node.0 as usize], room);
            self.room = self.room + u64::from(room) - u64::from(before);
            let shape = session.pod(pod).shape;
            if let Some(times) = self.times_requested_by(session, capacity, pod)
                && capacity.is_eligible(shape, node)
            {
                self.taken = self.taken.saturating_add(times);
            }
        }
        self.room < self.taken
    }

    /// `None` once too many shapes are compared.
    fn times_requested_by(
        &mut self,
        session: &Session<'_>,
        capacity: &mut CapacityIndex,
        pod: PodId,
    ) -> Option<u64> {
        let shape = session.pod(pod).shape;
        if let Some(times) = self.times_requested.get(&shape) {
            return Some(*times);
        }
        if self.times_requested.len() == SHAPES_MAX {
            return None;
        }
        capacity.count_shape(shape, || session.shape_eligibility(pod));
        let times = capacity.times_requested(shape, self.shape);
        self.times_requested.insert(shape, times);
        Some(times)
    }
}

/// The node on which the pod has a place that it keeps, or that it gives up only for another one;
/// `None` if it has none, or no action evicts it.
fn node_to_keep(session: &Session<'_>, pod: PodId) -> Option<NodeId> {
    let state = session.state(pod);
    let group = session.pod(pod).group.map(|group| session.group(group));
    let stays = matches!(state, PodState::Allocated(_))
        && session.can_evict(pod)
        && !group.is_some_and(|group| group.preemptible);
    state.charged_node().filter(|_| !stays)
}

/// How many pods of the shape `smaller` the room would hold that these pods take wherever they are.
fn count_taken<'a>(
    capacity: &mut CapacityIndex,
    pods: impl IntoIterator<Item = (&'a ShapeId, &'a u64)>,
    smaller: ShapeId,
) -> u64 {
    pods.into_iter().fold(0, |sum: u64, (shape, count)| {
        sum.saturating_add(count.saturating_mul(capacity.times_requested(*shape, smaller)))
    })
}

impl<A: Fn(&Solution) -> bool> Search<'_, '_, '_, A> {
    /// Whether there is room for the job and all evicted pods, as far as counts show: for each
    /// shape, all nodes together have as much room as those pods take that may run on no other
    /// nodes.
    pub(super) fn may_place_all(&mut self, evicted: &[&EvictableUnit]) -> bool {
        let Some(shape) = self.shape_without_room(evicted) else { return true };
        if !self.shapes_with_room.contains(&shape) {
            let capacity = &mut *self.capacity;
            let job = self.preemptor.pods_by_shape(self.statement);
            self.blocking_shape = Some(BlockingShape {
                shape,
                counted: 0,
                taken: count_taken(capacity, &job, shape),
                times_requested: BTreeMap::new(),
                room: capacity.room_total(shape),
                room_by_node: capacity.room_by_node(shape).to_vec(),
            });
        }
        false
    }

    /// Whether all assumed evictions together leave too little room for pods of a shape that
    /// rejected moves before. Then any of these moves fail, since a move makes no more room for
    /// others than its pods take elsewhere.
    pub(super) fn is_blocked_by_shape(&mut self) -> bool {
        let Some(blocking) = &mut self.blocking_shape else { return false };
        let units = &self.assumed_evicted[blocking.counted..];
        let is_blocked = blocking.is_short(self.statement, self.capacity, units);
        blocking.counted = self.assumed_evicted.len();
        if !is_blocked {
            self.shapes_with_room.insert(blocking.shape);
            self.blocking_shape = None;
        }
        is_blocked
    }

    /// A shape for whose pods there is too little room.
    fn shape_without_room(&mut self, evicted: &[&EvictableUnit]) -> Option<ShapeId> {
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
            return None;
        }
        pods.keys().copied().find(|smaller| {
            let taken = count_taken(self.capacity, &pods, *smaller);
            taken > 0 && self.capacity.count_room_once_freed(*smaller, &freed) < taken
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
            *shapes_in_vain[other.0 as usize].get_or_insert_with(|| {
                capacity.count_shape(other, || statement.shape_eligibility(pod));
                let requested = &statement.snapshot.shapes[shape.0 as usize].requests;
                capacity.times_requested(other, shape) > 0
                    && statement.shape_of(pod).requests == *requested
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Profile, framework::Statement, model::PodGroupId, solver::solve::queued_job};
    use schedlab_testkit::snapshot_of;

    /// Whether moves may make room for the last job.
    fn may_place(text: &str) -> bool {
        let nodes = "
            node n1 gpus=4 label kind=x
            node n2 gpus=4
        ";
        let (snapshot, profile) = (snapshot_of(&format!("{nodes}{text}")), Profile::kai());
        let mut statement = Statement::new(Session::new(&snapshot, &profile));
        let mut capacity = statement.take_capacity();
        let last = (0..).map(PodGroupId).zip(&snapshot.pod_groups).last().expect("a job").0;
        let job = Preemptor::new(&statement, queued_job(&statement, last).expect("it waits"));
        MoveBounds::new(&statement, &mut capacity).may_place(&statement, &mut capacity, &job)
    }

    #[test]
    fn pods_that_may_run_only_where_the_job_runs_take_its_room_wherever_they_move() {
        let bound = "job a pods=2 min=2 gpus=2 needs kind=x on n1 n1";
        assert!(!may_place(&format!("{bound}\njob w gpus=2 needs kind=x")));
        assert!(may_place(&format!("{bound}\njob w gpus=2")));
        let free = "job a gpus=2 needs kind=x on n1\njob b gpus=2 on n1";
        assert!(may_place(&format!("{free}\njob w gpus=2 needs kind=x")));
        assert!(!may_place(&format!("{free}\ngang w pods=2 gpus=2 needs kind=x")));
    }

    #[test]
    fn smaller_pods_count_as_parts_of_the_job_and_larger_ones_as_several() {
        let small = "job a pods=3 min=3 gpus=1 needs kind=x on n1 n1 n1";
        assert!(!may_place(&format!("{small}\njob w gpus=2 needs kind=x")));
        assert!(may_place(&format!("{small}\njob w gpus=1 needs kind=x")));
        let large = "job a gpus=3 needs kind=x on n1";
        assert!(!may_place(&format!("{large}\njob w pods=2 min=2 gpus=1 needs kind=x")));
        assert!(may_place(&format!("{large}\njob w gpus=1 needs kind=x")));
    }

    #[test]
    fn pods_that_no_action_evicts_keep_their_room() {
        let fixed = "job fixed gpus=3 needs kind=x non-preemptible on n1";
        assert!(!may_place(&format!("{fixed}\njob w gpus=2 needs kind=x")));
        assert!(may_place(&format!("{fixed}\njob w gpus=1 needs kind=x")));
        assert!(may_place("job r gpus=4 releasing on n1\njob w gpus=4 needs kind=x"));
    }

    #[test]
    fn pods_on_a_node_that_has_too_little_for_them_take_no_room_elsewhere() {
        let over = "node n3 gpus=1 label kind=x\njob a pods=2 min=2 gpus=1 needs kind=x on n3 n3";
        assert!(may_place(&format!("{over}\njob w gpus=4 needs kind=x")));
    }
}
