//! The accounts of all queues. A pod is charged to its leaf queue and to all ancestors.

use super::{
    Charge, ChargeTable, accounted_with_mig,
    fairshare::fair_shares,
    shared_claims::{ChargeChange, SharedClaims},
};
use crate::{
    Snapshot,
    model::{Pod, PodId, PodStatus, Queue, QueueId, Time},
    resources::{Amount, PerResource},
};

/// Quota, limit, fair share and usage of a queue, in the units of [`crate::resources::Resources`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The parent queue.
    pub parent: Option<QueueId>,
    /// Queues with higher priority are served first among otherwise equal siblings.
    pub priority: i32,
    /// Older queues are served first among otherwise equal siblings.
    pub created: Time,
    /// Deserved amount of the queue (`quota`).
    pub quota: PerResource<Amount>,
    /// Maximum usage of the queue (`limit`).
    pub limit: PerResource<Amount>,
    /// Fair share of the queue, computed by [`super::fairshare`].
    pub fair_share: PerResource<i64>,
    /// Usage of the queue's allocated and pipelined pods; terminating pods do not count.
    pub allocated: PerResource<i64>,
    /// The part of `allocated` that non-preemptible pods use.
    pub allocated_non_preemptible: PerResource<i64>,
    /// `allocated` plus what the queue's pending pods request; gated pods and pods of skipped
    /// groups do not count.
    pub requested: PerResource<i64>,
}

/// The accounts of all queues, by position of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAccounts {
    accounts: Vec<Account>,
    claims: SharedClaims,
    total: PerResource<i64>,
    fair_shares: FairShareRules,
}

/// The rules by which the cluster is divided among queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShareRules {
    /// Whether sibling queues are ordered by their fair shares and usage; otherwise by age.
    pub are_used: bool,
    /// KAI's `kValue`: weight of past usage, in thousandths.
    pub k_value_milli: i64,
}

impl QueueAccounts {
    /// Records every pod of the snapshot and divides the cluster.
    pub fn new(snapshot: &Snapshot, fair_shares: FairShareRules, charges: &ChargeTable) -> Self {
        let pods: Vec<PodCharge> = charges_of_pods(snapshot, charges);
        let ungrouped = (0..).map(PodId).zip(&snapshot.pods);
        let ungrouped = ungrouped.filter(|(_, pod)| pod.group.is_none()).map(|(id, _)| id);
        Self::from_charges(snapshot, fair_shares, charges, &pods, ungrouped)
    }

    /// Like [`Self::new`], given what each pod is charged, and the pods without group.
    pub(crate) fn from_charges(
        snapshot: &Snapshot,
        fair_shares: FairShareRules,
        charges: &ChargeTable,
        pods: &[PodCharge],
        ungrouped: impl Iterator<Item = PodId>,
    ) -> Self {
        let accounts = snapshot.queues.iter().map(Account::without_usage).collect();
        let total = total_shared_by_queues(snapshot, charges, ungrouped);
        let claims = SharedClaims::default();
        let mut all = Self { accounts, claims, total, fair_shares };
        for pod in pods {
            all.record_pod(pod);
        }
        all.divide_fair_shares(snapshot);
        all
    }

    /// Divides the cluster among the queues by their current requests.
    pub(crate) fn divide_fair_shares(&mut self, snapshot: &Snapshot) {
        let requests: Vec<_> = self.accounts.iter().map(|account| account.requested).collect();
        let shares =
            fair_shares(&snapshot.queues, &requests, self.total, self.fair_shares.k_value_milli);
        for (account, share) in self.accounts.iter_mut().zip(shares) {
            account.fair_share = share;
        }
    }

    /// Creates accounts from given values, for example recorded ones.
    pub fn from_accounts(accounts: Vec<Account>, total: PerResource<i64>) -> Self {
        Self {
            accounts,
            claims: SharedClaims::default(),
            total,
            fair_shares: FairShareRules { are_used: true, k_value_milli: 1000 },
        }
    }

    /// Whether sibling queues are ordered by their accounts instead of their age.
    pub const fn uses_fair_shares(&self) -> bool {
        self.fair_shares.are_used
    }

    /// Total amount that is divided among the queues: allocatable resources of ready nodes minus
    /// pods of other schedulers.
    pub const fn total_shared(&self) -> PerResource<i64> {
        self.total
    }

    /// The account of one queue.
    pub fn account(&self, queue: QueueId) -> &Account {
        &self.accounts[queue.0 as usize]
    }

