//! Who may take back from whom, and how much: KAI's rules over the accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Account, Ledger, standing::Ratio};
use crate::{
    model::QueueId,
    resources::{Amount, PerResource},
};

/// A job that wants to take back what its queue deserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reclaimer {
    /// Its leaf queue.
    pub queue: QueueId,
    /// May it use more than its queue's quota?
    pub preemptible: bool,
    /// What its next pods ask for together.
    pub request: PerResource<i64>,
}

/// What is taken from one leaf queue, in the order in which it is taken: elastic pods one by
/// one, the core of a gang as one.
pub type Victims = BTreeMap<QueueId, Vec<PerResource<i64>>>;

impl Reclaimer {
    /// May it start at all? Only inside its leaf queue's fair share and, when it is not
    /// preemptible, inside its quota.
    pub fn may_start(&self, ledger: &Ledger) -> bool {
        let account = ledger.account(self.queue);
        let after = account.allocated.plus(self.request);
        let fair = account.fair_share.values().map(Amount::Exactly);
        let in_share = after.values().into_iter().zip(fair).all(|(used, fair)| fair.holds(used));
        ledger.tells_shares() && in_share && (self.preemptible || account.keeps_quota(self.request))
    }

    /// Places of what it asks for in all resources.
    pub(crate) fn asked(&self) -> impl Iterator<Item = usize> + use<> {
        let asked = self.request.values();
        [0, 1, 2].into_iter().filter(move |&at| asked[at] > 0)
    }

    /// May something be taken from this leaf queue for it? When it stays inside its quota, from
    /// a queue that is over its own in something that is asked for, or under it in nothing; else
    /// from one beyond its allocatable share.
    pub fn may_take_from(&self, ledger: &Ledger, victim: QueueId) -> bool {
        let Some((mine, theirs)) = diverging(ledger, self.queue, victim) else { return false };
        let (mine, theirs) = (ledger.account(mine), ledger.account(theirs));
        if !mine.allocated.plus(self.request).within(mine.quota) {
            return !theirs.allocated.within(theirs.allocatable());
        }
        let (used, quota) = (theirs.allocated.values(), theirs.quota.values());
        let over = self.asked().any(|at| !quota[at].holds(used[at]));
        let under = |at: usize| matches!(quota[at], Amount::Exactly(quota) if used[at] < quota);
        over || !self.asked().any(under)
    }

    /// May all of `victims` be taken for it? `saturation_milli` is how much further than it
    /// its victims must be from their fair shares, in thousandths.
    pub fn may_take(&self, ledger: &Ledger, victims: &Victims, saturation_milli: i64) -> bool {
        let Some(remaining) = self.take_one_by_one(ledger, victims) else { return false };
        self.siblings_stay_ahead(ledger, victims, &remaining, saturation_milli)
            && (self.preemptible || ledger.keeps_quotas(self.queue, self.request))
    }

    /// What each touched queue keeps, or `None` when one of them had no more to give.
    fn take_one_by_one(&self, ledger: &Ledger, victims: &Victims) -> Option<Remaining> {
        let mut remaining = Remaining::default();
        for (&leaf, taken) in victims {
            let (mine, theirs) = diverging(ledger, self.queue, leaf)?;
            let mine = ledger.account(mine);
            let deserved = mine.allocated.plus(self.request).within(mine.quota);
            for &amount in taken {
                let used = remaining.of(ledger, theirs);
                has_to_give(used, ledger.account(theirs), deserved).then_some(())?;
                remaining.subtract(ledger, leaf, amount);
            }
        }
        Some(remaining)
    }

    /// On no level the reclaimer may end beyond its fair share while a sibling it took from is
    /// no better off.
    fn siblings_stay_ahead(
        &self,
        ledger: &Ledger,
        victims: &Victims,
        remaining: &Remaining,
        saturation_milli: i64,
    ) -> bool {
        let involved = self.involved(victims);
        let own: BTreeSet<QueueId> = ledger.path(self.queue).collect();
        let touched: BTreeSet<QueueId> =
            victims.keys().flat_map(|leaf| ledger.path(*leaf)).collect();
        touched.difference(&own).all(|&sibling| {
            let parent = ledger.account(sibling).parent;
            let Some(&mine) = own.iter().find(|at| ledger.account(**at).parent == parent) else {
                return true;
            };
            let share = remaining.of(ledger, mine).plus(self.request);
            let mine = ratios(share, ledger.account(mine));
            let account = ledger.account(sibling);
            let theirs = ratios(remaining.of(ledger, sibling), account);
            let fair = account.fair_share.values();
            [0, 1, 2].into_iter().filter(|&at| involved[at] && fair[at] > 0).all(|at| {
                mine[at] <= Ratio::new(1, 1) || mine[at].scaled_milli(saturation_milli) < theirs[at]
            })
        })
    }

    fn involved(&self, victims: &Victims) -> [bool; 3] {
        let all = victims.values().flatten().chain([&self.request]);
        all.fold([false; 3], |involved, amount| {
            let asked = amount.values().map(|value| value > 0);
            [involved[0] || asked[0], involved[1] || asked[1], involved[2] || asked[2]]
        })
    }
}

/// What queues would keep, where that differs from their accounts.
#[derive(Default)]
struct Remaining(BTreeMap<QueueId, PerResource<i64>>);

impl Remaining {
    fn of(&self, ledger: &Ledger, queue: QueueId) -> PerResource<i64> {
        self.0.get(&queue).copied().unwrap_or_else(|| ledger.account(queue).allocated)
    }

    fn subtract(&mut self, ledger: &Ledger, leaf: QueueId, amount: PerResource<i64>) {
        for queue in ledger.path(leaf) {
            let kept = self.of(ledger, queue).minus(amount);
            self.0.insert(queue, kept);
        }
    }
}

/// The two queues, reclaimer's first, just below the lowest queue above both. `None` when one
/// stands above the other.
pub fn diverging(ledger: &Ledger, mine: QueueId, theirs: QueueId) -> Option<(QueueId, QueueId)> {
    let mut mine: Vec<QueueId> = ledger.path(mine).collect();
    let mut theirs: Vec<QueueId> = ledger.path(theirs).collect();
    while let (Some(left), Some(right)) = (mine.pop(), theirs.pop()) {
        if left != right {
            return Some((left, right));
        }
    }
    None
}

/// Beyond its allocatable share of something, or over its quota of something when that is
/// taken back for a queue inside its own.
fn has_to_give(used: PerResource<i64>, account: &Account, deserved: bool) -> bool {
    !used.within(account.allocatable()) || deserved && !used.within(account.quota)
}

/// Used per fair share: nothing of nothing is 0, something of nothing endless.
fn ratios(used: PerResource<i64>, account: &Account) -> [Ratio; 3] {
    let (used, fair) = (used.values(), account.fair_share.values());
    [0, 1, 2].map(|at| match (used[at], fair[at]) {
        (used, 0) if used <= 0 => Ratio::new(0, 1),
        (_, 0) => Ratio::new(i128::from(i64::MAX), 1),
        (used, fair) => Ratio::new(i128::from(used), i128::from(fair)),
    })
}
