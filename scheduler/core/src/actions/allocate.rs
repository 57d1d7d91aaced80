//! Allocate: pending jobs get free capacity, in queue and job order. The pods that a gang lacks of
//! its minimum are placed together or not at all; a job that has its minimum gets one more pod and
//! is queued again, so that elastic jobs grow in turns. Only PostFilter plugins evict.
//!
//! Difference from KAI: a job that could not run whatever is evicted does not represent its queue
//! in the queue order, so it does not delay other jobs of the queue. Such a job does not fit even
//! if no preemptible pod is left, or would take the queue over its fair share and is rejected by
//! its limit or quota. In KAI it represents the queue.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use crate::{
    framework::{JobQueue, PlacementFailure, Session, Statement},
    model::{Name, NodeSelection, PodGroupId, PodId, ShapeId},
    queues::MinimumStatus,
    reason::{FitErrors, Quantity, Reason, SingleDomain},
    resources::Resources,
};

/// Why each pending pod group is pending.
pub(crate) type PendingReasons = BTreeMap<PodGroupId, Reason>;

/// Places the pending pods of `groups`. Adds the reasons of groups that stay pending to `reasons`.
pub(crate) fn run(
    statement: &mut Statement<'_>,
    groups: Vec<PodGroupId>,
    reasons: &mut PendingReasons,
) {
    let mut record = |statement: &mut Statement<'_>, group, cause: PendingCause| {
        let reason = cause.into_reason(statement, group);
        reasons.insert(group, reason);
    };
    let failed = allocate_all(statement, groups, Some(&mut record));
    failed.add_reasons(statement, reasons);
}

/// Like [`run`], without collecting reasons: for the simulated next cycle. Profiles with PostFilter
/// plugins do not simulate the next cycle.
pub(crate) fn run_without_reasons(statement: &mut Statement<'_>, groups: Vec<PodGroupId>) {
    allocate_all(statement, groups, None);
}

/// A function that receives why a pod group stays pending; `None` if reasons are not collected.
type PendingCauseSink<'a> = Option<&'a mut dyn FnMut(&mut Statement<'_>, PodGroupId, PendingCause)>;

fn allocate_all(
    statement: &mut Statement<'_>,
    groups: Vec<PodGroupId>,
    mut sink: PendingCauseSink<'_>,
) -> FailedShapes {
    let is_deferred = |group: &PodGroupId| {
        !statement.runs_pod_group_cycle(*group) && !statement.may_run_after_evictions(*group)
    };
    let (infeasible, groups): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_deferred);
    let mut queue = statement.profile.plugins.queue_sort.new_queue(statement, groups);
    let (mut failed, mut deferred) = (FailedShapes::default(), VecDeque::from(infeasible));
    loop {
        defer_infeasible_over_share_jobs(statement, &mut *queue, &mut deferred);
        let Some(group) = queue.pop_next_group(statement).or_else(|| deferred.pop_front()) else {
            break;
        };
        match place_next_pods(statement, group, &mut failed, sink.is_some()) {
            PlacementAttempt::Placed => {
                statement.commit();
                queue.on_allocated(statement, group);
                if statement.members(group).has_waiting() {
                    queue.push_group(statement, group);
                }
            }
            PlacementAttempt::Pending(why) => {
                if let Some(record) = &mut sink {
                    record(statement, group, why);
                }
            }
            PlacementAttempt::SameAsFailed => {}
        }
    }
    failed
}

/// Defers jobs that take their queue over its share and that PreFilter plugins reject: these jobs
/// are tried last.
fn defer_infeasible_over_share_jobs(
    session: &Session<'_>,
    queue: &mut dyn JobQueue,
    deferred: &mut VecDeque<PodGroupId>,
) {
    while let Some(group) = queue.next_over_share(session) {
        if !session.may_be_placed(group) {
            queue.remove_group(session, group);
            deferred.push_back(group);
        }
    }
}

/// The result of trying to place a pod group once.
enum PlacementAttempt {
    Placed,
    Pending(PendingCause),
    /// The group's pods equal those of an earlier failed group. The reason is computed after all
    /// groups were tried.
    SameAsFailed,
}

/// Why a group stays pending.
enum PendingCause {
    /// The group was rejected before any node was tried.
    Rejected(Reason),
    /// No node was found for these pods.
    NoNode(Vec<PodId>, PlacementFailure),
}

