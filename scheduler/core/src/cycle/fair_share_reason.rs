//! Finds pending jobs whose queue is at its fair share: other queues use more than their quotas,
//! but reclaim evicts none of their pods.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use super::{head_of_line::HeadJobs, requeue::lacks_capacity};
use crate::{
    actions::allocate::PendingReasons,
    framework::{CapacityRequest, FreeCapacity, FreedCapacity, Session},
    model::{Name, NodeId, PodId, QueueId, ShapeId},
    profile::Action,
    queues::{
        Account, JobKey, QueueAccounts,
        reclaim::{Reclaimer, Victims, diverging_queues},
    },
    reason::{CapacityLocation, Quantity, Reason, Suggestion},
    resources::{Amount, PerResource, ResourceName, Resources},
};

/// The preemptible over-quota usage of all queues, and the unallocated capacity.
#[derive(Default)]
pub(crate) struct OverQuotaUse {
    /// Preemptible over-quota use of the children of a queue (`None`: of the root), by resource.
    lent: BTreeMap<Option<QueueId>, [i64; 3]>,
    /// Unallocated capacity, by resource.
    unallocated: [i64; 3],
    /// Cached results of [`Self::would_fit_after_evictions`], by shape of the first pod, number of
    /// pods, queue and whether the queue's share lets the job reclaim.
    fits_once_evicted: BTreeMap<(ShapeId, usize, QueueId, bool), bool>,
    /// What is known of [`Self::count_after_evictions`], by shape and queue.
    counts_once_evicted: BTreeMap<(ShapeId, QueueId), CountAfterEvictions>,
    /// The nodes that are only too full, by shapes of pods whose fit depends on nothing else.
    full_nodes: BTreeMap<ShapeId, Arc<[NodeId]>>,
    /// The pods that actions may evict from each node, by node index.
    evictable: Vec<OnceCell<Vec<EvictablePod>>>,
}

/// A pod that an action may evict from its node.
#[derive(Clone)]
struct EvictablePod {
    pod: PodId,
    queue: QueueId,
    /// What the queue is charged for it, as counted for fair shares.
    amount: OnceCell<PerResource<i64>>,
}

/// How many pods of a shape fit on nodes once all lenders' pods leave, node by node as far as a job
/// asked for.
#[derive(Default)]
struct CountAfterEvictions {
    /// Number of the nodes that were looked at.
    nodes: usize,
    /// Number of pods that fit on these nodes.
    pods: u64,
    /// Whether each queue lends what pods of the shape request, as far as it is known.
    lenders: BTreeMap<QueueId, bool>,
}

/// A pending job, and whether the share of its queue lets it reclaim.
struct ReclaimAttempt {
    reclaimer: Reclaimer,
    may_start: bool,
}

/// Why a job with enough capacity on nodes, once pods are evicted, stays pending.
enum CauseOutsideNodes {
    /// This queue would exceed its fair share.
    QueueAtFairShare(QueueId),
    /// This job of the same queue comes first.
    HeadOfLine(JobKey),
}

impl OverQuotaUse {
    pub(crate) fn new(session: &Session<'_>) -> Self {
        let accounts = session.accounts();
        if !accounts.uses_fair_shares() || !session.profile.actions.contains(&Action::Reclaim) {
            return Self::default();
        }
        let mut known = Self {
            unallocated: accounts.total_shared().values(),
            evictable: vec![OnceCell::new(); session.snapshot.nodes.len()],
            ..Self::default()
        };
        for queue in (0..u32::try_from(accounts.len()).unwrap_or(u32::MAX)).map(QueueId) {
            let account = accounts.account(queue);
            let lent = known.lent.entry(account.parent).or_default();
            *lent = [0, 1, 2].map(|at| lent[at].saturating_add(lent_amount_of(account, at)));
            if account.parent.is_none() {
                let used = account.allocated.values();
                known.unallocated =
                    [0, 1, 2].map(|at| known.unallocated[at].saturating_sub(used[at]));
            }
        }
        known
    }

