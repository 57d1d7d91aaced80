//! The accounts of every queue. A pod is booked on its leaf queue and on all queues above it.

use super::{
    Bill, Prices,
    claims::{Due, SharedClaims},
    with_mig,
};
use crate::{
    Profile, Snapshot,
    fairshare::fair_shares,
    model::{Pod, PodStatus, Queue, QueueId, Time},
    resources::{Amount, PerResource},
};

/// What a queue deserves and uses. Amounts in the units of [`crate::resources::Resources`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The queue above it.
    pub parent: Option<QueueId>,
    /// Higher is served first among siblings that are equal so far.
    pub priority: i32,
    /// Older is served first among siblings that are equal in everything else.
    pub created: Time,
    /// What it deserves.
    pub quota: PerResource<Amount>,
    /// What it may use at most.
    pub limit: PerResource<Amount>,
    /// Its part of the cluster, by [`crate::fairshare`].
    pub fair_share: PerResource<i64>,
    /// Used by its pods that have, or were promised, a node; those leaving do not count.
    pub allocated: PerResource<i64>,
    /// Of that, by non-preemptible pods.
    pub allocated_non_preemptible: PerResource<i64>,
    /// Allocated, and asked for by pods that wait, neither gated nor left alone.
    pub requested: PerResource<i64>,
}

/// The accounts of all queues, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    accounts: Vec<Account>,
    claims: SharedClaims,
    total: PerResource<i64>,
    fair_shares: bool,
}

impl Ledger {
    /// Books every pod of the snapshot and divides the cluster.
    pub fn open(snapshot: &Snapshot, profile: &Profile, prices: &Prices) -> Self {
        let accounts = snapshot.queues.iter().map(Account::empty).collect();
        let total = shared_total(snapshot, prices);
        let claims = SharedClaims::default();
        let mut ledger = Self { accounts, claims, total, fair_shares: profile.fair_shares };
        for pod in &snapshot.pods {
            ledger.book((snapshot, prices), pod);
        }
        ledger.divide(snapshot, profile);
        ledger
    }

    /// Divides the cluster by what is asked for.
    pub(crate) fn divide(&mut self, snapshot: &Snapshot, profile: &Profile) {
        let requests: Vec<_> = self.accounts.iter().map(|account| account.requested).collect();
        let shares = fair_shares(&snapshot.queues, &requests, self.total, profile.k_value_milli);
        for (account, share) in self.accounts.iter_mut().zip(shares) {
            account.fair_share = share;
        }
    }

    /// Accounts that were kept elsewhere, as recorded decisions are.
    pub fn of(accounts: Vec<Account>, total: PerResource<i64>) -> Self {
        Self { accounts, claims: SharedClaims::default(), total, fair_shares: true }
    }

    /// Are sibling queues told apart by their accounts, or by their age alone?
    /// See [`Profile::fair_shares`].
    pub const fn tells_shares(&self) -> bool {
        self.fair_shares
    }

    /// What all queues share: the allocatable of ready nodes without what pods of other
    /// schedulers take there.
    pub const fn total(&self) -> PerResource<i64> {
        self.total
    }

    /// The account of one queue.
    pub fn account(&self, queue: QueueId) -> &Account {
        &self.accounts[queue.0 as usize]
    }