impl PendingCause {
    /// Computes the reason, and lets the PostFilter plugins change it.
    fn into_reason(self, statement: &mut Statement<'_>, group: PodGroupId) -> Reason {
        let (pods, failure) = match self {
            Self::Rejected(reason) => return reason,
            Self::NoNode(pods, failure) => (pods, failure),
        };
        let mut reason = failure_reason(statement, group, &pods, failure);
        for plugin in &statement.profile.plugins.post_filter {
            reason = plugin.post_filter(statement, pods[0], reason);
        }
        reason
    }
}

/// Places the next pods of the group. A failure that groups with equal pods share is explained only
/// after all groups were tried: see [`FailedShapes`].
fn place_next_pods(
    statement: &mut Statement<'_>,
    group: PodGroupId,
    failed: &mut FailedShapes,
    has_sink: bool,
) -> PlacementAttempt {
    if statement.runs_pod_group_cycle(group) {
        return place_group(statement, group);
    }
    let pods = statement.next_chunk(group);
    if pods.is_empty() {
        return PlacementAttempt::Pending(PendingCause::Rejected(not_ready_reason(
            statement, group,
        )));
    }
    if let Err(reason) = statement.pre_filter(group, &pods) {
        return PlacementAttempt::Pending(PendingCause::Rejected(reason));
    }
    let key = FailedShapes::shapes_if_shared_failure(statement, &pods);
    if let Some(key) = key.as_ref().filter(|key| failed.has_failed(key)) {
        failed.groups.entry(key.clone()).or_default().push(group);
        return PlacementAttempt::SameAsFailed;
    }
    let needs_reason = has_sink && key.is_none();
    let placed = if needs_reason {
        statement.allocate_all(&pods)
    } else {
        statement.allocate_all_unexplained(&pods)
    };
    let Err(failure) = placed else { return PlacementAttempt::Placed };
    if let Some(key) = key {
        if failure.found == 0 {
            failed.unplaceable.insert(key[0]);
        }
        failed.groups.insert(key, vec![group]);
        return PlacementAttempt::SameAsFailed;
    }
    PlacementAttempt::Pending(PendingCause::NoNode(pods, failure))
}

/// Places all pending pods of the group that find a node, at least its minimum.
fn place_group(statement: &mut Statement<'_>, group: PodGroupId) -> PlacementAttempt {
    let pods: Vec<PodId> = statement.members(group).waiting_pods().collect();
    if let Err(reason) = statement.pre_filter(group, &pods) {
        return PlacementAttempt::Pending(PendingCause::Rejected(reason));
    }
    match statement.allocate_group(group) {
        Ok(_) => PlacementAttempt::Placed,
        Err(failure) => PlacementAttempt::Pending(PendingCause::NoNode(pods, failure)),
    }
}

/// Groups whose next pods did not fit in this action. No pod leaves while the action runs, so equal
/// shapes do not fit either.
#[derive(Default)]
struct FailedShapes {
    /// The groups by the shapes of their next pods.
    groups: BTreeMap<Vec<ShapeId>, Vec<PodGroupId>>,
    /// Shapes of which no single pod fits.
    unplaceable: BTreeSet<ShapeId>,
}

impl FailedShapes {
    fn has_failed(&self, shapes: &[ShapeId]) -> bool {
        self.groups.contains_key(shapes)
            || shapes.first().is_some_and(|first| self.unplaceable.contains(first))
    }

    fn shapes_if_shared_failure(session: &Session<'_>, pods: &[PodId]) -> Option<Vec<ShapeId>> {
        let depends_on_shape_only = |pod: &PodId| session.fit_depends_on_shape_only(*pod);
        let stays_failed = session.profile.plugins.post_filter.is_empty();
        let is_shared = stays_failed && pods.iter().all(depends_on_shape_only);
        is_shared.then(|| pods.iter().map(|pod| session.pod(*pod).shape).collect())
    }

