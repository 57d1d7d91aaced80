//! Explains why a pod group is pending: the dominant reason with suggestions, which are simulated
//! on a copy of the cluster; the verdict of each plugin, grouped by node; and the accounts of its
//! queues. An explanation runs the same cycle as [`schedlab_scheduler_core::schedule`] and inspects
//! its result.

mod hypothetical_node;
mod hypothetical_pod;
mod hypothetical_snapshot;
mod queue;
mod queue_text;
mod simulator;
mod suggestions;
mod text;
mod trial;

use std::collections::BTreeMap;

use hypothetical_node::NodeSize;
use hypothetical_snapshot::MissingPods;
pub use queue::{QueueBalance, QueueExplanation, VictimCandidate, explain_queue};
pub use queue_text::QueueExplanationText;
use schedlab_scheduler_core::{
    Decision, Plan, Profile, Reason, Snapshot,
    framework::{Fit, Session, Statement},
    inspect::run_cycle,
    model::{DeviceClaim, FractionalGpu, Name, NodeId, PodGroupId, PodId, PodShape, QueueId},
    queues::Account,
    reason::{FitError, Suggestion},
    resources::Resources,
};
pub use simulator::CYCLES_AFTER_LIMIT;
use simulator::CycleSimulator;
use suggestions::{Situation, SuggestionSearch};
pub use text::ExplanationText;
use trial::placements_of_other_jobs;

/// The explanation of one pod group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The pod group that is explained.
    pub group: PodGroupId,
    /// Number of the group's pods that have a node.
    pub active: u32,
    /// Number of the group's pods without a node, including gated and invalid ones.
    pub pending: u32,
    /// Minimum number of the group's pods that must run together.
    pub minimum: u64,
    /// Decisions of the next cycle about the group.
    pub decisions: Vec<Decision>,
    /// Why the group is pending. `None`: no pod is pending, or all pending pods get a node.
    pub reason: Option<Reason>,
    /// Suggestions for `reason` and for the reasons that follow, until the group runs.
    pub suggestions: Vec<SuggestedStep>,
    /// Accounts of the group's queue and all its ancestors, leaf first.
    pub queues: Vec<(QueueId, Account)>,
    /// Verdicts of plugins that do not depend on nodes: plugin name, and the reason if the plugin
    /// rejects the group.
    pub plugins: Vec<(String, Option<Reason>)>,
    /// Verdicts about the group's next pod on each node; equal nodes are grouped. `None`: no pod is
    /// pending.
    pub nodes: Option<NodeReport>,
    /// The profile's limit of simulated evictions, if the explanation reached it: from then on no
    /// pods were evicted for other pod groups, and no suggestion was tried after
    /// [`CYCLES_AFTER_LIMIT`] cycles.
    pub search_stopped_at: Option<usize>,
}

/// One suggestion, simulated on top of the ones before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedStep {
    /// The suggestion itself.
    pub suggestion: Suggestion,
    /// The total amount of the suggestion that is needed, because jobs that come first take part of
    /// what it provides.
    pub total: Option<Suggestion>,
    /// A smaller amount that also suffices together with all other steps: not by itself, but
    /// because other jobs are evicted for the group or stay pending behind it.
    pub minimum: Option<Suggestion>,
    /// The result of simulating the suggestion.
    pub outcome: TrialOutcome,
}

/// What the cycle after a suggestion was applied does for the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The group runs.
    Runs {
        /// Name of the node of the group's first pod.
        node: Name,
        /// Whether the group runs at once or after evicted pods have left.
        fits: Fit,
        /// The size that added nodes must have, if nodes are added: with other sizes, other jobs
        /// would take the nodes first.
        new_nodes: NewNodeSize,
    },
    /// The group starts, is soon evicted for other jobs, and is then pending for this reason.
    EvictedAgain(Reason),
    /// The group is still pending, for this reason.
    StillPending(Reason),
    /// The suggestion was not simulated, because it depends on something that the snapshot does not
    /// contain.
    NotSimulated,
}

/// The size of added nodes with which a group runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NewNodeSize {
    /// Any size from one pod per node to all pods on one node, or the size is not known to matter.
    #[default]
    Any,
    /// Nodes that hold one of the pods each.
    OnePodEach,
    /// Nodes each of which holds all of these pods that may share a node.
    AllPodsOfNode,
    /// Nodes each of which holds all of these pods, with at least the CPU and memory of existing
    /// nodes.
    Large,
}