    /// The queue and all above it, upward.
    pub fn path(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(queue), |at| self.account(*at).parent)
    }

    /// Would non-preemptible work of `queue`, with `request` more, stay inside the quota there and
    /// above?
    pub fn keeps_quotas(&self, queue: QueueId, request: PerResource<i64>) -> bool {
        self.path(queue).map(|at| self.account(at)).all(|account| account.keeps_quota(request))
    }

    /// Would `queue` alone, with `request` more and `gone` less than it uses, keep its limit of
    /// everything that is asked for?
    pub fn keeps_limit(
        &self,
        queue: QueueId,
        request: PerResource<i64>,
        gone: PerResource<i64>,
    ) -> bool {
        let account = self.account(queue);
        let after = account.allocated.minus(gone).plus(request).values();
        let asked = request.values().into_iter().zip(account.limit.values());
        asked.zip(after).all(|((asked, limit), after)| asked <= 0 || limit.holds(after))
    }

    /// How many queues there are.
    pub const fn len(&self) -> usize {
        self.accounts.len()
    }

    /// There is no queue at all.
    pub const fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// A pod of `queue` got, or was promised, a node.
    pub fn charge(&mut self, queue: QueueId, bill: &Bill, preemptible: bool) {
        let due = self.claims.enter(queue, bill, preemptible);
        self.change(queue, |account| {
            account.allocated = account.allocated.plus(due.all);
            let non_preemptible = account.allocated_non_preemptible.plus(due.non_preemptible);
            account.allocated_non_preemptible = non_preemptible;
        });
    }

    /// A pod of `queue` that was charged is leaving.
    pub fn refund(&mut self, queue: QueueId, bill: &Bill, preemptible: bool) {
        let due = self.claims.leave(queue, bill, preemptible);
        self.change(queue, |account| {
            account.allocated = account.allocated.minus(due.all);
            let non_preemptible = account.allocated_non_preemptible.minus(due.non_preemptible);
            account.allocated_non_preemptible = non_preemptible;
        });
    }

    /// What `queue` would be charged for more such pods, those together on one bill.
    pub(crate) fn due(&self, queue: QueueId, bill: &Bill, preemptible: bool) -> Due {
        self.claims.due(queue, bill, preemptible)
    }

    fn change(&mut self, queue: QueueId, change: impl Fn(&mut Account)) {
        let mut next = Some(queue);
        while let Some(at) = next {
            let account = &mut self.accounts[at.0 as usize];
            change(account);
            next = account.parent;
        }
    }

    fn book(&mut self, (snapshot, prices): (&Snapshot, &Prices), pod: &Pod) {
        let Some(group) = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]) else {
            return;
        };
        let Ok(Some(queue)) = group.queue else { return };
        match pod.status {
            PodStatus::Bound | PodStatus::Running | PodStatus::Away => {
                let bill = match pod.node {
                    Some(node) => prices.on(pod.shape, &snapshot.nodes[node.0 as usize]),
                    None => prices.to_share(pod.shape),
                };
                self.charge(queue, &bill, group.preemptible);
                self.ask(queue, &bill);
            }
            PodStatus::Pending if group.left_alone => {}
            PodStatus::Pending => self.ask(queue, &prices.to_share(pod.shape)),
            PodStatus::Gated | PodStatus::Releasing | PodStatus::Succeeded | PodStatus::Failed => {}
        }
    }

    /// A pod of `queue` asks for what is on the bill.
    pub(crate) fn ask(&mut self, queue: QueueId, bill: &Bill) {
        let more = self.claims.ask(queue, bill);
        self.change(queue, |account| account.requested = account.requested.plus(more));
    }

    /// A pod of `queue` that asked for it does so no more.
    pub(crate) fn ask_no_more(&mut self, queue: QueueId, bill: &Bill) {
        let less = self.claims.ask_no_more(queue, bill);
        self.change(queue, |account| account.requested = account.requested.minus(less));
    }
}

impl Account {
    fn empty(queue: &Queue) -> Self {
        Self {
            parent: queue.parent,
            priority: queue.priority,
            created: queue.created,
            quota: queue.quota,
            limit: queue.limit,
            fair_share: PerResource::default(),
            allocated: PerResource::default(),
            allocated_non_preemptible: PerResource::default(),
            requested: PerResource::default(),
        }
    }

    /// Would its non-preemptible work, with `request` more, stay inside its quota?
    pub fn keeps_quota(&self, request: PerResource<i64>) -> bool {
        self.allocated_non_preemptible.plus(request).within(self.quota)
    }

    /// With `more` it would use more than its quota, or than its fair share, of something.
    pub fn is_beyond_share(&self, more: PerResource<i64>) -> bool {
        let after = self.allocated.plus(more);
        !after.within(self.quota) || !after.within(self.fair_share.map(Amount::Exactly))
    }

    /// As far as it may go without being a victim: its limit, but no more than the larger of
    /// quota and fair share.
    pub fn allocatable(&self) -> PerResource<Amount> {
        let share = |quota: Amount, fair: i64, limit: Amount| match quota {
            Amount::Unlimited => limit,
            Amount::Exactly(quota) => limit.min(Amount::Exactly(quota.max(fair))),
        };
        PerResource {
            gpu: share(self.quota.gpu, self.fair_share.gpu, self.limit.gpu),
            cpu: share(self.quota.cpu, self.fair_share.cpu, self.limit.cpu),
            memory: share(self.quota.memory, self.fair_share.memory, self.limit.memory),
        }
    }
}

fn shared_total(snapshot: &Snapshot, prices: &Prices) -> PerResource<i64> {
    let ready = snapshot.nodes.iter().filter(|node| node.ready);
    let offered = ready.fold(PerResource::default(), |sum: PerResource<i64>, node| {
        sum.plus(with_mig(&node.allocatable))
    });
    let others = snapshot.pods.iter().filter(|pod| pod.group.is_none());
    let bills = others.filter_map(|pod| {
        let takes_room = match pod.status {
            PodStatus::Bound | PodStatus::Running | PodStatus::Releasing => true,
            PodStatus::Pending
            | PodStatus::Gated
            | PodStatus::Away
            | PodStatus::Succeeded
            | PodStatus::Failed => false,
        };
        let node = &snapshot.nodes[pod.node?.0 as usize];
        (takes_room && node.ready).then(|| prices.on(pod.shape, node))
    });
    offered.minus(bills.collect::<Bill>().total())
}
