//! Explains a queue: its accounts, the derivation of its fair share, which queues of the tree
//! borrow or are starved, and which pods would be evicted for which queue.

use schedlab_scheduler_core::{
    Decision, Profile, Snapshot,
    framework::Session,
    inspect::{EvictableUnit, Portion, decide, eviction_order, reclaim_candidates},
    model::{PodGroupId, PodId, QueueId},
    queues::fairshare::{LevelDivision, divisions_on_path},
    queues::{
        Account,
        reclaim::{Reclaimer, Victims},
    },
    reason::Quantity,
    resources::{Amount, PerResource, ResourceName},
};

/// The explanation of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueExplanation {
    /// The queue.
    pub queue: QueueId,
    /// Accounts of all queues before the cycle, by [`QueueId`].
    pub accounts: Vec<Account>,
    /// For GPU, CPU and memory: the divisions from the root that gave the queue its fair share.
    pub derivations: [Vec<LevelDivision>; 3],
    /// The hypothetical extra request: one GPU, or one core if no node has GPUs.
    pub extra_request: Quantity,
    /// Units that it could reclaim for `extra_request`, in the order in which a search would
    /// consider them. Each of them alone would be acceptable; a search stops when it has enough.
    pub reclaimable: Vec<VictimCandidate>,
    /// Units of the queue and its descendants, in the order in which others would evict them.
    pub eviction_order: Vec<VictimCandidate>,
    /// Evictions of the next cycle of pods of the queue, or for pods of the queue.
    pub evictions: Vec<Decision>,
}

/// Pods that would be evicted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimCandidate {
    /// Their leaf queue.
    pub queue: QueueId,
    /// Their pod group.
    pub group: PodGroupId,
    /// The pods.
    pub pods: Vec<PodId>,
    /// Whether the group keeps its minimum without them.
    pub is_elastic: bool,
}

/// How the use of a queue compares with its share and quota, in one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBalance {
    /// The requested part of its fair share that it does not use, whether or not it exceeds its
    /// quota.
    pub starved_of: i64,
    /// Use over its quota.
    pub borrows: i64,
}

impl QueueBalance {
    /// The balance in GPU, CPU and memory.
    pub fn new(account: &Account) -> [Self; 3] {
        let [used, share, requested] =
            [account.allocated, account.fair_share, account.requested].map(PerResource::values);
        let quota = account.quota.values();
        std::array::from_fn(|at| Self {
            starved_of: (share[at].min(requested[at]) - used[at]).max(0),
            borrows: match quota[at] {
                Amount::Exactly(quota) => (used[at] - quota).max(0),
                Amount::Unlimited => 0,
            },
        })
    }
}

/// Explains `queue` as the next cycle sees it.
pub fn explain_queue(snapshot: &Snapshot, profile: &Profile, queue: QueueId) -> QueueExplanation {
    let session = Session::new(snapshot, profile);
    let queue_accounts = session.accounts();
    let all = (0..).map(QueueId).take(snapshot.queues.len());
    let accounts: Vec<Account> = all.map(|queue| queue_accounts.account(queue).clone()).collect();
    let requests: Vec<_> = accounts.iter().map(|account| account.requested).collect();
    let derivations = std::array::from_fn(|resource| {
        let (total, k_value_milli) = (queue_accounts.total(), profile.k_value_milli);
        divisions_on_path(&snapshot.queues, &requests, total, k_value_milli, queue, resource)
    });
    let (resource, request) = match queue_accounts.total().gpu {
        0 => (ResourceName::Cpu, PerResource { cpu: 1000, ..PerResource::default() }),
        _ => (ResourceName::Gpu, PerResource { gpu: 1000, ..PerResource::default() }),
    };
    let one_more = Quantity { resource, amount: 1000 };
    let reclaimable = reclaimable(snapshot, profile, queue, request);
    let eviction_order = eviction_order(&session, queue).into_iter().map(candidate).collect();
    let evictions = evictions(snapshot, profile, queue);
    QueueExplanation {
        queue,
        accounts,
        derivations,
        extra_request: one_more,
        reclaimable,
        eviction_order,
        evictions,
    }
}

/// The units that `queue` could reclaim with one more pod that requests `request`; the pod counts
/// in the fair shares. A unit that would not be acceptable alone is not acceptable with others
/// either.
fn reclaimable(
    snapshot: &Snapshot,
    profile: &Profile,
    queue: QueueId,
    request: PerResource<i64>,
) -> Vec<VictimCandidate> {
    let snapshot_with_demand = super::hypothetical_pod::with_demand(snapshot, queue, request);
    let session = Session::new(&snapshot_with_demand, profile);
    let reclaimer = Reclaimer { queue, preemptible: true, request };
    let may_take = |unit: &EvictableUnit| {
        let victims = Victims::from([(unit.queue, vec![unit.amount])]);
        reclaimer.may_take(session.accounts(), &victims, profile.reclaim_saturation_milli)
    };
    let units = reclaim_candidates(&session, reclaimer).into_iter();
    units.filter(may_take).map(candidate).collect()
}

fn candidate(unit: EvictableUnit) -> VictimCandidate {
    VictimCandidate {
        queue: unit.queue,
        group: unit.group,
        is_elastic: unit.portion == Portion::Elastic,
        pods: unit.pods.into_iter().map(|(pod, _)| pod).collect(),
    }
}

fn evictions(snapshot: &Snapshot, profile: &Profile, queue: QueueId) -> Vec<Decision> {
    let (session, plan) = decide(snapshot, profile, &mut ());
    let inside = |group: Option<PodGroupId>| {
        let leaf = group.and_then(|group| session.group(group).queue.clone().ok().flatten());
        leaf.is_some_and(|leaf| session.accounts().path(leaf).any(|above| above == queue))
    };
    let concerns = |decision: &Decision| match decision {
        Decision::Evict { pod, cause } => {
            inside(session.pod(*pod).group) || inside(cause.preemptor())
        }
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    };
    plan.decisions.into_iter().filter(concerns).collect()
}