/// The verdicts about one pod on all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The pod that the verdicts are about.
    pub pod: PodId,
    /// Resource requests of the pod.
    pub request: Resources,
    /// GPU fraction that the pod requests, if any.
    pub shared_gpu: Option<FractionalGpu>,
    /// Device claims of the pod, which are not part of `request`.
    pub claims: Vec<DeviceClaim>,
    /// Nodes with equal verdicts, grouped.
    pub groups: Vec<NodeGroup>,
}

/// Nodes with equal verdicts and equal free capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Node names.
    pub nodes: Vec<Name>,
    /// Filters that reject the nodes, with the error. `None` instead of an error: the pod would
    /// have to wait for releasing capacity.
    pub rejections: Vec<(String, Option<FitError>)>,
    /// Free capacity of each node.
    pub free: Resources,
    /// Allocatable resources of each node.
    pub allocatable: Resources,
    /// Number of pods of the same group on each node, including those that this cycle places before
    /// the pod.
    pub gang_peers: usize,
    /// The free part of the GPU with the most free capacity, in thousandths or MiB, whichever the
    /// pod requests. `None`: the pod requests no fraction, or it requests MiB and the GPU memory is
    /// unknown.
    pub largest_free_fraction: Option<i64>,
}

/// Explains what the next cycle decides about `group`, why, and what would let the group run.
pub fn explain(snapshot: &Snapshot, profile: &Profile, group: PodGroupId) -> Explanation {
    ExplainedCycle::new(snapshot, profile).explain(group)
}

/// The next cycle of a cluster, for explanations of its pod groups.
pub struct ExplainedCycle<'a> {
    snapshot: &'a Snapshot,
    profile: &'a Profile,
    statement: Statement<'a>,
    plan: Plan,
}

impl<'a> ExplainedCycle<'a> {
    /// Runs the cycle.
    pub fn new(snapshot: &'a Snapshot, profile: &'a Profile) -> Self {
        let (statement, plan) = run_cycle(snapshot, profile, &mut ());
        Self { snapshot, profile, statement, plan }
    }

    /// What the cycle decides.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Explains what the cycle decides about `group`, why, and what would let the group run. If the
    /// cycle reached the profile's limit of simulated evictions before it decided about the group,
    /// the explained cycle evicts pods for this group only.
    pub fn explain(&mut self, group: PodGroupId) -> Explanation {
        let simulator = CycleSimulator::new(self.profile, group);
        simulator.record(&self.statement);
        if simulator.is_limit_reached()
            && decisions_for(&self.statement, &self.plan, group).is_empty()
        {
            let (mut statement, plan) = simulator.run(self.snapshot);
            explain_after_cycle(&mut statement, &plan, group, &simulator)
        } else {
            explain_after_cycle(&mut self.statement, &self.plan, group, &simulator)
        }
    }
}

fn explain_after_cycle(
    statement: &mut Statement<'_>,
    plan: &Plan,
    group: PodGroupId,
    simulator: &CycleSimulator<'_>,
) -> Explanation {
    let missing_pods = find_missing_pods(statement, group);
    let members = statement.members(group);
    let unusable = statement.group(group).unschedulable_members.len();
    let (waits, minimum) =
        (members.waiting_pods().count(), members.minimum_count(statement.group(group)));
    let snapshot = statement.snapshot;
    let mut explanation = Explanation {
        group,
        active: count_running(snapshot, group),
        pending: u32::try_from(waits + unusable)
            .unwrap_or(u32::MAX)
            .saturating_add(members.gated_count()),
        minimum,
        decisions: decisions_for(statement, plan, group),
        reason: plan.waiting.get(&group).cloned(),
        suggestions: Vec::new(),
        queues: accounts_up_to_root(statement, group),
        plugins: check_node_independent_plugins(statement, group),
        nodes: report_nodes(statement, group),
        search_stopped_at: None,
    };
    if let Some(reason) = &explanation.reason {
        let others = placements_of_other_jobs(statement, plan, group);
        let situation = Situation { reason: reason.clone(), missing: missing_pods, others };
        explanation.suggestions =
            SuggestionSearch { snapshot, simulator, group, size: NodeSize::Ample }
                .suggest_steps(situation);
    }
    explanation.search_stopped_at = simulator.reached_limit();
    explanation
}

