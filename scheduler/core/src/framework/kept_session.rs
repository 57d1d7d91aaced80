//! What a session derives from its snapshot, kept between cycles. At the end of a cycle what the
//! cycle changed is restored; before the next one the changes of the snapshot are applied. Both
//! cost what changed, besides loops over a few bytes of each pod and group. The result equals what
//! is derived anew, so that decisions do not depend on what was kept.

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    CapacityIndex, PodState, Profile, Session,
    caches::{Caches, Uncloned},
    constraint_index::ConstraintIndex,
    cycle_outcome::CycleOutcome,
    evictable_capacity::{FreeAfterEvictions, MaximumCounts},
    filter_results::FilterResultsByShape,
    group_states::{GroupStates, PodsByGroup},
    node::NodeStates,
    node_ranking::NodePreferences,
    pod::PodStates,
    queue_state::QueueState,
    topology::DomainPaths,
};
use crate::{
    Snapshot,
    model::{ListEdit, PodGroupId, PodId, ShapeId, SnapshotChanges},
    queues::{compare_age, groups_by_age},
};

/// What the session of the last cycle derived from its snapshot, for the session of the next cycle
/// with the same profile. A default one holds nothing yet.
#[derive(Clone, Debug, Default)]
pub struct KeptSession(Option<Derived>);

/// What is derived from a snapshot.
#[derive(Clone, Debug)]
struct Derived {
    nodes_revision: NodesRevision,
    nodes: NodeStates,
    pods: PodStates,
    groups: GroupStates,
    queues: QueueState,
    constraints: ConstraintIndex,
    /// These are derived on first use.
    on_demand: OnDemand,
}

/// Identifies a state of the nodes: sessions with the same revision have equal `Node` objects. Pods
/// on the nodes do not count.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesRevision(Arc<()>);

impl NodesRevision {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What is derived on first use.
#[derive(Clone, Debug, Default)]
struct OnDemand {
    groups_by_age: Option<Arc<Vec<PodGroupId>>>,
    free_after_evictions: Option<FreeAfterEvictions>,
    /// As long as `free_after_evictions` is the same.
    maximum_counts: MaximumCounts,
    domain_paths: Option<DomainPaths>,
    /// As long as no node changes but in its pods.
    eligible_nodes: BTreeMap<ShapeId, Arc<[bool]>>,
    /// Follows the log of changed nodes.
    capacity: Option<CapacityIndex>,
    filter_results: FilterResultsByShape,
}

/// Up to so many changed groups are sorted into the groups by age one by one.
const SORTED_IN_MAX: usize = 64;

impl KeptSession {
    /// Everything that is derived from the snapshot, anew.
    pub(super) fn new(snapshot: &Snapshot, profile: &Profile) -> Self {
        Self(Some(Derived::new(snapshot, profile)))
    }

    /// Follows the changes of the snapshot since the last cycle.
    pub(crate) fn update(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        changes: &SnapshotChanges,
    ) {
        match &mut self.0 {
            Some(derived) if !changes.everything => derived.update(snapshot, profile, changes),
            derived => *derived = Some(Derived::new(snapshot, profile)),
        }
    }

    /// Starts a cycle with the snapshot that everything is derived from.
    pub(crate) fn open<'s>(&mut self, snapshot: &'s Snapshot, profile: &'s Profile) -> Session<'s> {
        let derived = self.0.take().unwrap_or_else(|| Derived::new(snapshot, profile));
        let Derived { nodes_revision, nodes, pods, groups, queues, constraints, on_demand } =
            derived;
        let mut caches = Caches::default();
        caches.groups_by_age = once_cell(on_demand.groups_by_age);
        caches.domain_paths = once_cell(on_demand.domain_paths);
        caches.evictable_capacity.nodes = once_cell(on_demand.free_after_evictions);
        caches.evictable_capacity.counts = RefCell::new(on_demand.maximum_counts);
        caches.eligible_nodes = RefCell::new(on_demand.eligible_nodes);
        caches.capacity = Uncloned(on_demand.capacity);
        caches.filter_results = Uncloned(RefCell::new(on_demand.filter_results));
        Session {
            snapshot,
            profile,
            nodes_revision,
            nodes,
            pods,
            groups,
            queues,
            constraints,
            preferences: NodePreferences::default(),
            caches,
            outcome: CycleOutcome::default(),
        }
    }

