//! Failed searches that later cycles need not repeat. A search fails again as long as all that it
//! read is the same: the nodes, the pods on them, the use and the fair shares of the queues; and, if
//! it simulated evictions, the pending jobs that take part in simulations. All of that is compared
//! with what the last cycle saw, so plans are the same with and without the memory.

use std::collections::BTreeMap;

use super::{Preemptor, SchedulingSignature, search::TRIALS_UNTIL_LATE};
use crate::{
    framework::{NodesRevision, PodState, ScenarioCounts, Session},
    model::{
        GpuGroup, Labels, LeaderRole, Name, Node, NodeId, PodGroup, PodGroupId, PodId, PodShape,
        Queue, QueueId, ShapeId, Time, Topology,
    },
    profile::{Action, VictimSearch},
    queues::Account,
    resources::PerResource,
};

/// What cycles remember of failed searches for victims. It goes from one cycle to the next of the
/// same scheduler with the same profile; an empty memory is always valid.
#[derive(Clone, Debug, Default)]
pub struct SearchMemory {
    seen: Option<SeenCluster>,
    /// The failed searches in that cluster, with the numbers of victim sets that each considered.
    failed: BTreeMap<FailedSearch, ScenarioCounts>,
    /// Number of searches that were not repeated so far.
    skipped: u64,
}

/// The jobs for which a search failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailedSearch {
    action: Action,
    /// The only job, by uid. `None`: jobs of all groups without pods on nodes.
    group: Option<Name>,
    queue: QueueId,
    priority: i32,
    preemptible: bool,
    signature: SchedulingSignature,
    /// Shapes of the pods to place next, in their order.
    shapes: Vec<ShapeId>,
    request: PerResource<i64>,
    share_request: PerResource<i64>,
}

/// What the searches of a cycle depend on.
#[derive(Clone, Debug)]
struct SeenCluster {
    config: ClusterConfig,
    /// The accounts of the queues, without what pending pods request.
    accounts: Vec<Account>,
    total_shared: PerResource<i64>,
    placed: Members,
    waiting: Members,
}

/// What changes rarely.
#[derive(Clone, Debug)]
struct ClusterConfig {
    nodes_revision: NodesRevision,
    seed: u64,
    nodes: Vec<Node>,
    queues: Vec<Queue>,
    topologies: Vec<Topology>,
    shapes: Vec<PodShape>,
    namespaces: BTreeMap<Name, Labels>,
}

