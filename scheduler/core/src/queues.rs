//! The queue tree at work: what each queue deserves and uses ([`Ledger`]), which queue is served
//! next ([`standing`]), the jobs in that order ([`JobLine`]), and who may take back from whom
//! ([`reclaim`]). The division itself is in [`crate::fairshare`].

mod claims;
mod ledger;
mod line;
mod price;
mod race;
pub mod reclaim;
pub mod standing;
mod usage;

pub use ledger::{Account, Ledger};
pub use line::{JobKey, JobLine, Shortfall, Waiting, first_of_each};
pub use price::{Bill, Prices, with_mig};
pub use race::{Direction, Offer, Race};
pub use usage::usage_lines;

use crate::model::PodGroup;

/// For each pod group its rank by creation, then uid, then place.
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
