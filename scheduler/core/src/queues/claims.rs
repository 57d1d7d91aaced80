//! Claims on GPUs that several pods share: a queue pays for each once, as long as any of its pods
//! has it.

use std::collections::BTreeMap;

use super::Bill;
use crate::{
    model::{Name, QueueId},
    resources::PerResource,
};

/// How many pods of each queue have a claim, and how many ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedClaims(BTreeMap<(QueueId, Name), Users>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Users {
    preemptible: u32,
    non_preemptible: u32,
    /// Of those that have it, and of those that wait.
    asking: u32,
}

/// What a queue pays more, or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) all: PerResource<i64>,
    /// As far as it is for work that cannot be preempted.
    pub(crate) non_preemptible: PerResource<i64>,
}

impl SharedClaims {
    /// For one pod, or several, besides those that have their claims now.
    pub(super) fn due(&self, queue: QueueId, bill: &Bill, preemptible: bool) -> Due {
        let users = |name: &Name| self.users(queue, name);
        let all = bill.total_of(|name| users(name).have() == 0);
        let non_preemptible = if preemptible {
            PerResource::default()
        } else {
            bill.total_of(|name| users(name).non_preemptible == 0)
        };
        Due { all, non_preemptible }
    }

    pub(super) fn enter(&mut self, queue: QueueId, bill: &Bill, preemptible: bool) -> Due {
        let due = self.due(queue, bill, preemptible);
        self.count(queue, bill, |users| {
            let count = users.which(preemptible);
            *count += 1;
        });
        due
    }

    pub(super) fn leave(&mut self, queue: QueueId, bill: &Bill, preemptible: bool) -> Due {
        self.count(queue, bill, |users| {
            let count = users.which(preemptible);
            *count = count.saturating_sub(1);
        });
        self.due(queue, bill, preemptible)
    }

    /// A pod has begun to ask for what is on the bill: what its queue asks for more.
    pub(super) fn ask(&mut self, queue: QueueId, bill: &Bill) -> PerResource<i64> {
        let more = bill.total_of(|name| self.users(queue, name).asking == 0);
        self.count(queue, bill, |users| users.asking += 1);
        more
    }

    /// A pod asks no more: what its queue asks for less.
    pub(super) fn ask_no_more(&mut self, queue: QueueId, bill: &Bill) -> PerResource<i64> {
        self.count(queue, bill, |users| users.asking = users.asking.saturating_sub(1));
        bill.total_of(|name| self.users(queue, name).asking == 0)
    }

    fn users(&self, queue: QueueId, name: &Name) -> Users {
        self.0.get(&(queue, name.clone())).copied().unwrap_or_default()
    }

    fn count(&mut self, queue: QueueId, bill: &Bill, change: impl Fn(&mut Users)) {
        for (name, _) in bill.claims() {
            change(self.0.entry((queue, name.clone())).or_default());
        }
    }
}

impl Users {
    const fn have(self) -> u32 {
        self.preemptible + self.non_preemptible
    }

    const fn which(&mut self, preemptible: bool) -> &mut u32 {
        if preemptible { &mut self.preemptible } else { &mut self.non_preemptible }
    }
}
