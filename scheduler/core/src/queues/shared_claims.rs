//! GPU claims that several pods share: a queue pays for each once, as long as any of its pods has
//! it.

use std::collections::BTreeMap;

use super::Charge;
use crate::{
    model::{Name, QueueId},
    resources::PerResource,
};

/// For each queue and claim, the number of pods that have the claim or request it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedClaims(BTreeMap<(QueueId, Name), ClaimUserCounts>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClaimUserCounts {
    preemptible: u32,
    non_preemptible: u32,
    /// Number of pods that have the claim or wait for it.
    requesting: u32,
}

/// By how much a queue's account changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargeChange {
    pub(crate) all: PerResource<i64>,
    /// The part of the change that counts for non-preemptible pods.
    pub(crate) non_preemptible: PerResource<i64>,
}

impl SharedClaims {
    /// How the account would change if further pods with this charge were allocated, given the
    /// claims already in use.
    pub(super) fn additional_charge(
        &self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        let users = |name: &Name| self.user_counts(queue, name);
        let all = charge.total_with_claims(|name| users(name).holder_count() == 0);
        let non_preemptible = if preemptible {
            PerResource::default()
        } else {
            charge.total_with_claims(|name| users(name).non_preemptible == 0)
        };
        ChargeChange { all, non_preemptible }
    }

    pub(super) fn add_holder(
        &mut self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        let change = self.additional_charge(queue, charge, preemptible);
        self.change_user_counts(queue, charge, |users| {
            let count = users.holders_mut(preemptible);
            *count += 1;
        });
        change
    }

    pub(super) fn remove_holder(
        &mut self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        self.change_user_counts(queue, charge, |users| {
            let count = users.holders_mut(preemptible);
            *count = count.saturating_sub(1);
        });
        self.additional_charge(queue, charge, preemptible)
    }

    /// A pod starts to request the charge. Returns by how much its queue's request grows.
    pub(super) fn add_request(&mut self, queue: QueueId, charge: &Charge) -> PerResource<i64> {
        let more = charge.total_with_claims(|name| self.user_counts(queue, name).requesting == 0);
        self.change_user_counts(queue, charge, |users| users.requesting += 1);
        more
    }

    /// A pod no longer requests the charge. Returns by how much its queue's request shrinks.
    pub(super) fn remove_request(&mut self, queue: QueueId, charge: &Charge) -> PerResource<i64> {
        self.change_user_counts(queue, charge, |users| {
            users.requesting = users.requesting.saturating_sub(1);
        });
        charge.total_with_claims(|name| self.user_counts(queue, name).requesting == 0)
    }

    fn user_counts(&self, queue: QueueId, claim: &Name) -> ClaimUserCounts {
        self.0.get(&(queue, claim.clone())).copied().unwrap_or_default()
    }

    fn change_user_counts(
        &mut self,
        queue: QueueId,
        charge: &Charge,
        change: impl Fn(&mut ClaimUserCounts),
    ) {
        for (name, _) in charge.shareable_claims() {
            change(self.0.entry((queue, name.clone())).or_default());
        }
    }
}

impl ClaimUserCounts {
    const fn holder_count(self) -> u32 {
        self.preemptible + self.non_preemptible
    }

    const fn holders_mut(&mut self, preemptible: bool) -> &mut u32 {
        if preemptible { &mut self.preemptible } else { &mut self.non_preemptible }
    }
}
