//! The queue tree in use: what each queue deserves and uses ([`QueueAccounts`]), which queue is
//! served next ([`queue_key`]), the jobs in that order ([`JobsByQueue`]), and which queue may
//! reclaim from which ([`reclaim`]). The division itself is in [`fairshare`].

mod accounts;
mod charge;
pub mod fairshare;
mod job_order;
pub mod queue_key;
mod queue_order;
pub mod reclaim;
mod shared_claims;
mod usage;

pub use accounts::{Account, FairShareRules, QueueAccounts};
pub(crate) use accounts::{PodCharge, charges_of_pods};
pub use charge::{Charge, ChargeTable, accounted_with_mig};
pub use job_order::{JobKey, JobsByQueue, MinimumStatus, QueuedJob, first_jobs_per_queue};
pub use queue_order::{OrderPurpose, QueueCandidate, QueueOrder};
pub use usage::queue_usage_lines;

use std::cmp::Ordering;

use crate::model::{PodGroup, PodGroupId};

/// The pod groups by time of creation, then uid, then position.
pub fn groups_by_age(groups: &[PodGroup]) -> Vec<PodGroupId> {
    let mut order: Vec<PodGroupId> = (0..).map(PodGroupId).zip(groups).map(|(id, _)| id).collect();
    order.sort_by(|a, b| compare_age(groups, *a, *b));
    order
}

/// Compares two pod groups by time of creation, then uid, then position.
pub(crate) fn compare_age(groups: &[PodGroup], a: PodGroupId, b: PodGroupId) -> Ordering {
    let (left, right) = (&groups[a.0 as usize], &groups[b.0 as usize]);
    (left.created, &left.uid).cmp(&(right.created, &right.uid)).then(a.cmp(&b))
}

/// The rank of each pod group in this order of all groups.
pub fn age_ranks(order: &[PodGroupId]) -> Vec<u32> {
    let mut ranks = vec![0; order.len()];
    for (group, rank) in order.iter().zip(0..) {
        ranks[group.0 as usize] = rank;
    }
    ranks
}

#[cfg(test)]
mod tests;
