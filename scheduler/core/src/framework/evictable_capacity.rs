//! What the nodes would hold if no preemptible pod were left: pods that no action evicts, of
//! non-preemptible groups and of other schedulers, keep their capacity. A job that does not fit
//! then cannot run, whatever is evicted.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeMap,
};

use super::{
    CapacityRequest, FreeCapacity, PodState, Profile, Session, fraction_units_on, node::NodeStates,
    pod::PodStates, topology::ResolvedLevels,
};
use crate::{
    Snapshot,
    model::{Name, NodeId, PodGroupId, PodId, ShapeId},
    profile::Action,
    resources::Resources,
};

/// The free capacity of all nodes as if no preemptible pod ran, with cached numbers of pods that it
/// holds.
#[derive(Clone, Debug, Default)]
pub(super) struct EvictableCapacity {
    pub(super) nodes: OnceCell<FreeAfterEvictions>,
    pub(super) counts: RefCell<MaximumCounts>,
}

/// Numbers of pods that the nodes hold if no preemptible pod runs.
#[derive(Clone, Debug, Default)]
pub(super) struct MaximumCounts {
    /// On all nodes together, by shape.
    pods: BTreeMap<ShapeId, u64>,
    /// Like `pods`, but the maximum numbers of pods of the nodes do not count.
    room: BTreeMap<ShapeId, u64>,
    /// In each domain, by shape of the pods, topology and depth of the level.
    pods_in_domains: BTreeMap<(ShapeId, Name, usize), Vec<u64>>,
}

/// The free capacity of all nodes as if no preemptible pod ran, and its sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FreeAfterEvictions {
    by_node: Vec<FreeCapacity>,
    total: Resources,
}

/// Number of pods by shape, with one pod of each shape as a representative.
type PodsByShape = BTreeMap<ShapeId, (PodId, u64)>;