    /// Ends a cycle: restores what it changed.
    pub(crate) fn close(&mut self, mut session: Session<'_>) {
        let touched: Vec<PodId> = session.pods.touched_pods().collect();
        for pod in &touched {
            session.remove_member(*pod);
        }
        session.pods.restore();
        for pod in &touched {
            session.add_member(*pod);
        }
        let Session { snapshot, nodes_revision, mut nodes, pods, groups, .. } = session;
        let Session { mut queues, constraints, caches, .. } = session;
        let outdated = nodes.touched().to_vec();
        nodes.rebuild(snapshot, &pods, &outdated);
        queues.restore();
        let on_demand = OnDemand::from_caches(caches);
        self.0 =
            Some(Derived { nodes_revision, nodes, pods, groups, queues, constraints, on_demand });
    }

    /// What differs from what is derived anew from the snapshot; `None`: nothing.
    pub fn outdated_part(&self, snapshot: &Snapshot, profile: &Profile) -> Option<&'static str> {
        let derived = self.0.as_ref()?;
        let anew = Derived::new(snapshot, profile);
        let on_demand = Self(Some(anew.clone())).open(snapshot, profile).derive_on_demand();
        let OnDemand { groups_by_age, free_after_evictions, domain_paths, .. } = &derived.on_demand;
        let parts = [
            ("pods", derived.pods.is_same(&anew.pods)),
            ("groups", derived.groups.is_same(&anew.groups)),
            ("nodes", derived.nodes.is_same(&anew.nodes)),
            ("queues", derived.queues.is_same(&anew.queues)),
            ("constraints", derived.constraints == anew.constraints),
            ("groups by age", groups_by_age.is_none() || *groups_by_age == on_demand.groups_by_age),
            (
                "free capacity after evictions",
                free_after_evictions.is_none()
                    || *free_after_evictions == on_demand.free_after_evictions,
            ),
            ("domains", domain_paths.is_none() || *domain_paths == on_demand.domain_paths),
            ("capacity of shapes", self.has_equal_shape_capacity(snapshot, profile)),
        ];
        parts.into_iter().find(|(_, is_same)| !is_same).map(|(part, _)| part)
    }
}

impl KeptSession {
    /// Whether what is kept by shape equals what is derived anew.
    fn has_equal_shape_capacity(&self, snapshot: &Snapshot, profile: &Profile) -> bool {
        let mut kept = self.clone().open(snapshot, profile);
        let anew = Session::new(snapshot, profile);
        let pods = (0..).map(PodId).zip(&snapshot.pods);
        let pods: BTreeMap<ShapeId, PodId> = pods.map(|(id, pod)| (pod.shape, id)).collect();
        let eligible = kept.caches.eligible_nodes.borrow().clone();
        let has_equal_nodes = |shape: ShapeId, nodes: &[bool]| {
            pods.get(&shape).is_none_or(|pod| *anew.eligible_nodes(*pod) == *nodes)
        };
        let filtered: Vec<ShapeId> = kept.caches.filter_results.0.borrow().shapes().collect();
        let has_equal_results = |shape: ShapeId| {
            let pod = pods.get(&shape).filter(|pod| anew.fit_depends_on_shape_only(**pod));
            pod.is_none_or(|pod| {
                kept.fit_errors_of_shape(*pod) == anew.fit_errors_of_shape(*pod)
                    && kept.full_nodes_of_shape(*pod) == anew.full_nodes_of_shape(*pod)
            })
        };
        filtered.into_iter().all(has_equal_results)
            && eligible.iter().all(|(shape, nodes)| has_equal_nodes(*shape, nodes))
            && anew.has_equal_capacity(&kept.take_capacity(), &pods)
            && pods.values().all(|pod| kept.has_equal_maximum_counts(&anew, *pod))
    }
}