    /// Adds the reason of each failed group, given the placements of all other groups.
    fn add_reasons(self, statement: &mut Statement<'_>, reasons: &mut PendingReasons) {
        let mut unplaceable: BTreeMap<ShapeId, FitErrors> = BTreeMap::new();
        for (shapes, groups) in self.groups {
            let pods = statement.next_chunk(groups[0]);
            // Errors also tell which nodes the group's own pods fill.
            let is_first = statement.members(groups[0]).active_count() == 0;
            let known = unplaceable.get(&shapes[0]).filter(|_| is_first).cloned();
            let failure = known.map(|fit_errors| PlacementFailure {
                pod: pods[0],
                found: 0,
                fit_errors,
                no_domain: None,
            });
            let explain = || explain_failure(statement, &pods);
            let Some(failure) = failure.or_else(explain) else { continue };
            if failure.found == 0 && is_first {
                unplaceable.entry(shapes[0]).or_insert_with(|| failure.fit_errors.clone());
            }
            for group in groups {
                let pods = statement.next_chunk(group);
                reasons.insert(group, failure_reason(statement, group, &pods, failure.clone()));
            }
        }
    }
}

/// Why there are no nodes for all of the pods.
fn explain_failure(statement: &mut Statement<'_>, pods: &[PodId]) -> Option<PlacementFailure> {
    let start = statement.checkpoint();
    let placed = statement.allocate_all(pods);
    debug_assert!(placed.is_err(), "nothing was released since the first attempt");
    statement.undo_to(start);
    placed.err()
}

/// The reason of a group with pending pods when its sub-groups cannot reach their minimum.
fn not_ready_reason(session: &Session<'_>, group: PodGroupId) -> Reason {
    let (spec, members) = (session.group(group), session.members(group));
    Reason::NotReady(members.gang_readiness(spec))
}

fn failure_reason(
    session: &Session<'_>,
    id: PodGroupId,
    pods: &[PodId],
    failure: PlacementFailure,
) -> Reason {
    if session.runs_pod_group_cycle(id) {
        return reason_with_current_pods(session, id, pods, failure);
    }
    let below_minimum =
        session.members(id).minimum_status(session.group(id)) == MinimumStatus::BelowMinimum;
    let fewer_pods_may_fit = !failure.fit_errors.are_nodes_too_small();
    let too_large =
        below_minimum.then(|| cluster_capacity_reason(session, pods, fewer_pods_may_fit)).flatten();
    let Some(mut reason) = too_large else {
        return reason_with_current_pods(session, id, pods, failure);
    };
    if let Reason::ExceedsClusterCapacity { underlying, .. } = &mut reason
        && failure.fit_errors.node_requirements.is_some()
    {
        *underlying = Some(Box::new(reason_with_current_pods(session, id, pods, failure)));
    }
    reason
}

fn reason_with_current_pods(
    session: &Session<'_>,
    id: PodGroupId,
    pods: &[PodId],
    PlacementFailure { pod, found: fitting, mut fit_errors, no_domain }: PlacementFailure,
) -> Reason {
    if let Some(no_domain) = no_domain {
        return Reason::NoTopologyDomain(*no_domain);
    }
    let (group, members) = (session.group(id), session.members(id));
    let below_minimum = members.minimum_status(group) == MinimumStatus::BelowMinimum;
    let next = pods.get(fitting as usize).copied().filter(|_| !session.runs_pod_group_cycle(id));
    let failed = next.unwrap_or(pod);
    let at = session.pod(failed).sub_group;
    let sub_group = &group.sub_groups[at];
    let several = group.sub_groups.len() > 1;
    let minimum = members.remaining_minimum(group, at);
    let misses_minimum = below_minimum || members.of_sub_group(at).active < minimum;
    if misses_minimum && (sub_group.min_member > 1 || several) {
        if let Some(requirements) = &mut fit_errors.node_requirements {
            requirements.requests =
                largest_request(session, pods.get(fitting as usize..).unwrap_or(pods));
        }
        let waiting = u32::try_from(pods.len()).expect("pod ids are 32 bits");
        let mutual_exclusion = session.diagnose_mutual_exclusion(id, pods).map(Box::new);
        let single_domains =
            single_domain_requirements(session, id, pods.get(fitting as usize..).unwrap_or(pods));
        if !single_domains.is_empty() {
            fit_errors.domain_requirements.get_or_insert_default().single_domains = single_domains;
        }
        return Reason::GangDoesNotFit {
            fitting: fitting + members.active_count(),
            required: minimum,
            missing: waiting.saturating_sub(fitting).max(1),
            sub_group: several.then(|| sub_group.name.clone()),
            fit_errors: FitErrors { mutual_exclusion, ..fit_errors },
        };
    }
    Reason::NoNode { pod: namespaced_pod_name(session, failed), fit_errors }
}