impl Session<'_> {
    /// Whether the next pods of the group may run once enough pods are evicted. Compares only
    /// counts, so that `true` is not certain.
    pub fn may_run_after_evictions(&self, group: PodGroupId) -> bool {
        self.pods_may_run_after_evictions(group, &self.next_chunk(group))
    }

    /// Like [`Self::may_run_after_evictions`], for these pods of the group.
    pub fn pods_may_run_after_evictions(&self, group: PodGroupId, pods: &[PodId]) -> bool {
        let mut request = Resources::default();
        for &pod in pods {
            request.add(&self.shape_of(pod).requests);
        }
        request.fits_in(&self.free_after_evictions().total)
            && self
                .pods_by_shape(pods)
                .into_values()
                .all(|(pod, count)| count <= self.max_pods_of_shape(pod))
            && self.required_domains_may_hold(group, pods)
    }

    /// Whether each required topology level has a domain that may hold all pods that require one
    /// domain of that level.
    fn required_domains_may_hold(&self, id: PodGroupId, pods: &[PodId]) -> bool {
        let group = self.group(id);
        if !group.has_topology_constraint() {
            return true;
        }
        let mut owners = (0..group.sub_groups.len()).map(Some).chain([None]);
        owners.all(|sub_group| {
            let is_inside =
                |pod: &&PodId| group.is_in_sub_group(self.pod(**pod).sub_group, sub_group);
            let pods: Vec<PodId> = pods.iter().filter(is_inside).copied().collect();
            let constraint = group.topology_constraint(sub_group);
            let levels = constraint.and_then(|constraint| self.resolve_levels(constraint).ok());
            let Some(levels) = levels.filter(ResolvedLevels::is_required) else { return true };
            let counts: Vec<(u64, Vec<u64>)> = self
                .pods_by_shape(&pods)
                .into_values()
                .map(|(pod, count)| (count, self.max_pods_in_domains(pod, levels)))
                .collect();
            let Some((_, first)) = counts.first() else { return true };
            (0..first.len()).any(|domain| counts.iter().all(|(count, most)| *count <= most[domain]))
        })
    }

    fn pods_by_shape(&self, pods: &[PodId]) -> PodsByShape {
        let mut shapes = PodsByShape::new();
        for &pod in pods {
            shapes.entry(self.pod(pod).shape).or_insert((pod, 0)).1 += 1;
        }
        shapes
    }

    /// Number of pods of this pod's shape that all nodes together hold.
    fn max_pods_of_shape(&self, pod: PodId) -> u64 {
        let (shape, cache) = (self.pod(pod).shape, &self.caches.evictable_capacity.counts);
        let known = cache.borrow().pods.get(&shape).copied();
        known.unwrap_or_else(|| {
            let most = self.max_pods_by_node(pod, &self.shape_of(pod).requests).into_iter().sum();
            cache.borrow_mut().pods.insert(shape, most);
            most
        })
    }

    /// The number of pods of this pod's shape that all nodes together hold if no preemptible pod is
    /// left. The maximum numbers of pods of the nodes do not count.
    pub(crate) fn max_room_for_shape_of(&self, pod: PodId) -> u64 {
        let (shape, cache) = (self.pod(pod).shape, &self.caches.evictable_capacity.counts);
        let known = cache.borrow().room.get(&shape).copied();
        known.unwrap_or_else(|| {
            let requests = Resources { pods: 0, ..self.shape_of(pod).requests.clone() };
            let most = self.max_pods_by_node(pod, &requests).into_iter().sum();
            cache.borrow_mut().room.insert(shape, most);
            most
        })
    }

    /// Number of pods of this pod's shape that each domain of the required level holds.
    fn max_pods_in_domains(&self, pod: PodId, levels: ResolvedLevels<'_>) -> Vec<u64> {
        let cache = &self.caches.evictable_capacity.counts;
        let (topology, depth) = levels.required_level();
        let key = (self.pod(pod).shape, Name::clone(topology), depth);
        let known = cache.borrow().pods_in_domains.get(&key).cloned();
        known.unwrap_or_else(|| {
            let by_node = self.max_pods_by_node(pod, &self.shape_of(pod).requests);
            let domains = self.nodes_by_domain(levels);
            let count = |nodes: &Vec<NodeId>| nodes.iter().map(|at| by_node[at.0 as usize]).sum();
            let most: Vec<u64> = domains.iter().map(count).collect();
            cache.borrow_mut().pods_in_domains.insert(key, most.clone());
            most
        })
    }

    /// The number of pods of this pod's shape with these `requests` that each node holds.
    fn max_pods_by_node(&self, pod: PodId, requests: &Resources) -> Vec<u64> {
        let (of, eligible) = (self.shape_of(pod), self.eligible_nodes(pod));
        let nodes = self.snapshot.nodes.iter().zip(&self.free_after_evictions().by_node);
        let counts = nodes.zip(eligible.iter()).map(|((node, free), is_eligible)| {
            let once_per_node = &of.new_claims_on(node);
            let fraction = fraction_units_on(node, of.fractional_gpu.as_ref());
            let request = CapacityRequest { resources: requests, once_per_node, fraction };
            if *is_eligible { u64::from(free.count_fitting_pods(None, request)) } else { 0 }
        });
        counts.collect()
    }

    /// Whether the session counts as many pods of this pod's shape as the `other` session of the
    /// same snapshot.
    pub(super) fn has_equal_maximum_counts(&self, other: &Self, pod: PodId) -> bool {
        let in_domains = |session: &Self| {
            let group = session.pod(pod).group?;
            Some(session.required_domains_may_hold(group, &[pod]))
        };
        self.max_pods_of_shape(pod) == other.max_pods_of_shape(pod)
            && self.max_room_for_shape_of(pod) == other.max_room_for_shape_of(pod)
            && in_domains(self) == in_domains(other)
    }

    pub(super) fn free_after_evictions(&self) -> &FreeAfterEvictions {
        self.caches
            .evictable_capacity
            .nodes
            .get_or_init(|| FreeAfterEvictions::new(self.snapshot, self.profile, &self.pods))
    }
}

impl FreeAfterEvictions {
    fn new(snapshot: &Snapshot, profile: &Profile, pods: &PodStates) -> Self {
        let all = vec![true; snapshot.nodes.len()];
        let free = free_after_evictions(snapshot, profile, pods, &all).into_iter();
        Self::from_nodes(free.map(|(_, free)| free).collect())
    }

    /// Follows changes of the snapshot that affect the `outdated` nodes. Returns whether something
    /// differs now.
    pub(super) fn update(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        pods: &PodStates,
        outdated: &[bool],
    ) -> bool {
        let mut is_changed = false;
        for (node, free) in free_after_evictions(snapshot, profile, pods, outdated) {
            let known = &mut self.by_node[node.0 as usize];
            is_changed |= *known != free;
            *known = free;
        }
        if is_changed {
            *self = Self::from_nodes(std::mem::take(&mut self.by_node));
        }
        is_changed
    }

    fn from_nodes(by_node: Vec<FreeCapacity>) -> Self {
        let mut total = Resources::default();
        for free in &by_node {
            total.add(&free.resources.at_least_zero());
        }
        Self { by_node, total }
    }
}