    /// The queue and its ancestors, from the queue up to the root.
    pub fn path_to_root(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(queue), |at| self.account(*at).parent)
    }

    /// Whether the quotas of the queue and its ancestors allow `request` more for non-preemptible
    /// pods.
    pub fn fits_quotas(&self, queue: QueueId, request: PerResource<i64>) -> bool {
        self.path_to_root(queue)
            .map(|at| self.account(at))
            .all(|account| account.fits_quota(request))
    }

    /// Whether `queue` itself, with `request` more and `gone` less allocated, stays within its
    /// limit of every requested resource.
    pub fn fits_limit(
        &self,
        queue: QueueId,
        request: PerResource<i64>,
        gone: PerResource<i64>,
    ) -> bool {
        let account = self.account(queue);
        let after = account.allocated.minus(gone).plus(request).values();
        let requested = request.values().into_iter().zip(account.limit.values());
        requested
            .zip(after)
            .all(|((requested, limit), after)| requested <= 0 || limit.allows(after))
    }

    /// Whether `queue` itself, with `request` more and `gone` less allocated, stays within its fair
    /// share of every requested resource.
    pub fn fits_fair_share(
        &self,
        queue: QueueId,
        request: PerResource<i64>,
        gone: PerResource<i64>,
    ) -> bool {
        let account = self.account(queue);
        let after = account.allocated.minus(gone).plus(request).values();
        let requested = request.values().into_iter().zip(account.fair_share.values());
        requested.zip(after).all(|((requested, share), after)| requested <= 0 || after <= share)
    }

    /// Number of queues.
    pub const fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Whether there are no queues.
    pub const fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// Charges `queue` for a pod that was allocated or pipelined.
    pub fn charge_queue(&mut self, queue: QueueId, charge: &Charge, preemptible: bool) {
        let change = self.claims.add_holder(queue, charge, preemptible);
        self.change_path_to_root(queue, |account| {
            account.allocated = account.allocated.plus(change.all);
            let non_preemptible = account.allocated_non_preemptible.plus(change.non_preemptible);
            account.allocated_non_preemptible = non_preemptible;
        });
    }

    /// Refunds `queue` for a charged pod that is evicted.
    pub fn refund_queue(&mut self, queue: QueueId, charge: &Charge, preemptible: bool) {
        let change = self.claims.remove_holder(queue, charge, preemptible);
        self.change_path_to_root(queue, |account| {
            account.allocated = account.allocated.minus(change.all);
            let non_preemptible = account.allocated_non_preemptible.minus(change.non_preemptible);
            account.allocated_non_preemptible = non_preemptible;
        });
    }

    /// How the account of `queue` would change if further pods with this charge were allocated.
    pub(crate) fn additional_charge(
        &self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        self.claims.additional_charge(queue, charge, preemptible)
    }

    fn change_path_to_root(&mut self, queue: QueueId, change: impl Fn(&mut Account)) {
        let mut next = Some(queue);
        while let Some(at) = next {
            let account = &mut self.accounts[at.0 as usize];
            change(account);
            next = account.parent;
        }
    }

    fn record_pod(&mut self, charge: &PodCharge) {
        let PodCharge { queue: Some(queue), preemptible, use_of_queue, charge } = charge else {
            return;
        };
        match use_of_queue {
            UseOfQueue::Holds => {
                self.charge_queue(*queue, charge, *preemptible);
                self.add_request(*queue, charge);
            }
            UseOfQueue::Requests => self.add_request(*queue, charge),
        }
    }

    /// Replaces what a pod is charged. Exact unless queues pay for claims that pods share.
    pub(crate) fn replace_pod(&mut self, before: &PodCharge, after: &PodCharge) {
        if before == after {
            return;
        }
        if let PodCharge { queue: Some(queue), preemptible, use_of_queue, charge } = before {
            if *use_of_queue == UseOfQueue::Holds {
                self.refund_queue(*queue, charge, *preemptible);
            }
            self.remove_request(*queue, charge);
        }
        self.record_pod(after);
    }

    /// Sets the total amount that is divided among the queues, from the snapshot.
    pub(crate) fn count_total(
        &mut self,
        snapshot: &Snapshot,
        charges: &ChargeTable,
        ungrouped: impl Iterator<Item = PodId>,
    ) {
        self.total = total_shared_by_queues(snapshot, charges, ungrouped);
    }

    /// Whether sums are so large that taking an amount off them may not undo adding it.
    pub(crate) fn may_saturate(&self) -> bool {
        const LARGE: i64 = i64::MAX / 4;
        let sums = self.accounts.iter().flat_map(|account| {
            [account.allocated, account.allocated_non_preemptible, account.requested]
        });
        sums.flat_map(PerResource::values).any(|amount| amount.saturating_abs() > LARGE)
    }

    /// Records that a pod of `queue` requests the charge.
    pub(crate) fn add_request(&mut self, queue: QueueId, charge: &Charge) {
        let more = self.claims.add_request(queue, charge);
        self.change_path_to_root(queue, |account| account.requested = account.requested.plus(more));
    }

    /// Records that a pod of `queue` no longer requests the charge.
    pub(crate) fn remove_request(&mut self, queue: QueueId, charge: &Charge) {
        let less = self.claims.remove_request(queue, charge);
        self.change_path_to_root(queue, |account| {
            account.requested = account.requested.minus(less);
        });
    }
}