fn count_running(snapshot: &Snapshot, group: PodGroupId) -> u32 {
    let held = snapshot.pods.iter().filter(|pod| pod.group == Some(group) && pod.node.is_some());
    u32::try_from(held.count()).unwrap_or(u32::MAX)
}

fn decisions_for(session: &Session<'_>, plan: &Plan, group: PodGroupId) -> Vec<Decision> {
    let concerns = |decision: &&Decision| match decision {
        Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => {
            session.pod(*pod).group == Some(group)
        }
        Decision::Evict { pod, cause } => {
            session.pod(*pod).group == Some(group) || cause.preemptor() == Some(group)
        }
    };
    plan.decisions.iter().filter(concerns).cloned().collect()
}

fn accounts_up_to_root(session: &Session<'_>, group: PodGroupId) -> Vec<(QueueId, Account)> {
    let Ok(Some(queue)) = session.group(group).queue else { return Vec::new() };
    let queue_accounts = session.accounts();
    queue_accounts
        .path_to_root(queue)
        .map(|queue| (queue, queue_accounts.account(queue).clone()))
        .collect()
}

/// Runs the PreEnqueue and PreFilter plugins and the topology check, which do not depend on single
/// nodes.
fn check_node_independent_plugins(
    statement: &mut Statement<'_>,
    group: PodGroupId,
) -> Vec<(String, Option<Reason>)> {
    let list = &statement.profile.plugins;
    let enqueue = list.pre_enqueue.iter();
    let mut verdicts: Vec<(String, Option<Reason>)> = enqueue
        .map(|plugin| (format!("{plugin:?}"), plugin.pre_enqueue(statement, group).err()))
        .collect();
    let pods = statement.next_chunk(group);
    if !pods.is_empty() && verdicts.iter().all(|(_, rejection)| rejection.is_none()) {
        let pre_filters = list.pre_filter.iter();
        verdicts.extend(pre_filters.map(|plugin| {
            (format!("{plugin:?}"), plugin.pre_filter(statement, group, &pods).err())
        }));
        if statement.group(group).has_topology_constraint() {
            verdicts.push((TOPOLOGY_PLUGIN.to_owned(), topology_error(statement, &pods)));
        }
    }
    verdicts
}

/// Name of KAI's plugin for topology constraints. This crate has no such plugin: it checks the
/// constraints while it places pods.
const TOPOLOGY_PLUGIN: &str = "topology";

fn topology_error(statement: &mut Statement<'_>, pods: &[PodId]) -> Option<Reason> {
    let start = statement.checkpoint();
    let failure = statement.allocate_all(pods).err();
    statement.undo_to(start);
    failure?.no_domain.map(|no_domain| Reason::NoTopologyDomain(*no_domain))
}

/// Reports the nodes for the first pod that does not fit, given the placements of the pods before
/// it.
fn report_nodes(statement: &mut Statement<'_>, group: PodGroupId) -> Option<NodeReport> {
    let pods = statement.next_chunk(group);
    let start = statement.checkpoint();
    let placed = statement.allocate_all(&pods).err().map_or(0, |failure| failure.found as usize);
    statement.undo_to(start);
    let are_placed = placed < pods.len() && statement.allocate_all(&pods[..placed]).is_ok();
    let missing = if are_placed { &pods[placed..] } else { &pods };
    let &pod = missing.first()?;
    let groups = node_groups(statement, pod, missing);
    let PodShape { requests, fractional_gpu: shared_gpu, claims, .. } = statement.shape_of(pod);
    let (asks, shared_gpu, claims) = (requests.clone(), *shared_gpu, claims.clone());
    statement.undo_to(start);
    Some(NodeReport { pod, request: asks, shared_gpu, claims, groups })
}

