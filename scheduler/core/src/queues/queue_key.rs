//! The order of sibling queues. A queue's [`QueueKey`] with its best next job: the smaller key is
//! served first, and victims are taken from the larger one first.

use std::cmp::{Ordering, Reverse};

use super::{Account, QueueAccounts};
use crate::{
    model::{QueueId, Time},
    resources::{Amount, PerResource},
};

/// An exact, non-negative ratio.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    numerator: i128,
    denominator: i128,
}

/// Position of a queue among its siblings, most significant part first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    /// Whether the queue uses more than its fair share of all three of GPU, CPU and memory.
    over_fair_share: bool,
    /// Whether the queue with the job would exceed its quota of some resource.
    over_quota: bool,
    priority: Reverse<i32>,
    /// Whether the queue with the job would use a resource of which its share is zero.
    uses_without_share: bool,
    share_with_job: Ratio,
    share: Ratio,
    /// Allocatable share of GPU, memory and CPU. KAI prefers the queue that has less of each and
    /// falls back to age when neither does; that is no total order, so the first difference decides
    /// here.
    allocatable: [Amount; 3],
    created: Time,
    /// The queue, as the last tie-breaker: siblings are in name order.
    queue: QueueId,
}

impl QueueKey {
    /// The key of `queue` if it ran `job` next, after `victims` are gone.
    pub fn new(
        accounts: &QueueAccounts,
        queue: QueueId,
        job: PerResource<i64>,
        victims: PerResource<i64>,
    ) -> Self {
        let account = accounts.account(queue);
        if !accounts.uses_fair_shares() {
            return Self::by_age(account.created, queue);
        }
        let allocatable = account.allocatable();
        let with_job = account.allocated.plus(job);
        let total = accounts.total_shared();
        Self {
            over_fair_share: exceeds_fair_share_in_all(account),
            over_quota: !with_job.is_within(account.quota),
            priority: Reverse(account.priority),
            uses_without_share: uses_resource_without_share(with_job, allocatable),
            share_with_job: dominant_share(with_job.minus(victims), allocatable, total),
            // KAI subtracts the victims only from the first of the two.
            share: dominant_share(account.allocated, allocatable, total),
            allocatable: [allocatable.gpu, allocatable.memory, allocatable.cpu],
            created: account.created,
            queue,
        }
    }
}

impl QueueKey {
    const fn by_age(created: Time, queue: QueueId) -> Self {
        let none = Ratio { numerator: 0, denominator: 1 };
        Self {
            over_fair_share: false,
            over_quota: false,
            priority: Reverse(0),
            uses_without_share: false,
            share_with_job: none,
            share: none,
            allocatable: [Amount::Unlimited; 3],
            created,
            queue,
        }
    }

    /// Compares siblings by everything but their names.
    pub fn cmp_siblings(&self, other: &Self) -> Ordering {
        self.cmp(&Self { queue: self.queue, ..other.clone() })
    }

    /// The queue whose position the key is.
    pub const fn queue(&self) -> QueueId {
        self.queue
    }
}

fn exceeds_fair_share_in_all(account: &Account) -> bool {
    let (used, fair) = (account.allocated.values(), account.fair_share.values());
    used.into_iter().zip(fair).all(|(used, fair)| used > fair)
}

fn uses_resource_without_share(used: PerResource<i64>, allocatable: PerResource<Amount>) -> bool {
    let pairs = used.values().into_iter().zip(allocatable.values());
    pairs.into_iter().any(|(used, bound)| used > 0 && bound == Amount::Exactly(0))
}

/// The largest part of its allocatable share that the queue uses, over all resources. A resource
/// with share zero weighs a thousand times its usage.
fn dominant_share(
    used: PerResource<i64>,
    allocatable: PerResource<Amount>,
    total: PerResource<i64>,
) -> Ratio {
    let used = used.values().into_iter().zip([1000, 1, 1]);
    let bounds = allocatable.values().into_iter().zip(total.values());
    used.zip(bounds)
        .map(|((used, unit), (bound, total))| match bound.limit_or(total) {
            0 => Ratio::new(i128::from(used) * 1000, unit),
            bound => Ratio::new(i128::from(used), i128::from(bound)),
        })
        .max()
        .expect("three resources")
}

impl Ratio {
    /// The ratio `numerator / denominator`; negative numerators count as zero.
    pub fn new(numerator: i128, denominator: i128) -> Self {
        Self { numerator: numerator.max(0), denominator: denominator.max(1) }
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Some((numerator, denominator)), Some((others, than))) =
            (self.in_64_bits(), other.in_64_bits())
        {
            return (numerator * than).cmp(&(others * denominator));
        }
        let left = self.numerator.checked_mul(other.denominator);
        match (left, other.numerator.checked_mul(self.denominator)) {
            (Some(left), Some(right)) => left.cmp(&right),
            (None, _) | (_, None) => self.cmp_by_continued_fraction(*other),
        }
    }
}