/// Pods and pod groups, each in the order of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Members {
    pods: Vec<PodRecord>,
    groups: Vec<GroupRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PodRecord {
    uid: Name,
    /// The uid of its group.
    group: Option<Name>,
    sub_group: usize,
    shape: ShapeId,
    state: PodState,
    /// Whether it was on its node before this cycle.
    can_evict: bool,
    gpu_groups: Vec<GpuGroup>,
    nominated_node: Option<NodeId>,
    task_priority: Option<i32>,
    leader_role: Option<LeaderRole>,
    created: Time,
    /// Namespace and labels, if some pod selects others by them.
    selectable: Option<(Name, Labels)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupRecord {
    uid: Name,
    queue: Option<QueueId>,
    priority: i32,
    preemptible: bool,
    created: Time,
    evicted_together: bool,
    is_skipped: bool,
    min_member: u32,
    counts: MemberCounts,
    /// A group with sub-groups, topology constraints or unschedulable members.
    structured: Option<Box<(PodGroup, Vec<MemberCounts>)>>,
}

/// Numbers of pods of a sub-group: waiting, active, pipelined, gated, leaving, succeeded and
/// unschedulable.
type MemberCounts = [u32; 7];

impl SearchMemory {
    /// Number of searches that cycles with this memory did not repeat.
    pub const fn skipped_searches(&self) -> u64 {
        self.skipped
    }

    /// Drops what no longer holds. Called before the searches of an action.
    pub(super) fn observe_cluster(&mut self, session: &Session<'_>) {
        if !is_comparable(session) {
            *self = Self { skipped: self.skipped, ..Self::default() };
            return;
        }
        let ((placed, waiting), accounts) = (members_of(session), accounts_of(session));
        let total_shared = session.accounts().total_shared();
        let Some(seen) = &mut self.seen else {
            let config = ClusterConfig::new(session);
            self.seen = Some(SeenCluster { config, accounts, total_shared, placed, waiting });
            return;
        };
        let is_config_same = seen.config.update(session);
        if is_config_same
            && seen.total_shared == total_shared
            && seen.accounts == accounts
            && seen.placed == placed
        {
            if seen.waiting != waiting {
                self.failed.retain(|_, counts| counts.simulated == 0);
                seen.waiting = waiting;
            }
            return;
        }
        self.failed.clear();
        (seen.accounts, seen.total_shared) = (accounts, total_shared);
        (seen.placed, seen.waiting) = (placed, waiting);
    }

    /// The numbers of victim sets that a failed search for the job considered, if it would fail
    /// again.
    pub(super) fn find_failed(
        &mut self,
        session: &Session<'_>,
        search: &FailedSearch,
        job: PodGroupId,
    ) -> Option<ScenarioCounts> {
        let is_alike = session.members(job).scheduled_count() == 0;
        let of_all = || self.failed.get(&FailedSearch { group: None, ..search.clone() });
        let of_others = || is_alike.then(of_all).flatten();
        let known = *self.failed.get(search).or_else(of_others)?;
        let simulated = session.scenario_counts().simulated + known.simulated;
        let is_repeated = simulated <= TRIALS_UNTIL_LATE;
        self.skipped += u64::from(is_repeated);
        is_repeated.then_some(known)
    }

    /// Records that the search failed after it considered `counts` victim sets.
    pub(super) fn insert_failed(
        &mut self,
        session: &Session<'_>,
        search: FailedSearch,
        job: PodGroupId,
        counts: ScenarioCounts,
    ) {
        // Later searches of a cycle simulate less.
        if self.seen.is_none() || session.scenario_counts().simulated > TRIALS_UNTIL_LATE {
            return;
        }
        let is_same_for_others =
            counts.simulated == 0 && session.members(job).scheduled_count() == 0;
        let group = search.group.clone().filter(|_| !is_same_for_others);
        self.failed.insert(FailedSearch { group, ..search }, counts);
    }
}

impl FailedSearch {
    /// The search of the action for the job; `None` if it depends on more than is compared.
    pub(super) fn new(
        session: &Session<'_>,
        action: Action,
        preemptor: &Preemptor,
    ) -> Option<Self> {
        let Preemptor { group, queue, preemptible, ref pods, request, share_request, .. } =
            *preemptor;
        let spec = session.group(group);
        if spec.sub_groups.len() > 1 || pods.iter().any(|pod| session.fit_depends_on_cluster(*pod))
        {
            return None;
        }
        Some(Self {
            action,
            group: Some(Name::clone(&spec.uid)),
            queue,
            priority: spec.priority,
            preemptible,
            signature: SchedulingSignature::for_pods(session, group, pods)?,
            shapes: pods.iter().map(|pod| session.pod(*pod).shape).collect(),
            request,
            share_request,
        })
    }
}

impl ClusterConfig {
    fn new(session: &Session<'_>) -> Self {
        let Session { snapshot, nodes_revision, .. } = session;
        Self {
            nodes_revision: nodes_revision.clone(),
            seed: snapshot.seed,
            nodes: snapshot.nodes.clone(),
            queues: snapshot.queues.clone(),
            topologies: snapshot.topologies.clone(),
            shapes: snapshot.shapes.clone(),
            namespaces: snapshot.namespaces.clone(),
        }
    }

    /// Makes it that of the snapshot. Returns whether it was equal but for further shapes, which no
    /// pod had before.
    fn update(&mut self, session: &Session<'_>) -> bool {
        let Session { snapshot, nodes_revision, .. } = session;
        let is_same = self.seed == snapshot.seed
            && (self.nodes_revision.is_same(nodes_revision) || self.nodes == snapshot.nodes)
            && self.queues == snapshot.queues
            && self.topologies == snapshot.topologies
            && snapshot.shapes.starts_with(&self.shapes)
            && self.namespaces == snapshot.namespaces;
        if !is_same {
            *self = Self::new(session);
            return false;
        }
        self.nodes_revision = nodes_revision.clone();
        if self.shapes.len() < snapshot.shapes.len() {
            self.shapes.extend_from_slice(&snapshot.shapes[self.shapes.len()..]);
        }
        is_same
    }
}

impl PodRecord {
    fn new(session: &Session<'_>, id: PodId, has_selectors: bool) -> Self {
        let pod = session.pod(id);
        Self {
            uid: Name::clone(&pod.uid),
            group: pod.group.map(|group| Name::clone(&session.group(group).uid)),
            sub_group: pod.sub_group,
            shape: pod.shape,
            state: session.state(id),
            can_evict: session.can_evict(id),
            gpu_groups: session.gpu_groups(id).to_vec(),
            nominated_node: pod.nominated_node,
            task_priority: pod.task_priority,
            leader_role: pod.leader_role,
            created: pod.created,
            selectable: has_selectors.then(|| (Name::clone(&pod.namespace), pod.labels.clone())),
        }
    }
}

impl GroupRecord {
    fn new(session: &Session<'_>, id: PodGroupId) -> Self {
        let group = session.group(id);
        let counts: Vec<MemberCounts> =
            (0..group.sub_groups.len()).map(|at| member_counts(session, id, at)).collect();
        let is_plain = group.sub_groups.len() == 1
            && !group.has_topology_constraint()
            && group.unschedulable_members.is_empty();
        let first = counts.first().copied().unwrap_or_default();
        // When its pods were started or evicted matters only for minimum runtimes.
        let without_times = || PodGroup {
            last_start: None,
            last_eviction: None,
            stale_since: None,
            ..group.clone()
        };
        Self {
            uid: Name::clone(&group.uid),
            queue: group.queue_id(),
            priority: group.priority,
            preemptible: group.preemptible,
            created: group.created,
            evicted_together: group.evicted_together,
            is_skipped: group.is_skipped,
            min_member: group.sub_groups.first().map_or(0, |only| only.min_member),
            counts: first,
            structured: (!is_plain).then(|| Box::new((without_times(), counts))),
        }
    }
}

fn member_counts(session: &Session<'_>, group: PodGroupId, sub_group: usize) -> MemberCounts {
    let of = session.members(group).of_sub_group(sub_group);
    let waiting = u32::try_from(of.waiting.len()).expect("pod ids are 32 bits");
    [waiting, of.active, of.pipelined, of.gated, of.leaving, of.succeeded, of.unschedulable]
}

/// Whether everything that searches read is compared: not the time, which minimum runtimes depend
/// on, limits of the searches, claims, volumes and NUMA zones.
fn is_comparable(session: &Session<'_>) -> bool {
    !session.has_min_runtimes()
        && session.profile.victim_search == VictimSearch::Unlimited
        && session.pods_with_claims().is_empty()
        && session.pods_with_volumes().is_empty()
        && session.numa_zones_max() == 0
}

/// The pods and groups that have a place, and those that wait.
fn members_of(session: &Session<'_>) -> (Members, Members) {
    let has_selectors = session.snapshot.shapes.iter().any(|shape| {
        !(shape.pod_affinity.is_empty()
            && shape.pod_anti_affinity.is_empty()
            && shape.pod_preferences.is_empty()
            && shape.topology_spread.is_empty())
    });
    let (mut placed, mut waiting) = (Members::default(), Members::default());
    for pod in session.pod_ids() {
        let members = match session.state(pod) {
            PodState::Finished => continue,
            PodState::Pending | PodState::Gated => &mut waiting,
            PodState::Allocated(_)
            | PodState::Releasing(_)
            | PodState::Stuck(_)
            | PodState::Pipelined(_)
            | PodState::Moving { .. }
            | PodState::OnExcludedNode
            | PodState::OnMissingNode => &mut placed,
        };
        members.pods.push(PodRecord::new(session, pod, has_selectors));
    }
    for group in session.groups() {
        let members = session.members(group);
        let list = if members.scheduled_count() > 0 {
            &mut placed
        } else if members.has_waiting() || members.gated_count() > 0 {
            &mut waiting
        } else {
            continue;
        };
        list.groups.push(GroupRecord::new(session, group));
    }
    (placed, waiting)
}

fn accounts_of(session: &Session<'_>) -> Vec<Account> {
    let queues = (0..session.snapshot.queues.len())
        .map(|at| QueueId(u32::try_from(at).expect("queue ids are 32 bits")));
    let account = |queue| Account {
        requested: PerResource::default(),
        ..session.accounts().account(queue).clone()
    };
    queues.map(account).collect()
}