fn once_cell<T>(value: Option<T>) -> OnceCell<T> {
    value.map_or_else(OnceCell::new, OnceCell::from)
}

impl Derived {
    fn new(snapshot: &Snapshot, profile: &Profile) -> Self {
        let pods = PodStates::new(snapshot, profile);
        let groups = GroupStates::new(snapshot, &pods);
        Self {
            nodes_revision: NodesRevision::default(),
            nodes: NodeStates::new(snapshot, &pods),
            queues: QueueState::new(snapshot, profile, pods.facts()),
            constraints: ConstraintIndex::new(snapshot, pods.facts(), &groups),
            groups,
            pods,
            on_demand: OnDemand::default(),
        }
    }

    fn update(&mut self, snapshot: &Snapshot, profile: &Profile, changes: &SnapshotChanges) {
        let SnapshotChanges { nodes: changed_nodes, group_edit, groups: changed_groups, .. } =
            changes;
        let pod_edit = &changes.pod_edit;
        let positions = |edit: &ListEdit, length: usize| {
            if edit.is_empty() { Vec::new() } else { edit.new_positions(length) }
        };
        let pod_positions = positions(pod_edit, self.pods.facts().len());
        let group_positions = positions(group_edit, self.groups.facts().len());
        let mut outdated =
            Outdated { nodes: vec![false; snapshot.nodes.len()], groups: changed_groups.clone() };
        for gone in pod_edit.removed() {
            outdated.add_pod(&self.pods, PodId(*gone), &group_positions);
        }
        for node in changed_nodes {
            outdated.nodes[node.0 as usize] = true;
        }
        if !changed_nodes.is_empty() {
            self.nodes_revision = NodesRevision::default();
            self.nodes.count_numa_zones(snapshot);
        }

        self.pods.edit(pod_edit, &group_positions);
        self.groups.edit(group_edit, &pod_positions);
        if !pod_positions.is_empty() {
            self.nodes.renumber_pods(&pod_positions);
        }

        let changed = self.pods_to_refresh(snapshot, profile, changes);
        for pod in &changed {
            outdated.add_pod(&self.pods, *pod, &[]);
        }
        self.pods.refresh(snapshot, profile, changes, &changed);
        for pod in &changed {
            outdated.add_pod(&self.pods, *pod, &[]);
        }

        let groups = self.pods_by_group(snapshot, &outdated.groups);
        self.pods.rank_groups(snapshot, profile, &groups);
        self.groups.rebuild(snapshot, &self.pods, &groups);
        self.nodes.rebuild(snapshot, &self.pods, &outdated.nodes);
        self.queues.update(snapshot, profile, changes, &changed, self.pods.facts());
        self.constraints = ConstraintIndex::new(snapshot, self.pods.facts(), &self.groups);
        self.update_on_demand(snapshot, profile, changes, &group_positions, &outdated.nodes);
    }

    /// The pods of which something may differ: those that changed, whose group or node changed, or
    /// whose termination takes too long by now.
    fn pods_to_refresh(
        &self,
        snapshot: &Snapshot,
        profile: &Profile,
        changes: &SnapshotChanges,
    ) -> Vec<PodId> {
        let mut changed = changes.pods.clone();
        changed.extend(self.pods.outdated_pods(snapshot, profile));
        if !changes.groups.is_empty() {
            let facts = (0..).map(PodId).zip(self.pods.facts());
            let is_of = |group: Option<PodGroupId>| {
                group.is_some_and(|group| changes.groups.contains(&group))
            };
            changed.extend(facts.filter(|(_, facts)| is_of(facts.group)).map(|(pod, _)| pod));
        }
        if !changes.nodes.is_empty() {
            let states = (0..).map(PodId).zip(self.pods.states());
            let is_there = |(_, state): &(PodId, &PodState)| {
                state.occupied_nodes().any(|(node, _)| changes.nodes.contains(&node))
            };
            changed.extend(states.filter(is_there).map(|(pod, _)| pod));
        }
        changed.into_iter().collect()
    }

