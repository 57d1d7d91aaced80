//! Which queue may reclaim from which, and how much: KAI's rules over the accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Account, QueueAccounts, queue_key::Ratio};
use crate::{
    model::QueueId,
    resources::{Amount, PerResource},
};

/// A pending job that reclaims resources which its queue deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimer {
    /// Leaf queue of the job.
    pub queue: QueueId,
    /// Whether the job is preemptible, and may exceed its queue's quota.
    pub preemptible: bool,
    /// What the job's next pods request together.
    pub request: PerResource<i64>,
}

/// The amounts that are reclaimed from each leaf queue, in order: elastic pods one by one, the
/// minimum of a gang as one amount.
pub type Victims = BTreeMap<QueueId, Vec<PerResource<i64>>>;

impl Reclaimer {
    /// Whether the job may reclaim from any queue: its leaf queue must stay within its fair share
    /// and, for non-preemptible jobs, within its quota.
    pub fn may_reclaim(&self, accounts: &QueueAccounts) -> bool {
        let account = accounts.account(self.queue);
        let after = account.allocated.plus(self.request);
        let fair = account.fair_share.values().map(Amount::Exactly);
        let in_share = after.values().into_iter().zip(fair).all(|(used, fair)| fair.allows(used));
        accounts.uses_fair_shares()
            && in_share
            && (self.preemptible || account.fits_quota(self.request))
    }

    /// Positions of the resources that the job requests.
    pub(crate) fn requested_resources(&self) -> impl Iterator<Item = usize> + use<> {
        let requested = self.request.values();
        [0, 1, 2].into_iter().filter(move |&at| requested[at] > 0)
    }

    /// Whether the job may reclaim from the leaf queue `victim`. When the job's own queue stays
    /// within quota: from a queue that exceeds its quota of a requested resource, or is below it in
    /// none; otherwise from a queue beyond its allocatable share.
    pub fn may_reclaim_from(&self, accounts: &QueueAccounts, victim: QueueId) -> bool {
        let Some((mine, theirs)) = diverging_queues(accounts, self.queue, victim) else {
            return false;
        };
        let (mine, theirs) = (accounts.account(mine), accounts.account(theirs));
        if !mine.allocated.plus(self.request).is_within(mine.quota) {
            return !theirs.allocated.is_within(theirs.allocatable());
        }
        let (used, quota) = (theirs.allocated.values(), theirs.quota.values());
        let over = self.requested_resources().any(|at| !quota[at].allows(used[at]));
        let under = |at: usize| matches!(quota[at], Amount::Exactly(quota) if used[at] < quota);
        over || !self.requested_resources().any(under)
    }

    /// Whether the job may reclaim all amounts in `victims`. `saturation_milli` is how much further
    /// over its fair share than the reclaimer a victim's queue must be, in thousandths.
    pub fn may_reclaim_all(
        &self,
        accounts: &QueueAccounts,
        victims: &Victims,
        saturation_milli: i64,
    ) -> bool {
        let Some(remaining) = self.remaining_after(accounts, victims) else { return false };
        self.siblings_stay_ahead(accounts, victims, &remaining, saturation_milli)
            && (self.preemptible || accounts.fits_quotas(self.queue, self.request))
    }

    /// What each affected queue keeps after the amounts are taken; `None` when one of the queues
    /// had nothing left to reclaim.
    fn remaining_after(&self, accounts: &QueueAccounts, victims: &Victims) -> Option<RemainingUse> {
        let mut remaining = RemainingUse::default();
        for (&leaf, taken) in victims {
            for &amount in taken {
                self.take_next_amount(accounts, &mut remaining, leaf, amount).then_some(())?;
            }
        }
        Some(remaining)
    }

    /// Takes one more amount of a leaf queue, unless the queue has nothing left to reclaim. KAI
    /// looks at the queue before the amount is taken: a large unit may leave it below what it
    /// deserves.
    pub(crate) fn take_next_amount(
        &self,
        accounts: &QueueAccounts,
        remaining: &mut RemainingUse,
        leaf: QueueId,
        amount: PerResource<i64>,
    ) -> bool {
        let Some((mine, theirs)) = diverging_queues(accounts, self.queue, leaf) else {
            return false;
        };
        let mine = accounts.account(mine);
        let deserved = mine.allocated.plus(self.request).is_within(mine.quota);
        let used = remaining.allocated(accounts, theirs);
        let may_take = is_reclaimable(used, accounts.account(theirs), deserved);
        if may_take {
            remaining.subtract(accounts, leaf, amount);
        }
        may_take
    }

