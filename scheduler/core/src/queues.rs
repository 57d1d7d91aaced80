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
pub use charge::{Charge, ChargeTable, accounted_with_mig};
pub use job_order::{JobKey, JobsByQueue, MinimumStatus, QueuedJob, first_jobs_per_queue};
pub use queue_order::{OrderPurpose, QueueCandidate, QueueOrder};
pub use usage::queue_usage_lines;

use crate::model::PodGroup;

/// The rank of each pod group by time of creation, then uid, then position.
pub fn age_ranks(groups: &[PodGroup]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|&a, &b| {
        let (left, right) = (&groups[a], &groups[b]);
        (left.created, &left.uid).cmp(&(right.created, &right.uid)).then(a.cmp(&b))
    });
    let mut ranks = vec![0; groups.len()];
    for (rank, at) in order.into_iter().enumerate() {
        ranks[at] = u32::try_from(rank).expect("pod group ids are 32 bits");
    }
    ranks
}

#[cfg(test)]
mod tests;