    fn pods_by_group(&self, snapshot: &Snapshot, groups: &BTreeSet<PodGroupId>) -> PodsByGroup {
        let mut by_group: PodsByGroup = groups.iter().map(|group| (*group, Vec::new())).collect();
        let mut is_selected = vec![false; snapshot.pod_groups.len()];
        for group in groups {
            is_selected[group.0 as usize] = true;
        }
        for (pod, facts) in (0..).map(PodId).zip(self.pods.facts()) {
            if let Some(group) = facts.group.filter(|group| is_selected[group.0 as usize]) {
                by_group.entry(group).or_default().push(pod);
            }
        }
        by_group
    }

    fn update_on_demand(
        &mut self,
        snapshot: &Snapshot,
        profile: &Profile,
        changes: &SnapshotChanges,
        group_positions: &[Option<u32>],
        outdated_nodes: &[bool],
    ) {
        let known = &mut self.on_demand;
        if !changes.nodes.is_empty() {
            known.domain_paths = None;
            known.eligible_nodes.clear();
            known.capacity = None;
            known.filter_results = FilterResultsByShape::default();
            known.maximum_counts = MaximumCounts::default();
        }
        if let Some(free) = &mut known.free_after_evictions
            && free.update(snapshot, profile, &self.pods, outdated_nodes)
        {
            known.maximum_counts = MaximumCounts::default();
        }
        if changes.groups.len() > SORTED_IN_MAX {
            known.groups_by_age = None;
        }
        if let Some(order) = &mut known.groups_by_age
            && !(changes.groups.is_empty() && group_positions.is_empty())
        {
            let groups = &snapshot.pod_groups;
            let position = |group: &PodGroupId| match group_positions {
                [] => Some(*group),
                positions => positions[group.0 as usize].map(PodGroupId),
            };
            let kept = order.iter().filter_map(position);
            let mut order_now: Vec<PodGroupId> =
                kept.filter(|group| !changes.groups.contains(group)).collect();
            for group in &changes.groups {
                let at =
                    order_now.partition_point(|other| compare_age(groups, *other, *group).is_lt());
                order_now.insert(at, *group);
            }
            *order = Arc::new(order_now);
        }
    }
}

/// Nodes and groups that are derived anew.
struct Outdated {
    nodes: Vec<bool>,
    groups: BTreeSet<PodGroupId>,
}

impl Outdated {
    /// Adds the nodes and the group of a pod. Groups have these positions now, if they moved.
    fn add_pod(&mut self, pods: &PodStates, pod: PodId, group_positions: &[Option<u32>]) {
        for (node, _) in pods.state(pod).occupied_nodes() {
            self.nodes[node.0 as usize] = true;
        }
        let group = pods.facts()[pod.0 as usize].group;
        self.groups.extend(group.and_then(|group| match group_positions {
            [] => Some(group),
            positions => positions[group.0 as usize].map(PodGroupId),
        }));
    }
}

impl OnDemand {
    /// What later cycles may use of the caches.
    fn from_caches(caches: Caches) -> Self {
        Self {
            groups_by_age: caches.groups_by_age.into_inner(),
            free_after_evictions: caches.evictable_capacity.nodes.into_inner(),
            maximum_counts: caches.evictable_capacity.counts.into_inner(),
            domain_paths: caches.domain_paths.into_inner(),
            eligible_nodes: caches.eligible_nodes.into_inner(),
            capacity: caches.capacity.0.filter(CapacityIndex::is_small),
            filter_results: caches.filter_results.0.into_inner(),
        }
    }
}

impl Session<'_> {
    /// Derives what is derived on first use.
    fn derive_on_demand(&mut self) -> OnDemand {
        self.free_after_evictions();
        self.caches.domain_paths.get_or_init(|| self.domain_paths_by_topology());
        let by_age = || Arc::new(groups_by_age(&self.snapshot.pod_groups));
        self.caches.groups_by_age.get_or_init(by_age);
        OnDemand::from_caches(std::mem::take(&mut self.caches))
    }
}