    /// Replaces the reasons of jobs that lack only capacity and whose queue is at its fair share:
    /// the new reason names that queue, or the job of the queue that comes first.
    pub(crate) fn update_reasons(&mut self, session: &Session<'_>, reasons: &mut PendingReasons) {
        if self.lent.is_empty() {
            return;
        }
        let mut heads = HeadJobs::default();
        let mut waiting: Vec<(JobKey, Vec<PodId>, ReclaimAttempt)> = Vec::new();
        for (&id, reason) in reasons.iter() {
            let group = session.group(id);
            let Some(queue) = group.queue_id().filter(|_| lacks_capacity(reason)) else { continue };
            let pods = session.next_chunk(id);
            let request = session.fair_share_request(&pods);
            let reclaimer = Reclaimer { queue, preemptible: group.preemptible, request };
            let may_start = reclaimer.may_reclaim(session.accounts());
            let key = session.current_job_key(id);
            if !may_start && session.may_run_after_evictions(id) {
                heads.insert_job(queue, key);
            }
            waiting.push((key, pods, ReclaimAttempt { reclaimer, may_start }));
        }
        for (key, pods, attempt) in waiting {
            let Some(reason) = reasons.get_mut(&key.group()) else { continue };
            let Some(cause) = self.cause_outside_nodes(session, &heads, key, &attempt) else {
                continue;
            };
            if !lacks_free_capacity_only(reason)
                || !self.would_fit_after_evictions(session, &pods, &attempt)
            {
                continue;
            }
            let reclaimer = &attempt.reclaimer;
            *reason = match cause {
                CauseOutsideNodes::QueueAtFairShare(queue) => {
                    fair_share_reason(session, reason, reclaimer, queue)
                }
                CauseOutsideNodes::HeadOfLine(earlier) => {
                    head_of_line_reason(session, reason, reclaimer.queue, earlier)
                }
            };
        }
    }

    /// What keeps the job from running if the lenders have enough capacity for it; `None` if they
    /// have not, or if nothing does.
    fn cause_outside_nodes(
        &self,
        session: &Session<'_>,
        heads: &HeadJobs,
        key: JobKey,
        ReclaimAttempt { reclaimer, may_start }: &ReclaimAttempt,
    ) -> Option<CauseOutsideNodes> {
        let top = self.highest_lending_level(reclaimer, session.accounts())?;
        if *may_start {
            let earlier = heads.head_before(reclaimer.queue, key)?;
            return Some(CauseOutsideNodes::HeadOfLine(earlier));
        }
        highest_queue_at_fair_share(reclaimer, session.accounts(), top)
            .map(CauseOutsideNodes::QueueAtFairShare)
    }

    /// The index, in the path from the job's queue to the root, of the highest queue with a sibling
    /// that lends capacity; `None` if all lenders together lend too little.
    fn highest_lending_level(
        &self,
        reclaimer: &Reclaimer,
        accounts: &QueueAccounts,
    ) -> Option<usize> {
        let path: Vec<QueueId> = accounts.path_to_root(reclaimer.queue).collect();
        let lent_beside = |queue: &QueueId, at: usize| {
            let account = accounts.account(*queue);
            let all = self.lent.get(&account.parent).copied().unwrap_or_default();
            all[at] - lent_amount_of(account, at)
        };
        let has_lenders =
            |queue: &QueueId| reclaimer.requested_resources().any(|at| lent_beside(queue, at) > 0);
        let top = path.iter().rposition(has_lenders)?;
        let has_enough = |at: usize| {
            let lent = path.iter().map(|queue| lent_beside(queue, at));
            lent.fold(self.unallocated[at], i64::saturating_add) >= reclaimer.request.values()[at]
        };
        reclaimer.requested_resources().all(has_enough).then_some(top)
    }

    /// Whether all the pods would fit on full nodes after evictions: of the pods that the job may
    /// evict, or could evict if its queue had a higher quota.
    fn would_fit_after_evictions(
        &mut self,
        session: &Session<'_>,
        pods: &[PodId],
        attempt: &ReclaimAttempt,
    ) -> bool {
        let Some(first) = pods.first() else { return false };
        let (shape, queue) = (session.pod(*first).shape, attempt.reclaimer.queue);
        let is_plain = session.fit_depends_on_shape_only(*first)
            && session.shape_of(*first).claims.is_empty()
            && session.shape_of(*first).fractional_gpu.is_none();
        if !attempt.may_start && is_plain && pods.iter().all(|pod| session.pod(*pod).shape == shape)
        {
            let needed = u64::try_from(pods.len()).expect("pod ids are 32 bits");
            return self.count_after_evictions(session, *first, attempt, needed) >= needed;
        }
        let key = (shape, pods.len(), queue, attempt.may_start);
        if let Some(known) = self.fits_once_evicted.get(&key) {
            return *known;
        }
        let mut takable: BTreeMap<(QueueId, [i64; 3]), bool> = BTreeMap::new();
        let mut may_leave = |victim: &EvictablePod| {
            let EvictablePod { pod, queue, ref amount } = *victim;
            let amount = *amount.get_or_init(|| session.fair_share_request(&[pod]));
            let may_take = || may_reclaim_amount(session, attempt, queue, amount);
            *takable.entry((queue, amount.values())).or_insert_with(may_take)
        };
        let mut left = pods;
        for &node in &*self.nodes_that_are_only_too_full(session, *first) {
            let evictable = self.evictable_pods_on(session, node);
            let leaving = evictable.iter().filter(|victim| may_leave(victim));
            let leaving: Vec<PodId> = leaving.map(|victim| victim.pod).collect();
            let mut free = free_capacity_without(session, node, &leaving);
            while let Some((pod, others)) = left.split_first()
                && session.take_if_fits(&mut free, *pod, node)
            {
                left = others;
            }
            if left.is_empty() {
                break;
            }
        }
        self.fits_once_evicted.insert(key, left.is_empty());
        left.is_empty()
    }
}

