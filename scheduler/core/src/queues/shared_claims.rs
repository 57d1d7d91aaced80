//! GPU claims that several pods share: a queue pays for each once, as long as any of its pods has
//! it.

use std::collections::BTreeMap;

use super::Charge;
use crate::{
    model::{Name, QueueId},
    resources::PerResource,
};

/// Number of pods by queue and claim that have, or request, the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedClaims(BTreeMap<(QueueId, Name), Users>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Users {
    preemptible: u32,
    non_preemptible: u32,
    /// Pods that have the claim and pods that wait for it.
    requesting: u32,
}

/// By how much a queue's charge changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChargeChange {
    pub(crate) all: PerResource<i64>,
    /// The part for non-preemptible work.
    pub(crate) non_preemptible: PerResource<i64>,
}

impl SharedClaims {
    /// For one or several more pods, given the claims in use.
    pub(super) fn charge_change(
        &self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        let users = |name: &Name| self.users(queue, name);
        let all = charge.total_of(|name| users(name).holders() == 0);
        let non_preemptible = if preemptible {
            PerResource::default()
        } else {
            charge.total_of(|name| users(name).non_preemptible == 0)
        };
        ChargeChange { all, non_preemptible }
    }

    pub(super) fn acquire(
        &mut self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        let change = self.charge_change(queue, charge, preemptible);
        self.count(queue, charge, |users| {
            let count = users.holders_mut(preemptible);
            *count += 1;
        });
        change
    }

    pub(super) fn release(
        &mut self,
        queue: QueueId,
        charge: &Charge,
        preemptible: bool,
    ) -> ChargeChange {
        self.count(queue, charge, |users| {
            let count = users.holders_mut(preemptible);
            *count = count.saturating_sub(1);
        });
        self.charge_change(queue, charge, preemptible)
    }

    /// A pod starts to request the charge. Returns by how much its queue's request grows.
    pub(super) fn add_request(&mut self, queue: QueueId, charge: &Charge) -> PerResource<i64> {
        let more = charge.total_of(|name| self.users(queue, name).requesting == 0);
        self.count(queue, charge, |users| users.requesting += 1);
        more
    }

    /// A pod no longer requests the charge. Returns by how much its queue's request shrinks.
    pub(super) fn remove_request(&mut self, queue: QueueId, charge: &Charge) -> PerResource<i64> {
        self.count(queue, charge, |users| users.requesting = users.requesting.saturating_sub(1));
        charge.total_of(|name| self.users(queue, name).requesting == 0)
    }

    fn users(&self, queue: QueueId, name: &Name) -> Users {
        self.0.get(&(queue, name.clone())).copied().unwrap_or_default()
    }

    fn count(&mut self, queue: QueueId, charge: &Charge, change: impl Fn(&mut Users)) {
        for (name, _) in charge.shareable_claims() {
            change(self.0.entry((queue, name.clone())).or_default());
        }
    }
}

impl Users {
    const fn holders(self) -> u32 {
        self.preemptible + self.non_preemptible
    }

    const fn holders_mut(&mut self, preemptible: bool) -> &mut u32 {
        if preemptible { &mut self.preemptible } else { &mut self.non_preemptible }
    }
}
