//! What queues allow: a usable queue at all, its limit and every limit above it, and for work
//! that cannot be preempted also every quota. A part of a GPU that is asked for as memory costs
//! what it is on the node, so that is asked again for every node, and for all pods of its group.

use crate::{
    decision::{Bound, Misfit, Quantity, Reason},
    framework::{DependsOn, Filter, NodeFilter, PreEnqueue, PreFilter},
    model::{Name, PodGroupId, PodId},
    queues::Account,
    resources::{Amount, PerResource, ResourceName},
    session::{Fits, Session},
};

/// The queue exists and takes work.
#[derive(Debug)]
pub(super) struct UsableQueue;

/// Limits, and quotas for non-preemptible work, on every level.
#[derive(Debug)]
pub(super) struct QueueLimits;

impl PreEnqueue for UsableQueue {
    fn pre_enqueue(&self, session: &Session<'_>, group: PodGroupId) -> Result<(), Reason> {
        match &session.group(group).queue {
            Ok(_) => Ok(()),
            Err(problem) => Err(Reason::Queue(problem.clone())),
        }
    }
}

impl PreFilter for QueueLimits {
    fn pre_filter(
        &self,
        session: &Session<'_>,
        id: PodGroupId,
        pods: &[PodId],
    ) -> Result<(), Reason> {
        keeps_bounds(session, id, session.request_of(pods))
    }
}

impl Filter for QueueLimits {
    fn depends_on(&self) -> DependsOn {
        DependsOn::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let group = session.pod(pod).group?;
        let filter = move |node| {
            let more = session.due(pod, &session.bill_on(pod, node));
            let kept = keeps_bounds(session, group, more);
            let misfit = |reason: Reason| Misfit::QueueBound(reason.to_string().into());
            kept.map(|()| Fits::Now).map_err(misfit)
        };
        session.is_priced_by_node(group).then(|| Box::new(filter) as NodeFilter<'a>)
    }
}

fn keeps_bounds(
    session: &Session<'_>,
    group: PodGroupId,
    request: PerResource<i64>,
) -> Result<(), Reason> {
    let group = session.group(group);
    let Ok(Some(queue)) = group.queue else { return Ok(()) };
    let levels = session.ledger().path(queue).map(|queue| {
        let account = session.ledger().account(queue);
        let queue = &session.snapshot.queues[queue.0 as usize].name;
        Level { queue, account, request }
    });
    let mut broken = levels.flat_map(|level| level.broken(group.preemptible));
    let Some((queue, bound, [most, allocated, requested])) = broken.next() else { return Ok(()) };
    let with_more = broken.next().is_some();
    let queue = Name::clone(queue);
    Err(match bound {
        Bound::Limit => Reason::OverLimit { queue, limit: most, allocated, requested, with_more },
        Bound::Quota => {
            Reason::NonPreemptibleOverQuota { queue, quota: most, allocated, requested, with_more }
        }
    })
}

/// One queue, and what is asked of it.
struct Level<'a> {
    queue: &'a Name,
    account: &'a Account,
    request: PerResource<i64>,
}

/// A bound that would not be kept: how much it is, what is used of it, and what is asked for.
type Broken<'a> = (&'a Name, Bound, [Quantity; 3]);

impl<'a> Level<'a> {
    fn broken(self, preemptible: bool) -> impl Iterator<Item = Broken<'a>> {
        let account = self.account;
        let limit = self.exceeded(Bound::Limit, account.limit, account.allocated);
        let quota = (!preemptible)
            .then(|| self.exceeded(Bound::Quota, account.quota, account.allocated_non_preemptible));
        limit.chain(quota.into_iter().flatten())
    }

    /// For each resource that is asked for and of which there would be too much.
    fn exceeded(
        &self,
        bound: Bound,
        bounds: PerResource<Amount>,
        used: PerResource<i64>,
    ) -> impl Iterator<Item = Broken<'a>> + use<'a> {
        let (queue, request) = (self.queue, self.request.values());
        let bounds = bounds.values().into_iter().zip(used.values());
        let all = ResourceName::ACCOUNTED.into_iter().zip(bounds).zip(request);
        all.filter(|(_, asked)| *asked > 0).filter_map(move |((resource, (most, used)), asked)| {
            let Amount::Exactly(most) = most else { return None };
            let of = |amount| Quantity { resource: resource.clone(), amount };
            let is_exceeded = used.saturating_add(asked) > most;
            is_exceeded.then(|| (queue, bound, [of(most), of(used), of(asked)]))
        })
    }
}
