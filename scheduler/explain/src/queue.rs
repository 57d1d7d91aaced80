//! Explains a queue: its accounts, the derivation of its fair share, which queues of the tree
//! borrow or are starved, and which pods would be evicted for which queue.

use schedlab_scheduler_core::{
    Decision, Profile, Snapshot,
    framework::Session,
    inspect::{EvictableUnit, UnitPortion, eviction_order, reclaim_candidates, run_cycle},
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
    /// The queue that is explained.
    pub queue: QueueId,
    /// Accounts of all queues before the cycle, by [`QueueId`].
    pub accounts: Vec<Account>,
    /// For GPU, CPU and memory: the divisions from the root downward that gave the queue its fair
    /// share.
    pub derivations: [Vec<LevelDivision>; 3],
    /// The additional request that is assumed for `reclaimable`: one GPU, or one core if no node
    /// has GPUs.
    pub extra_request: Quantity,
    /// Units that the queue could reclaim for `extra_request`, in the order in which a search would
    /// consider them. Each of the units alone would be acceptable; a search stops when it has
    /// enough.
    pub reclaimable: Vec<VictimCandidate>,
    /// Units of the queue and its descendants, in the order in which other jobs would evict them.
    pub eviction_order: Vec<VictimCandidate>,
    /// Evictions of the next cycle of pods of the queue, or for pods of the queue.
    pub evictions: Vec<Decision>,
}

/// Pods that would be evicted together (an evictable unit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimCandidate {
    /// Leaf queue of the pods.
    pub queue: QueueId,
    /// Pod group of the pods.
    pub group: PodGroupId,
    /// The pods that would be evicted.
    pub pods: Vec<PodId>,
    /// Whether the group keeps its minimum without these pods.
    pub is_elastic: bool,
}

/// How the usage of a queue compares with its fair share and quota, in one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBalance {
    /// The requested part of the queue's fair share that the queue does not use, whether or not it
    /// exceeds its quota.
    pub starved_of: i64,
    /// Usage over the queue's quota.
    pub borrows: i64,
}

impl QueueBalance {
    /// The balance of a queue in GPU, CPU and memory.
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

/// Explains the fair share of `queue` in the next cycle, and what it reclaims or loses.
pub fn explain_queue(snapshot: &Snapshot, profile: &Profile, queue: QueueId) -> QueueExplanation {
    let session = Session::new(snapshot, profile);
    let queue_accounts = session.accounts();
    let all = (0..).map(QueueId).take(snapshot.queues.len());
    let accounts: Vec<Account> = all.map(|queue| queue_accounts.account(queue).clone()).collect();
    let requests: Vec<_> = accounts.iter().map(|account| account.requested).collect();
    let derivations = std::array::from_fn(|resource| {
        let (total, k_value_milli) = (queue_accounts.total_shared(), profile.k_value_milli);
        divisions_on_path(&snapshot.queues, &requests, total, k_value_milli, queue, resource)
    });
    let (resource, request) = match queue_accounts.total_shared().gpu {
        0 => (ResourceName::Cpu, PerResource { cpu: 1000, ..PerResource::default() }),
        _ => (ResourceName::Gpu, PerResource { gpu: 1000, ..PerResource::default() }),
    };
    let one_more = Quantity { resource, amount: 1000 };
    let reclaimable = reclaimable_units(snapshot, profile, queue, request);
    let eviction_order =
        eviction_order(&session, queue).into_iter().map(to_victim_candidate).collect();
    let evictions = evictions_of_next_cycle(snapshot, profile, queue);
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

/// The units that `queue` could reclaim for one more pod that requests `request`, which counts in
/// the fair shares. A unit that would not be acceptable alone is not acceptable with other units
/// either.
fn reclaimable_units(
    snapshot: &Snapshot,
    profile: &Profile,
    queue: QueueId,
    request: PerResource<i64>,
) -> Vec<VictimCandidate> {
    let snapshot_with_demand =
        super::hypothetical_pod::with_additional_pending_pod(snapshot, queue, request);
    let session = Session::new(&snapshot_with_demand, profile);
    let reclaimer = Reclaimer { queue, preemptible: true, request };
    let may_take = |unit: &EvictableUnit| {
        let victims = Victims::from([(unit.queue, vec![unit.amount])]);
        reclaimer.may_reclaim_all(session.accounts(), &victims, profile.reclaim_saturation_milli)
    };
    let units = reclaim_candidates(&session, reclaimer).into_iter();
    units.filter(may_take).map(to_victim_candidate).collect()
}

fn to_victim_candidate(unit: EvictableUnit) -> VictimCandidate {
    VictimCandidate {
        queue: unit.queue,
        group: unit.group,
        is_elastic: unit.portion == UnitPortion::Elastic,
        pods: unit.pods.into_iter().map(|(pod, _)| pod).collect(),
    }
}

fn evictions_of_next_cycle(
    snapshot: &Snapshot,
    profile: &Profile,
    queue: QueueId,
) -> Vec<Decision> {
    let (session, plan) = run_cycle(snapshot, profile, &mut ());
    let inside = |group: Option<PodGroupId>| {
        let leaf = group.and_then(|group| session.group(group).queue.clone().ok().flatten());
        leaf.is_some_and(|leaf| session.accounts().path_to_root(leaf).any(|above| above == queue))
    };
    let concerns = |decision: &Decision| match decision {
        Decision::Evict { pod, cause } => {
            inside(session.pod(*pod).group) || inside(cause.preemptor())
        }
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    };
    plan.decisions.into_iter().filter(concerns).collect()
}
