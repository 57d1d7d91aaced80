//! Queue bounds: the queue of a job exists and accepts jobs; its limit and the limits of all
//! ancestors hold; and for non-preemptible jobs all quotas hold, too. The charge of requested GPU
//! memory depends on the device size of the node, so those bounds are also checked for every node,
//! with all pods of the group.

use crate::{
    framework::{Filter, Fit, NodeFilter, PreEnqueue, PreFilter, ResultInputs, Session},
    model::{Name, PodGroupId, PodId},
    queues::Account,
    reason::{FitError, Quantity, QueueBound, Reason},
    resources::{Amount, PerResource, ResourceName},
};

/// Checks that the pod group's queue exists and accepts jobs.
#[derive(Debug)]
pub(super) struct UsableQueue;

/// Checks queue limits, and quotas for non-preemptible jobs, on every level of the queue tree.
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
        check_queue_bounds(session, id, session.bounds_request(pods))
    }
}

impl Filter for QueueLimits {
    fn result_depends_on(&self) -> ResultInputs {
        ResultInputs::Cluster
    }

    fn pre_filter<'a>(&self, session: &'a Session<'_>, pod: PodId) -> Option<NodeFilter<'a>> {
        let group = session.pod(pod).group?;
        let filter = move |node| {
            let more = session.additional_charge(pod, &session.charge_on(pod, node));
            let result = check_queue_bounds(session, group, more);
            let fit_error =
                |reason: Reason| FitError::QueueBoundExceeded(reason.to_string().into());
            result.map(|()| Fit::Now).map_err(fit_error)
        };
        session.is_charged_by_node(group).then(|| Box::new(filter) as NodeFilter<'a>)
    }
}

fn check_queue_bounds(
    session: &Session<'_>,
    group: PodGroupId,
    request: PerResource<i64>,
) -> Result<(), Reason> {
    let group = session.group(group);
    let Ok(Some(queue)) = group.queue else { return Ok(()) };
    let levels = session.accounts().path_to_root(queue).map(|queue| {
        let account = session.accounts().account(queue);
        let queue = &session.snapshot.queues[queue.0 as usize].name;
        QueueLevel { queue, account, request }
    });
    let mut exceeded = levels.flat_map(|level| level.exceeded_bounds(group.preemptible));
    let Some((queue, bound, [bound_amount, allocated, requested])) = exceeded.next() else {
        return Ok(());
    };
    let with_more = exceeded.next().is_some();
    let queue = Name::clone(queue);
    Err(match bound {
        QueueBound::Limit => Reason::OverLimit {
            queue,
            limit: bound_amount,
            allocated,
            requested,
            other_bounds_too_low: with_more,
        },
        QueueBound::Quota => Reason::NonPreemptibleOverQuota {
            queue,
            quota: bound_amount,
            allocated,
            requested,
            other_bounds_too_low: with_more,
        },
    })
}

/// One queue on the path to the root, and the request that is checked against its bounds.
struct QueueLevel<'a> {
    queue: &'a Name,
    account: &'a Account,
    request: PerResource<i64>,
}

/// A bound of a queue that would be exceeded: queue name, bound, and the amounts of the bound, in
/// use and requested.
type ExceededBound<'a> = (&'a Name, QueueBound, [Quantity; 3]);

impl<'a> QueueLevel<'a> {
    fn exceeded_bounds(self, preemptible: bool) -> impl Iterator<Item = ExceededBound<'a>> {
        let account = self.account;
        let limit = self.exceeded_resources(QueueBound::Limit, account.limit, account.allocated);
        let quota = (!preemptible).then(|| {
            self.exceeded_resources(
                QueueBound::Quota,
                account.quota,
                account.allocated_non_preemptible,
            )
        });
        limit.chain(quota.into_iter().flatten())
    }

    /// The requested resources for which this bound of the queue would be exceeded.
    fn exceeded_resources(
        &self,
        bound: QueueBound,
        bounds: PerResource<Amount>,
        used: PerResource<i64>,
    ) -> impl Iterator<Item = ExceededBound<'a>> + use<'a> {
        let (queue, request) = (self.queue, self.request.values());
        let bounds = bounds.values().into_iter().zip(used.values());
        let all = ResourceName::ACCOUNTED.into_iter().zip(bounds).zip(request);
        all.filter(|(_, requested)| *requested > 0).filter_map(
            move |((resource, (bound_amount, used)), requested)| {
                let Amount::Exactly(bound_amount) = bound_amount else { return None };
                let quantity = |amount| Quantity { resource: resource.clone(), amount };
                let is_exceeded = used.saturating_add(requested) > bound_amount;
                is_exceeded.then(|| {
                    (queue, bound, [quantity(bound_amount), quantity(used), quantity(requested)])
                })
            },
        )
    }
}