impl Ratio {
    /// The numerator and the denominator, if products of two such numbers cannot overflow. Almost
    /// all ratios are compared without checked multiplications of 128 bits, which cost many times
    /// more.
    fn in_64_bits(self) -> Option<(i128, i128)> {
        let narrow = |number: i128| i64::try_from(number).ok().map(i128::from);
        Some((narrow(self.numerator)?, narrow(self.denominator)?))
    }

    /// Compares two ratios by their whole parts, then by the reciprocals of the remainders.
    fn cmp_by_continued_fraction(self, other: Self) -> Ordering {
        let whole = |ratio: Self| ratio.numerator / ratio.denominator;
        let left = |ratio: Self| ratio.numerator % ratio.denominator;
        whole(self).cmp(&whole(other)).then_with(|| match (left(self), left(other)) {
            (0, right) => 0.cmp(&right),
            (_, 0) => Ordering::Greater,
            (mine, theirs) => {
                Self::new(other.denominator, theirs).cmp(&Self::new(self.denominator, mine))
            }
        })
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ratio {
    /// The ratio times `milli / 1000`.
    #[must_use]
    pub fn scaled_milli(self, milli: i64) -> Self {
        Self::new(
            self.numerator.saturating_mul(i128::from(milli)),
            self.denominator.saturating_mul(1000),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_of_a_resource_with_share_zero_weighs_a_thousandfold() {
        let used = PerResource { gpu: 2000, cpu: 500, memory: 7 };
        let none_of = |gpu, cpu| {
            let memory = Amount::Unlimited;
            let total = PerResource { gpu: 8000, cpu: 1000, memory: 70 };
            dominant_share(used, PerResource { gpu, cpu, memory }, total)
        };
        let (some, none) = (Amount::Exactly(4000), Amount::Exactly(0));
        assert_eq!(none_of(some, Amount::Unlimited), Ratio::new(1, 2));
        assert_eq!(none_of(none, Amount::Unlimited), Ratio::new(2000, 1));
        assert_eq!(none_of(some, none), Ratio::new(500_000, 1));
    }

    #[test]
    fn ratios_are_exact_however_large() {
        let huge = i128::MAX;
        let ratio = Ratio::new;
        assert!(ratio(1, 3) < ratio(1, 2) && ratio(2, 4) == ratio(1, 2));
        assert!(ratio(1, 3) != ratio(1, 2));
        assert!(ratio(-5, 3) == ratio(0, 1) && ratio(1, 0) == ratio(1, 1));
        assert!(ratio(huge, 3) > ratio(huge, 4) && ratio(huge, 3) == ratio(huge, 3));
        assert!(ratio(huge, huge - 1) > ratio(huge - 1, huge - 1));
        assert!(ratio(huge - 1, huge) < ratio(huge, huge - 1));
        assert!(ratio(huge - 2, huge - 1) < ratio(huge - 1, huge));
        assert!(ratio(huge / 2, huge) < ratio(2, 3) && ratio(huge / 2, huge) > ratio(1, 3));
        let (wide, narrow) = (i128::from(i64::MAX) + 1, i128::from(i64::MAX));
        assert!(ratio(wide, narrow) > ratio(narrow, narrow) && ratio(narrow, wide) < ratio(1, 1));
        assert!(ratio(narrow - 1, narrow) < ratio(narrow, narrow - 1));
        assert!(ratio(7, 2).scaled_milli(1500) == ratio(21, 4));
    }

    #[test]
    fn a_queue_is_over_fair_share_only_when_it_is_in_all_three_resources() {
        let fair_share = PerResource { gpu: 10, cpu: 20, memory: 30 };
        let above = |gpu, cpu, memory| {
            exceeds_fair_share_in_all(&Account {
                parent: None,
                priority: 0,
                created: Time(0),
                quota: fair_share.map(Amount::Exactly),
                limit: fair_share.map(Amount::Exactly),
                fair_share,
                allocated: PerResource { gpu, cpu, memory },
                allocated_non_preemptible: PerResource::default(),
                requested: PerResource::default(),
            })
        };
        assert!(above(11, 21, 31));
        assert!(!above(10, 21, 31) && !above(11, 20, 31) && !above(11, 21, 30));
    }

    #[test]
    fn using_a_resource_with_share_zero_is_detected() {
        let bounds = PerResource {
            gpu: Amount::Exactly(0),
            cpu: Amount::Exactly(5),
            memory: Amount::Unlimited,
        };
        assert!(uses_resource_without_share(PerResource { gpu: 1, cpu: 0, memory: 0 }, bounds));
        assert!(!uses_resource_without_share(PerResource { gpu: 0, cpu: 9, memory: 9 }, bounds));
    }
}