fn node_groups(session: &Session<'_>, pod: PodId, missing: &[PodId]) -> Vec<NodeGroup> {
    type GroupKey = (Vec<(String, Option<FitError>)>, Resources, Resources, Option<i64>, usize);
    let mut by_verdict: BTreeMap<GroupKey, Vec<Name>> = BTreeMap::new();
    let shared_gpu = session.shape_of(pod).fractional_gpu;
    let mut outside_domains = session.nodes_outside_domains(missing, pod);
    for (node, verdicts) in session.node_ids().zip(session.filter_results(pod)) {
        let rejections = verdicts.into_iter().filter_map(|(plugin, verdict)| match verdict {
            Ok(Fit::Now) => None,
            Ok(Fit::Later) => Some((plugin, None)),
            Err(error) => Some((plugin, Some(error))),
        });
        let outside_domains = outside_domains.remove(&node);
        let outside_domains = outside_domains
            .map(|error| (TOPOLOGY_PLUGIN.to_owned(), Some(FitError::Topology(error))));
        let rejections = rejections.chain(outside_domains).collect();
        let (room, of) = (session.node_info(node), session.node(node));
        let shared = shared_gpu.filter(|shared| shared.is_size_known_on(of));
        let largest_free_fraction =
            shared.map(|shared| shared.from_units(of, room.max_idle_units(of)));
        let gang_peers = session.gang_peers_on(pod, node).count();
        let mut free = room.idle.clone();
        let for_all =
            of.allocatable.extended.iter().filter(|(_, all)| **all == Resources::INEXHAUSTIBLE);
        free.extended.extend(for_all.map(|(name, all)| (Name::clone(name), *all)));
        let key = (rejections, free, of.allocatable.clone(), largest_free_fraction, gang_peers);
        by_verdict.entry(key).or_default().push(Name::clone(&of.name));
    }
    let group = |((rejections, free, allocatable, largest_free_fraction, gang_peers), nodes)| {
        NodeGroup { nodes, rejections, free, allocatable, gang_peers, largest_free_fraction }
    };
    let mut groups: Vec<NodeGroup> = by_verdict.into_iter().map(group).collect();
    groups.sort_by(|a, b| (a.rejections.len(), &a.nodes).cmp(&(b.rejections.len(), &b.nodes)));
    groups
}

/// The pods of the group that are to be placed next, starting with the first that does not fit.
fn find_missing_pods(statement: &mut Statement<'_>, group: PodGroupId) -> MissingPods {
    let pods = statement.next_chunk(group);
    let start = statement.checkpoint();
    let failure = statement.allocate_all(&pods).err();
    statement.undo_to(start);
    let first = failure.and_then(|failure| pods.iter().position(|pod| *pod == failure.pod));
    let (before, missing) = pods.split_at(first.unwrap_or(0));
    let (full_nodes, worst) = match missing.first().filter(|_| first.is_some()) {
        Some(pod) if before.is_empty() || statement.allocate_all(before).is_ok() => {
            (nodes_full_for_pod(statement, *pod), statement.worst_fit_errors_by_node(*pod))
        }
        Some(_) | None => (Vec::new(), Vec::new()),
    };
    statement.undo_to(start);
    let shapes = missing.iter().map(|pod| statement.pod(*pod).shape).collect();
    let of = statement.group(group);
    let has_required_domain = |constrained_sub_group: &usize| {
        of.topology_constraint(Some(*constrained_sub_group))
            .is_some_and(|constraint| constraint.required.is_some())
    };
    let constrained_sub_group =
        |pod: &PodId| of.path_to_root(statement.pod(*pod).sub_group).find(has_required_domain);
    let constrained_sub_groups = missing.iter().map(constrained_sub_group).collect();
    let used = accounts_up_to_root(statement, group).into_iter();
    let name = |queue: QueueId| Name::clone(&statement.snapshot.queues[queue.0 as usize].name);
    let used = used.map(|(queue, account)| (name(queue), account.allocated)).collect();
    MissingPods {
        shapes,
        constrained_sub_groups,
        full_nodes,
        worst_fit_errors: worst,
        used,
        beyond_capacity: statement.shapes_beyond_empty_cluster(&pods),
    }
}

/// Nodes that reject the pod only because other pods use their capacity.
fn nodes_full_for_pod(session: &Session<'_>, pod: PodId) -> Vec<NodeId> {
    let outside_domains = session.nodes_outside_domains(&[pod], pod);
    let full = session.nodes_that_are_only_too_full(pod).into_iter();
    full.filter(|node| !outside_domains.contains_key(node)).collect()
}
