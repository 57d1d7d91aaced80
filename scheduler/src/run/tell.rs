//! What a cycle tells: queues and groups in the cluster, and everybody else of itself.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    Plan, QueueUse,
    model::{Name, Queue, QueueId, Time},
    resources::PerResource,
};

use super::Scheduler;
use crate::{
    api::ApiError,
    apply::Outcome,
    config::{Component, Flavor, NodePool},
    metrics::{self, Stopwatch, Timings},
    mirror::told_idle,
    pod_groups, queues,
    status::QueueStatus,
};

impl Scheduler {
    /// A plan's accounts by the queues' names.
    pub(super) fn uses(&self, uses: &BTreeMap<QueueId, QueueUse>) -> BTreeMap<Name, QueueUse> {
        let queues = &self.translator.translation.snapshot.queues;
        let named = |(id, used): (&QueueId, &QueueUse)| {
            (Name::clone(&queues[id.0 as usize].name), used.clone())
        };
        uses.iter().map(named).collect()
    }

    pub(super) fn measure(&mut self, plan: &Plan, stopwatch: &Stopwatch, timings: Timings) {
        let bindings = self.applier.take_binding_times();
        let Some(metrics) =
            self.metrics.as_ref().filter(|_| self.config.runs(Component::Scheduler))
        else {
            return;
        };
        metrics.observe(&metrics::Cycle {
            snapshot: &self.translator.translation.snapshot,
            plan,
            mirror: &self.mirror,
            pool: NodePool::name(self.config.node_pool.as_ref()),
            queues: &self.config.status.borrow().queues,
            stopwatch,
            timings,
            bindings: &bindings,
        });
    }

    /// Notes what queues used until now of what they share, and writes what they use from now on.
    pub(super) async fn tell_queues(
        &mut self,
        capacity: PerResource<i64>,
        (uses, after): (&BTreeMap<Name, QueueUse>, &BTreeMap<Name, QueueUse>),
        now: Time,
    ) -> Result<(), ApiError> {
        let account =
            |(name, of): (&Name, &QueueUse)| (Name::clone(name), of.allocated.accounted());
        self.past.record(&self.api, now, capacity, uses.iter().map(account)).await?;
        match self.config.flavor {
            Flavor::Kai if !self.config.runs(Component::QueueController) => Ok(()),
            Flavor::Kai => {
                let mut told = after.clone();
                queues::add_left_alone(&mut told, &self.translator.translation.snapshot);
                queues::write(&self.api, &mut self.mirror, &told, (capacity, now)).await
            }
            Flavor::Kube => Ok(()),
        }
    }

    /// Writes what groups use, once the plan is carried out. Of what was not all done the next
    /// cycle tells.
    pub(super) async fn tell_groups(&mut self, plan: Option<&Plan>) -> Result<(), ApiError> {
        let told = self.config.runs(Component::QueueController)
            && (plan.is_some() || !self.config.runs(Component::Scheduler));
        if self.config.flavor == Flavor::Kube || !told {
            return Ok(());
        }
        let looked = (&self.translator.translation.snapshot, plan);
        pod_groups::write(&self.api, &mut self.mirror, looked, &mut self.pacing).await
    }

    pub(super) fn tell_status(
        &self,
        plan: &Plan,
        outcome: &Outcome,
        uses: &BTreeMap<Name, QueueUse>,
    ) {
        let queue = |queue: &Queue| {
            let account = uses.get(&queue.name).cloned().unwrap_or_default();
            QueueStatus {
                name: Name::clone(&queue.name),
                quota: queue.quota,
                limit: queue.limit,
                fair_share: account.fair_share,
                allocated: account.allocated,
                allocated_non_preemptible: account.allocated_non_preemptible,
                requested: account.requested,
            }
        };
        let queues = self.translator.translation.snapshot.queues.iter().map(queue).collect();
        self.config.status.send_modify(|status| {
            status.cycles += 1;
            status.plans += 1;
            status.decisions = plan.decisions.len();
            status.waiting = plan.waiting.len();
            status.last_failure.clone_from(&outcome.failure);
            status.queues = queues;
        });
    }

    /// Tells of reservation pods that are idle, and were in the cycle before: one that stands a
    /// moment before its sharers have their node is none. Answers whether others are idle now, of
    /// which the next cycle is to tell.
    pub(super) fn tell_idle_reservations(&mut self) -> bool {
        if self.config.ends_reservations() {
            return false;
        }
        let idle = self.mirror.idle_reservations();
        let told = told_idle(self.idle_reservations.intersection(&idle));
        self.config.status.send_if_modified(|status| {
            let is_new = status.idle_reservations != told;
            status.idle_reservations = told;
            is_new
        });
        let before = std::mem::replace(&mut self.idle_reservations, idle);
        !self.idle_reservations.is_subset(&before)
    }
}