/// The queue that a pod of the snapshot is charged to, and the amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodCharge {
    /// `None`: nothing is charged.
    queue: Option<QueueId>,
    preemptible: bool,
    use_of_queue: UseOfQueue,
    charge: Charge,
}

/// How a pod uses its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UseOfQueue {
    /// The pod has a node.
    Holds,
    /// The pod is pending.
    Requests,
}

impl PodCharge {
    /// Nothing is charged.
    pub(crate) fn nothing() -> Self {
        let use_of_queue = UseOfQueue::Requests;
        Self { queue: None, preemptible: false, use_of_queue, charge: Charge::default() }
    }

    /// What the pod is charged in the snapshot.
    pub(crate) fn of_pod(snapshot: &Snapshot, charges: &ChargeTable, pod: &Pod) -> Self {
        let group = pod.group.map(|group| &snapshot.pod_groups[group.0 as usize]);
        let Some(group) = group else { return Self::nothing() };
        let Ok(Some(queue)) = group.queue else { return Self::nothing() };
        let (use_of_queue, charge) = match pod.status {
            PodStatus::Bound | PodStatus::Running | PodStatus::OnExcludedNode => {
                let charge = match pod.node {
                    Some(node) => {
                        charges.charge_on_node(pod.shape, &snapshot.nodes[node.0 as usize])
                    }
                    None => charges.charge_for_fair_share(pod.shape),
                };
                (UseOfQueue::Holds, charge)
            }
            PodStatus::Pending if group.is_skipped => return Self::nothing(),
            PodStatus::Pending => (UseOfQueue::Requests, charges.charge_for_fair_share(pod.shape)),
            PodStatus::Gated | PodStatus::Releasing | PodStatus::Succeeded | PodStatus::Failed => {
                return Self::nothing();
            }
        };
        Self { queue: Some(queue), preemptible: group.preemptible, use_of_queue, charge }
    }
}

/// What all pods of the snapshot are charged.
pub(crate) fn charges_of_pods(snapshot: &Snapshot, charges: &ChargeTable) -> Vec<PodCharge> {
    snapshot.pods.iter().map(|pod| PodCharge::of_pod(snapshot, charges, pod)).collect()
}

impl Account {
    fn without_usage(queue: &Queue) -> Self {
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

    /// Whether the queue's quota allows `request` more for non-preemptible pods.
    pub fn fits_quota(&self, request: PerResource<i64>) -> bool {
        self.allocated_non_preemptible.plus(request).is_within(self.quota)
    }

    /// Whether the queue with `request` more would exceed its quota or its fair share of some
    /// resource.
    pub fn would_exceed_share(&self, request: PerResource<i64>) -> bool {
        let after = self.allocated.plus(request);
        !after.is_within(self.quota) || !after.is_within(self.fair_share.map(Amount::Exactly))
    }

    /// What the queue may use without becoming a victim: the larger of quota and fair share, at
    /// most its limit.
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

fn total_shared_by_queues(
    snapshot: &Snapshot,
    charges: &ChargeTable,
    ungrouped: impl Iterator<Item = PodId>,
) -> PerResource<i64> {
    let ready = snapshot.nodes.iter().filter(|node| node.ready);
    let offered = ready.fold(PerResource::default(), |sum: PerResource<i64>, node| {
        sum.plus(accounted_with_mig(&node.allocatable))
    });
    let others = ungrouped.map(|pod| &snapshot.pods[pod.0 as usize]);
    let bills = others.filter_map(|pod| {
        let takes_room = match pod.status {
            PodStatus::Bound | PodStatus::Running | PodStatus::Releasing => true,
            PodStatus::Pending
            | PodStatus::Gated
            | PodStatus::OnExcludedNode
            | PodStatus::Succeeded
            | PodStatus::Failed => false,
        };
        let node = &snapshot.nodes[pod.node?.0 as usize];
        (takes_room && node.ready).then(|| charges.charge_on_node(pod.shape, node))
    });
    offered.minus(bills.collect::<Charge>().total())
}