impl OverQuotaUse {
    /// How many pods like this one fit on full nodes once all lenders' pods leave; counts until
    /// `needed` are found. Which queues lend does not depend on the number of pods.
    fn count_after_evictions(
        &mut self,
        session: &Session<'_>,
        pod: PodId,
        attempt: &ReclaimAttempt,
        needed: u64,
    ) -> u64 {
        let key = (session.pod(pod).shape, attempt.reclaimer.queue);
        let mut known = self.counts_once_evicted.remove(&key).unwrap_or_default();
        if known.pods < needed {
            let nodes = self.nodes_that_are_only_too_full(session, pod);
            let mut lends = |victim: &EvictablePod| {
                let lends = || lends_to(session.accounts(), &attempt.reclaimer, victim.queue);
                *known.lenders.entry(victim.queue).or_insert_with(lends)
            };
            while known.pods < needed
                && let Some(&node) = nodes.get(known.nodes)
            {
                known.nodes += 1;
                let evictable = self.evictable_pods_on(session, node);
                let leaving = evictable.iter().filter(|victim| lends(victim));
                let leaving: Vec<PodId> = leaving.map(|victim| victim.pod).collect();
                known.pods += u64::from(count_without(session, pod, node, &leaving));
            }
        }
        let count = known.pods;
        self.counts_once_evicted.insert(key, known);
        count
    }

    fn nodes_that_are_only_too_full(&mut self, session: &Session<'_>, pod: PodId) -> Arc<[NodeId]> {
        let find = || session.nodes_that_are_only_too_full(pod).into();
        if !session.fit_depends_on_shape_only(pod) {
            return find();
        }
        Arc::clone(self.full_nodes.entry(session.pod(pod).shape).or_insert_with(find))
    }

    fn evictable_pods_on(&self, session: &Session<'_>, node: NodeId) -> &[EvictablePod] {
        self.evictable[node.0 as usize].get_or_init(|| evictable_pods(session, node))
    }
}

/// Whether the reason is that nodes are full, and nothing else.
fn lacks_free_capacity_only(reason: &Reason) -> bool {
    matches!(
        reason.suggestion(),
        Suggestion::FreeCapacity {
            location: CapacityLocation::AnyNode
                | CapacityLocation::FullNodes { .. }
                | CapacityLocation::FullOrNewNodes { .. },
            ..
        }
    )
}

fn evictable_pods(session: &Session<'_>, node: NodeId) -> Vec<EvictablePod> {
    let evictable = session.node_info(node).staying.iter().filter_map(|&pod| {
        let group = session.pod(pod).group.map(|group| session.group(group));
        let queue = group.filter(|group| group.preemptible)?.queue_id()?;
        session.can_evict(pod).then(|| EvictablePod { pod, queue, amount: OnceCell::new() })
    });
    evictable.collect()
}

/// How many pods like this one, without claims and GPU fractions, fit on the node without the pods
/// `leaving`.
fn count_without(session: &Session<'_>, pod: PodId, node: NodeId, leaving: &[PodId]) -> u32 {
    let (info, nothing) = (session.node_info(node), Resources::default());
    let resources = &session.shape_of(pod).requests;
    let request = CapacityRequest { resources, once_per_node: &nothing, fraction: None };
    let free = FreeCapacity::of_node(session, node);
    let has_shares = !(info.shared_devices.is_empty() && info.claims.is_empty());
    // These nodes have more room without their pods than the requests of the pods.
    if has_shares || free.is_overcommitted() || !info.stuck.is_empty() {
        return free_capacity_without(session, node, leaving).count_fitting_pods(None, request);
    }
    let mut freed = FreedCapacity::default();
    for pod in leaving {
        freed.free_pod(session.node(node), session.shape_of(*pod), &[]);
    }
    free.count_fitting_pods(Some(&freed), request)
}

