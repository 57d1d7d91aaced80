//! What is derived from the snapshot or the state of nodes on first use.

use std::{
    cell::{OnceCell, RefCell},
    cmp::Reverse,
    collections::BTreeMap,
    sync::Arc,
};

use super::{
    CapacityIndex, Session, evictable_capacity::EvictableCapacity,
    filter_results::FilterResultsByShape, node_ranking::NodeRankings, pod::PodFacts,
    selector_cache::SelectorCache, topology::DomainPaths,
};
use crate::{
    Snapshot,
    devices::AllocationOutcomeCache,
    model::{PodGroupId, PodShape, ShapeId},
    queues::{JobKey, MinimumStatus, age_ranks, groups_by_age},
};

/// Values that are derived from the snapshot, or from the state of nodes, on first use.
#[derive(Clone, Debug, Default)]
pub(super) struct Caches {
    /// The pod groups by age. Computed lazily, because many cycles queue no jobs.
    pub(super) groups_by_age: OnceCell<Arc<Vec<PodGroupId>>>,
    /// Age ranks of all pod groups.
    age_ranks: OnceCell<Arc<Vec<u32>>>,
    /// The most frequent shapes that request GPUs, with their numbers of pods. Computed lazily,
    /// because few profiles need it.
    gpu_demand: OnceCell<Vec<(ShapeId, i64)>>,
    /// The domains of nodes, by topology.
    pub(super) domain_paths: OnceCell<DomainPaths>,
    /// For each shape, the nodes on which its pods may run at all: as long as no node changes but
    /// in its pods.
    pub(super) eligible_nodes: RefCell<BTreeMap<ShapeId, Arc<[bool]>>>,
    pub(super) rankings: RefCell<NodeRankings>,
    /// The index of free capacity, when no search uses it.
    pub(super) capacity: Uncloned<Option<CapacityIndex>>,
    pub(super) filter_results: Uncloned<RefCell<FilterResultsByShape>>,
    pub(super) evictable_capacity: EvictableCapacity,
    pub(super) selectors: SelectorCache,
    pub(super) allocations: AllocationOutcomeCache,
}

/// What a clone of a session starts without, since it costs more to clone than it saves there.
#[derive(Debug, Default)]
pub(super) struct Uncloned<T>(pub(super) T);

impl<T: Default> Clone for Uncloned<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<'s> Session<'s> {
    /// The most frequent shapes that request GPUs, each with its number of unfinished pods.
    pub fn gpu_demand(&self) -> Vec<(&'s PodShape, i64)> {
        let demand =
            self.caches.gpu_demand.get_or_init(|| gpu_demand(self.snapshot, self.pods.facts()));
        let shape = |id: ShapeId| &self.snapshot.shapes[id.0 as usize];
        demand.iter().map(|(id, count)| (shape(*id), *count)).collect()
    }

    /// The group's position in the job order of its queue, by its present pods.
    pub fn current_job_key(&self, group: PodGroupId) -> JobKey {
        self.job_key(group, self.members(group).minimum_status(self.group(group)))
    }

    /// The group's position in the job order of its queue if it had this minimum status.
    pub fn job_key(&self, group: PodGroupId, minimum_status: MinimumStatus) -> JobKey {
        let by_age = || Arc::new(groups_by_age(&self.snapshot.pod_groups));
        let ranks = self
            .caches
            .age_ranks
            .get_or_init(|| Arc::new(age_ranks(self.caches.groups_by_age.get_or_init(by_age))));
        let (priority, age_rank) = (self.group(group).priority, ranks[group.0 as usize]);
        JobKey::new(&self.profile.job_order, priority, minimum_status, age_rank, group)
    }
}

/// Maximum number of shapes that represent the GPU demand of all pods.
const DEMAND_SHAPES_MAX: usize = 64;

/// The most frequent shapes that request GPUs, each with its number of unfinished pods. Equally
/// frequent shapes are in order of first use.
fn gpu_demand(snapshot: &Snapshot, pods: &[PodFacts]) -> Vec<(ShapeId, i64)> {
    let mut counts: Vec<(ShapeId, i64)> =
        (0..).map(ShapeId).zip(snapshot.shapes.iter().map(|_| 0)).collect();
    for pod in pods {
        counts[pod.shape.0 as usize].1 += i64::from(!pod.has_ended);
    }
    let asks_gpus = |shape: ShapeId| snapshot.shapes[shape.0 as usize].requests_plain_gpus();
    counts.retain(|(shape, count)| *count > 0 && asks_gpus(*shape));
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts.truncate(DEMAND_SHAPES_MAX);
    counts
}