    /// Checks on each level of the queue tree that the reclaimer's queue does not end over its fair
    /// share, unless each sibling it reclaimed from is still further over.
    fn siblings_stay_ahead(
        &self,
        accounts: &QueueAccounts,
        victims: &Victims,
        remaining: &RemainingUse,
        saturation_milli: i64,
    ) -> bool {
        let involved = self.involved_resources(victims);
        let own: BTreeSet<QueueId> = accounts.path_to_root(self.queue).collect();
        let touched: BTreeSet<QueueId> =
            victims.keys().flat_map(|leaf| accounts.path_to_root(*leaf)).collect();
        touched.difference(&own).all(|&sibling| {
            let parent = accounts.account(sibling).parent;
            let Some(&mine) = own.iter().find(|at| accounts.account(**at).parent == parent) else {
                return true;
            };
            let share = remaining.allocated(accounts, mine).plus(self.request);
            let mine = ratios_to_fair_share(share, accounts.account(mine));
            let account = accounts.account(sibling);
            let theirs = ratios_to_fair_share(remaining.allocated(accounts, sibling), account);
            let fair = account.fair_share.values();
            [0, 1, 2].into_iter().filter(|&at| involved[at] && fair[at] > 0).all(|at| {
                mine[at] <= Ratio::new(1, 1) || mine[at].scaled_milli(saturation_milli) < theirs[at]
            })
        })
    }

    fn involved_resources(&self, victims: &Victims) -> [bool; 3] {
        let all = victims.values().flatten().chain([&self.request]);
        all.fold([false; 3], |involved, amount| {
            let requested = amount.values().map(|value| value > 0);
            [involved[0] || requested[0], involved[1] || requested[1], involved[2] || requested[2]]
        })
    }
}

/// What queues keep after amounts were reclaimed, for the queues where that differs from their
/// accounts.
#[derive(Default)]
pub(crate) struct RemainingUse(BTreeMap<QueueId, PerResource<i64>>);

impl RemainingUse {
    fn allocated(&self, accounts: &QueueAccounts, queue: QueueId) -> PerResource<i64> {
        self.0.get(&queue).copied().unwrap_or_else(|| accounts.account(queue).allocated)
    }

    fn subtract(&mut self, accounts: &QueueAccounts, leaf: QueueId, amount: PerResource<i64>) {
        for queue in accounts.path_to_root(leaf) {
            let kept = self.allocated(accounts, queue).minus(amount);
            self.0.insert(queue, kept);
        }
    }
}

/// The ancestors of two leaf queues just below their lowest common ancestor, first that of `mine`.
/// `None` when one queue is an ancestor of the other.
pub fn diverging_queues(
    accounts: &QueueAccounts,
    mine: QueueId,
    theirs: QueueId,
) -> Option<(QueueId, QueueId)> {
    let parent = |queue: QueueId| accounts.account(queue).parent;
    let siblings = accounts.path_to_root(mine).find_map(|left| {
        let mut above = accounts.path_to_root(theirs);
        above.find(|right| parent(*right) == parent(left)).map(|right| (left, right))
    });
    siblings.filter(|(left, right)| left != right)
}

/// Whether a queue with this usage has something to reclaim: it is beyond its allocatable share, or
/// over quota when a queue within its own quota reclaims.
fn is_reclaimable(used: PerResource<i64>, account: &Account, is_within_quota: bool) -> bool {
    !used.is_within(account.allocatable()) || is_within_quota && !used.is_within(account.quota)
}

/// For each resource the usage divided by the fair share. Zero divided by zero is 0; anything else
/// divided by zero is infinite.
fn ratios_to_fair_share(used: PerResource<i64>, account: &Account) -> [Ratio; 3] {
    let (used, fair) = (used.values(), account.fair_share.values());
    [0, 1, 2].map(|at| match (used[at], fair[at]) {
        (used, 0) if used <= 0 => Ratio::new(0, 1),
        (_, 0) => Ratio::new(i128::from(i64::MAX), 1),
        (used, fair) => Ratio::new(i128::from(used), i128::from(fair)),
    })
}