/// Free capacity of the node without the pods `leaving`.
fn free_capacity_without(session: &Session<'_>, node: NodeId, leaving: &[PodId]) -> FreeCapacity {
    if leaving.is_empty() {
        return FreeCapacity::of_node(session, node);
    }
    let mut free = FreeCapacity::of_empty_node(session.node(node));
    let staying = session.node_info(node).staying.iter();
    for pod in staying.filter(|pod| !leaving.contains(pod)) {
        session.take_if_fits(&mut free, *pod, node);
    }
    free
}

/// Whether the job may reclaim this amount from the queue. If the job's own queue is over its
/// share, only the lender's side is checked.
fn may_reclaim_amount(
    session: &Session<'_>,
    ReclaimAttempt { reclaimer, may_start }: &ReclaimAttempt,
    queue: QueueId,
    amount: PerResource<i64>,
) -> bool {
    let accounts = session.accounts();
    let victims = Victims::from([(queue, vec![amount])]);
    let saturation = session.profile.reclaim_saturation_milli;
    lends_to(accounts, reclaimer, queue)
        && (!may_start || reclaimer.may_reclaim_all(accounts, &victims, saturation))
}

/// Whether the queue, or the ancestor of it that competes with the job, lends what the job requests.
fn lends_to(accounts: &QueueAccounts, reclaimer: &Reclaimer, queue: QueueId) -> bool {
    diverging_queues(accounts, reclaimer.queue, queue).is_some_and(|(_, sibling)| {
        let mut requested = reclaimer.requested_resources();
        requested.any(|at| lent_amount_of(accounts.account(sibling), at) > 0)
    })
}

/// The highest queue in the path, up to index `top`, that would exceed its fair share with the job
/// and whose quota is too low.
fn highest_queue_at_fair_share(
    reclaimer: &Reclaimer,
    accounts: &QueueAccounts,
    top: usize,
) -> Option<QueueId> {
    let path: Vec<QueueId> = accounts.path_to_root(reclaimer.queue).take(top + 1).collect();
    let full = path
        .into_iter()
        .rev()
        .find(|queue| exceeded_resources(accounts, reclaimer, *queue).count() > 0)?;
    let after = accounts.account(full).allocated.plus(reclaimer.request).values();
    let total = accounts.total_shared().values();
    reclaimer.requested_resources().all(|at| after[at] <= total[at]).then_some(full)
}

fn fair_share_reason(
    session: &Session<'_>,
    underlying: &Reason,
    reclaimer: &Reclaimer,
    full: QueueId,
) -> Reason {
    let names = ResourceName::ACCOUNTED;
    let more = exceeded_resources(session.accounts(), reclaimer, full)
        .map(|at| Quantity { resource: names[at].clone(), amount: reclaimer.request.values()[at] });
    Reason::FairShareExceeded {
        underlying: Box::new(underlying.clone()),
        queue: Name::clone(&session.snapshot.queues[full.0 as usize].name),
        excess: more.collect(),
    }
}

fn head_of_line_reason(
    session: &Session<'_>,
    underlying: &Reason,
    queue: QueueId,
    earlier: JobKey,
) -> Reason {
    let earlier = session.group(earlier.group());
    Reason::HeadOfLineBlocked {
        underlying: Box::new(underlying.clone()),
        queue: Name::clone(&session.snapshot.queues[queue.0 as usize].name),
        earlier_job: format!("{}/{}", earlier.namespace, earlier.name).into(),
    }
}

/// Preemptible usage of a queue over its quota, in one resource.
fn lent_amount_of(account: &Account, resource_index: usize) -> i64 {
    let used = account.allocated.values()[resource_index];
    let Amount::Exactly(quota) = account.quota.values()[resource_index] else { return 0 };
    (used - quota).min(used - account.allocated_non_preemptible.values()[resource_index]).max(0)
}

/// Indices of the resources in which the queue would exceed both its fair share and its quota with
/// the job. For the job's own queue, resources that the job does not request count, too.
fn exceeded_resources(
    accounts: &QueueAccounts,
    reclaimer: &Reclaimer,
    queue: QueueId,
) -> impl Iterator<Item = usize> {
    let (account, requested) = (accounts.account(queue), reclaimer.request.values());
    let after = account.allocated.plus(reclaimer.request).values();
    let (fair, quota) = (account.fair_share.values(), account.quota.values());
    let is_own = queue == reclaimer.queue;
    [0, 1, 2].into_iter().filter(move |&at| {
        (is_own || requested[at] > 0) && after[at] > fair[at] && !quota[at].allows(after[at])
    })
}