/// For each sub-group that requires one topology domain: the number of these pods in it and the
/// required level.
fn single_domain_requirements(
    session: &Session<'_>,
    id: PodGroupId,
    pods: &[PodId],
) -> Vec<SingleDomain> {
    let group = session.group(id);
    let requirements = (0..group.sub_groups.len()).filter_map(|sub_group| {
        let level = group.topology_constraint(Some(sub_group))?.required.clone()?;
        let is_inside =
            |pod: &&PodId| group.is_in_sub_group(session.pod(**pod).sub_group, Some(sub_group));
        let pods = u32::try_from(pods.iter().filter(is_inside).count()).unwrap_or(u32::MAX);
        (pods > 1).then_some(SingleDomain { pods, level })
    });
    requirements.collect()
}

/// For each resource, the largest request among the pods.
fn largest_request(session: &Session<'_>, pods: &[PodId]) -> Resources {
    let requests = pods.iter().map(|pod| session.shape_of(*pod).requests_on_new_node(1));
    requests.reduce(|most, request| most.elementwise_max(&request)).unwrap_or_default()
}

fn namespaced_pod_name(session: &Session<'_>, pod: PodId) -> Name {
    let pod = session.pod(pod);
    format!("{}/{}", pod.namespace, pod.name).into()
}

/// The reason if the pods together request more than all eligible nodes offer; `None` if they do
/// not.
fn cluster_capacity_reason(
    session: &Session<'_>,
    pods: &[PodId],
    fewer_pods_may_fit: bool,
) -> Option<Reason> {
    if pods.len() < 2 {
        return None;
    }
    let mut requested = Resources::default();
    for pod in pods {
        requested.add(&session.shape_of(*pod).requests);
    }
    let eligible = |pod| session.eligible_nodes(pod);
    let allocatable = too_little_allocatable(session, pods, &requested, eligible)?;
    let resource = requested.shortage_in(&allocatable).short_resources().next()?;
    if allocatable == Resources::default() {
        return None;
    }
    let eligible_once_open = |pod| session.eligible_nodes_if_opened(pod);
    too_little_allocatable(session, pods, &requested, eligible_once_open)?;
    let quantity =
        |all: &Resources| Quantity { amount: all.amount_of(&resource), resource: resource.clone() };
    let beyond = session.shapes_beyond_empty_cluster(pods);
    let shapes = &session.snapshot.shapes;
    let mut more = Resources::default();
    for shape in &beyond {
        more.add(&shapes[shape.0 as usize].requests);
    }
    let is_by_name =
        |shape: &ShapeId| shapes[shape.0 as usize].node_selection() == NodeSelection::Names;
    let count = |pods: usize| u32::try_from(pods).expect("pod ids are 32 bits");
    Some(Reason::ExceedsClusterCapacity {
        pods: count(pods.len()),
        requested: quantity(&requested),
        offered: quantity(&allocatable),
        missing: count(beyond.len()),
        missing_amount: quantity(&more),
        fewer_pods_may_fit,
        are_tied_to_named_nodes: !beyond.is_empty() && beyond.iter().all(is_by_name),
        underlying: None,
    })
}

/// The allocatable resources of all nodes on which any of the pods may run, if they are less than
/// `requested`; a few nodes are enough to see that they are not.
fn too_little_allocatable(
    session: &Session<'_>,
    pods: &[PodId],
    requested: &Resources,
    nodes_for: impl Fn(PodId) -> Arc<[bool]>,
) -> Option<Resources> {
    let of_shape: BTreeMap<ShapeId, PodId> =
        pods.iter().map(|pod| (session.pod(*pod).shape, *pod)).collect();
    let mut any = vec![false; session.snapshot.nodes.len()];
    for pod in of_shape.into_values() {
        for (any, this) in any.iter_mut().zip(nodes_for(pod).iter()) {
            *any |= *this;
        }
    }
    let mut allocatable = Resources::default();
    for (node, _) in session.snapshot.nodes.iter().zip(any).filter(|(_, any)| *any) {
        allocatable.add(&node.allocatable);
        if requested.fits_in(&allocatable) {
            return None;
        }
    }
    Some(allocatable)
}
