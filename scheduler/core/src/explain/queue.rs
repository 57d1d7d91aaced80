//! What a queue has and why: its accounts, how its fair share came about, who borrows and who
//! is starved in the whole tree, and who would have to leave for whom.

use crate::{
    Decision, Profile, Snapshot,
    cycle::decide,
    decision::Quantity,
    fairshare::{Derivation, derivation},
    model::{PodGroupId, PodId, QueueId},
    queues::{
        Account,
        reclaim::{Reclaimer, Victims},
    },
    resources::{Amount, PerResource, ResourceName},
    session::Session,
    victims::{self, Piece, Unit},
};

/// What is to be said about one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueExplanation {
    /// Which.
    pub queue: QueueId,
    /// The accounts of all queues, by position, before the cycle.
    pub accounts: Vec<Account>,
    /// For GPU, CPU and memory: the divisions that gave it its share, from the top.
    pub derivations: [Vec<Derivation>; 3],
    /// One GPU; a core, where no node has GPUs.
    pub one_more: Quantity,
    /// Of what it could take if it asked for so much more: each of these alone would be acceptable,
    /// in the order in which that would be considered. A search ends when it has enough.
    pub would_take: Vec<Candidate>,
    /// What others would take from it and from those below it first.
    pub would_lose: Vec<Candidate>,
    /// Pods of it that have to leave in the next cycle, or have to leave for it.
    pub evictions: Vec<Decision>,
}

/// Pods that would have to leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Their queue.
    pub queue: QueueId,
    /// Their pod group.
    pub group: PodGroupId,
    /// Which of it.
    pub pods: Vec<PodId>,
    /// Their group runs on without them.
    pub is_surplus: bool,
}

/// How a queue stands in one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it asks for and does not have of its fair share; whether or not that is more than its
    /// quota.
    pub starved_of: i64,
    /// What it uses beyond its quota.
    pub borrows: i64,
}

impl Standing {
    /// In GPU, CPU and memory.
    pub fn of(account: &Account) -> [Self; 3] {
        let [used, share, asked] =
            [account.allocated, account.fair_share, account.requested].map(PerResource::values);
        let quota = account.quota.values();
        std::array::from_fn(|at| Self {
            starved_of: (share[at].min(asked[at]) - used[at]).max(0),
            borrows: match quota[at] {
                Amount::Exactly(quota) => (used[at] - quota).max(0),
                Amount::Unlimited => 0,
            },
        })
    }
}

/// Explains `queue`, as the next cycle sees it.
pub fn explain_queue(snapshot: &Snapshot, profile: &Profile, queue: QueueId) -> QueueExplanation {
    let session = Session::new(snapshot, profile);
    let ledger = session.ledger();
    let all = (0..).map(QueueId).take(snapshot.queues.len());
    let accounts: Vec<Account> = all.map(|queue| ledger.account(queue).clone()).collect();
    let requests: Vec<_> = accounts.iter().map(|account| account.requested).collect();
    let whole = (ledger.total(), profile.k_value_milli);
    let derivations = std::array::from_fn(|resource| {
        derivation(&snapshot.queues, &requests, whole, (queue, resource))
    });
    let (resource, request) = match ledger.total().gpu {
        0 => (ResourceName::Cpu, PerResource { cpu: 1000, ..PerResource::default() }),
        _ => (ResourceName::Gpu, PerResource { gpu: 1000, ..PerResource::default() }),
    };
    let one_more = Quantity { resource, amount: 1000 };
    let would_take = could_take(snapshot, profile, (queue, request));
    let would_lose = victims::first_to_leave(&session, queue).into_iter().map(candidate).collect();
    let evictions = evictions(snapshot, profile, queue);
    QueueExplanation { queue, accounts, derivations, one_more, would_take, would_lose, evictions }
}

/// With one more pod that asks for `request`: its demand counts in the shares. Whoever would not be
/// taken alone would not be taken with others either.
fn could_take(
    snapshot: &Snapshot,
    profile: &Profile,
    (queue, request): (QueueId, PerResource<i64>),
) -> Vec<Candidate> {
    let asking = super::one_more::with_demand(snapshot, queue, request);
    let session = Session::new(&asking, profile);
    let reclaimer = Reclaimer { queue, preemptible: true, request };
    let may_take = |unit: &Unit| {
        let victims = Victims::from([(unit.queue, vec![unit.amount])]);
        reclaimer.may_take(session.ledger(), &victims, profile.reclaim_saturation_milli)
    };
    let units = victims::reclaim_candidates(&session, reclaimer).into_iter();
    units.filter(may_take).map(candidate).collect()
}

fn candidate(unit: Unit) -> Candidate {
    Candidate {
        queue: unit.queue,
        group: unit.group,
        is_surplus: unit.piece == Piece::Surplus,
        pods: unit.pods.into_iter().map(|(pod, _)| pod).collect(),
    }
}

fn evictions(snapshot: &Snapshot, profile: &Profile, queue: QueueId) -> Vec<Decision> {
    let (session, plan) = decide(snapshot, profile, &mut ());
    let inside = |group: Option<PodGroupId>| {
        let leaf = group.and_then(|group| session.group(group).queue.clone().ok().flatten());
        leaf.is_some_and(|leaf| session.ledger().path(leaf).any(|above| above == queue))
    };
    let concerns = |decision: &Decision| match decision {
        Decision::Evict { pod, cause } => {
            inside(session.pod(*pod).group) || inside(cause.preemptor())
        }
        Decision::Bind { .. } | Decision::Pipeline { .. } => false,
    };
    plan.decisions.into_iter().filter(concerns).collect()
}