/// The free capacity of the `selected` nodes at the start of the cycle with only those pods that no
/// action evicts. Profiles without evicting actions (profile `kube`) evict by other rules.
fn free_after_evictions(
    snapshot: &Snapshot,
    profile: &Profile,
    pods: &PodStates,
    selected: &[bool],
) -> Vec<(NodeId, FreeCapacity)> {
    let evicting = [Action::Consolidate, Action::Reclaim, Action::Preempt];
    let evicts = profile.actions.iter().any(|action| evicting.contains(action));
    let states = pods.initial_states();
    let stays = |pod: PodId| {
        evicts
            && matches!(states[pod.0 as usize], PodState::Allocated(_))
            && !pods.facts()[pod.0 as usize].is_preemptible
    };
    NodeStates::free_with_only_pods(snapshot, pods, &states, selected, stays)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use schedlab_testkit::snapshot_of;

    const NODES: &str = "
        topology dc levels zone
        node n1 gpus=8 label zone=y
        node n2 gpus=8 label zone=z
        node n3 gpus=1 label zone=z
    ";

    /// Whether the next pods of the last group may run.
    fn may_run_with(profile: &Profile, text: &str) -> bool {
        let snapshot = snapshot_of(&format!("{NODES}{text}"));
        let group = (0..).map(PodGroupId).zip(&snapshot.pod_groups).last().expect("a job").0;
        Session::new(&snapshot, profile).may_run_after_evictions(group)
    }

    fn may_run(text: &str) -> bool {
        may_run_with(&Profile::kai(), text)
    }

    #[test]
    fn running_preemptible_pods_do_not_matter() {
        assert!(may_run("gang all pods=8 gpus=2 on n1 n1 n1 n1 n2 n2 n2 n2\ngang x pods=8 gpus=2"));
        assert!(may_run("job all gpus=8 on n1\njob x gpus=8"));
    }

    #[test]
    fn pods_that_no_action_evicts_keep_their_capacity() {
        let one_each = "job web pods=2 min=2 gpus=1 non-preemptible on n1 n2";
        assert!(may_run(&format!("{one_each}\njob x gpus=7")));
        assert!(!may_run(&format!("{one_each}\njob x gpus=8")));
        assert!(may_run(&format!("{one_each}\ngang x pods=15 gpus=1")));
        assert!(!may_run(&format!("{one_each}\ngang x pods=16 gpus=1")));
        assert!(!may_run(&format!(
            "{one_each}\ngang x\npart a pods=2 gpus=7\npart b pods=2 gpus=1"
        )));
        assert!(!may_run("foreign f gpus=8 on n1\nforeign g gpus=1 on n2\njob x gpus=8"));
        let leaving = "job web pods=2 min=2 gpus=1 non-preemptible releasing on n1 n2";
        assert!(may_run(&format!("{leaving}\njob x gpus=8")));
        let shared = "job web pods=2 min=2 part=0.6 non-preemptible on n1/a n2/b";
        assert!(may_run(&format!("{shared}\njob x part=0.4")));
        assert!(may_run(&format!("{shared}\njob x gpus=7")));
        assert!(!may_run(&format!("{shared}\njob x gpus=8")));
        assert!(!may_run(&format!("{shared}\ngang x pods=31 part=0.5")));
    }

    #[test]
    fn profiles_that_evict_by_priority_alone_evict_any_pod() {
        let text = "job web pods=2 min=2 gpus=1 non-preemptible on n1 n2\njob x gpus=8";
        assert!(may_run_with(&Profile::kube(), text));
    }

    #[test]
    fn gangs_larger_than_all_nodes_never_run() {
        for never in ["gang x pods=9 gpus=2", "gang x pods=18 gpus=1", "job x gpus=9"] {
            assert!(!may_run(never), "{never}");
        }
        assert!(may_run("gang x pods=4 gpus=2 needs zone=z"));
        assert!(!may_run("gang x pods=5 gpus=2 needs zone=z"));
        assert!(!may_run("gang x pods=2 gpus=1 needs zone=x"));
        assert!(may_run("node n4 gpus=2 by-claim\njob x pods=9 min=9 claim c:2"));
        assert!(!may_run("node n4 gpus=2 by-claim\njob x pods=9 min=9 claim c:3"));
        assert!(may_run("gang x\npart a pods=2 gpus=8\npart b pods=1 gpus=1"));
        assert!(!may_run("gang x\npart a pods=2 gpus=8\npart b pods=1 gpus=2"));
    }

    #[test]
    fn a_required_level_needs_one_domain_that_holds_all_pods() {
        assert!(may_run("gang x pods=9 gpus=1 together=dc/zone"));
        assert!(!may_run("gang x pods=10 gpus=1 together=dc/zone"));
        assert!(may_run("gang x pods=10 gpus=1 close=dc/zone"));
        let web = "job web gpus=1 non-preemptible on n2";
        assert!(!may_run(&format!("{web}\ngang x pods=9 gpus=1 together=dc/zone")));
        let mixed = "gang x together=dc/zone";
        assert!(may_run(&format!("{mixed}\npart a gpus=8\npart b gpus=1")));
        assert!(!may_run(&format!("{mixed}\npart a pods=2 gpus=8\npart b gpus=1")));
    }
}
