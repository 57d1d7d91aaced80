//! What queues allow: a usable queue at all, its limit and every limit above it, and for work
//! that cannot be preempted also every quota. A part of a GPU that is asked for as memory costs
//! what it is on the node, so that is asked again for every node, and for all pods of its group.

use crate::{
    decision::{Misfit, Quantity, Reason},
    framework::{DependsOn, Filter, NodeFilter, PreEnqueue, PreFilter},
    model::{Name, PodGroupId, PodId, QueueId},
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
    for queue in session.ledger().path(queue) {
        let account = session.ledger().account(queue);
        let level = Level { session, queue, account, request };
        level.keeps_limit()?;
        if !group.preemptible {
            level.keeps_quota()?;
        }
    }
    Ok(())
}

/// One queue, and what is asked of it.
struct Level<'a> {
    session: &'a Session<'a>,
    queue: QueueId,
    account: &'a Account,
    request: PerResource<i64>,
}

impl Level<'_> {
    fn keeps_limit(&self) -> Result<(), Reason> {
        let account = self.account;
        match self.exceeded(account.limit, account.allocated) {
            None => Ok(()),
            Some([limit, allocated, requested]) => {
                Err(Reason::OverLimit { queue: self.name(), limit, allocated, requested })
            }
        }
    }

    fn keeps_quota(&self) -> Result<(), Reason> {
        let account = self.account;
        match self.exceeded(account.quota, account.allocated_non_preemptible) {
            None => Ok(()),
            Some([quota, allocated, requested]) => {
                let queue = self.name();
                Err(Reason::NonPreemptibleOverQuota { queue, quota, allocated, requested })
            }
        }
    }

    /// The first resource that is asked for and of which there would be too much: bound, used
    /// and asked for.
    fn exceeded(
        &self,
        bounds: PerResource<Amount>,
        used: PerResource<i64>,
    ) -> Option<[Quantity; 3]> {
        let names = ResourceName::ACCOUNTED;
        let bounds = bounds.values().into_iter().zip(used.values());
        let all = names.into_iter().zip(bounds).zip(self.request.values());
        all.filter(|(_, asked)| *asked > 0).find_map(|((resource, (bound, used)), asked)| {
            let Amount::Exactly(bound) = bound else { return None };
            let of = |amount| Quantity { resource: resource.clone(), amount };
            (used.saturating_add(asked) > bound).then(|| [of(bound), of(used), of(asked)])
        })
    }

    fn name(&self) -> Name {
        self.session.snapshot.queues[self.queue.0 as usize].name.clone()
    }
}
