//! Reports of a cycle: the status of queues and groups, metrics, and progress.

use std::collections::BTreeMap;

use schedlab_scheduler_core::{
    Plan, QueueUsage,
    model::{Name, Queue, QueueId, Time},
    resources::PerResource,
};

use super::{
    Scheduler,
    metrics::{self, Stopwatch},
};
use crate::{
    api::ApiError,
    apply::ApplyOutcome,
    cache::{GroupsToReport, idle_reservations_message},
    config::{Component, Flavor, NodePool},
    progress::{CycleTimings, QueueSummary},
    queue_controller::{self, pod_groups},
};

impl Scheduler {
    /// The usage of queues in a plan, by name of the queue.
    pub(super) fn usage_by_queue_name(
        &self,
        uses: &BTreeMap<QueueId, QueueUsage>,
    ) -> BTreeMap<Name, QueueUsage> {
        let queues = &self.snapshot_builder.built.snapshot.queues;
        let named = |(id, used): (&QueueId, &QueueUsage)| {
            (Name::clone(&queues[id.0 as usize].name), used.clone())
        };
        uses.iter().map(named).collect()
    }

    pub(super) fn observe_metrics(
        &mut self,
        plan: &Plan,
        stopwatch: &Stopwatch,
        timings: CycleTimings,
    ) {
        let bindings = self.applier.take_binding_times();
        let Some(metrics) =
            self.metrics.as_ref().filter(|_| self.config.runs(Component::Scheduler))
        else {
            return;
        };
        metrics.observe(&metrics::CycleObservation {
            snapshot: &self.snapshot_builder.built.snapshot,
            plan,
            cache: &self.cache,
            pool: NodePool::name(self.config.node_pool.as_ref()),
            queues: &self.config.progress.borrow().queues,
            stopwatch,
            timings,
            bindings: &bindings,
        });
    }

    /// Records the usage of queues in the history, and writes the status of queues.
    pub(super) async fn report_queues(
        &mut self,
        capacity: PerResource<i64>,
        uses: &BTreeMap<Name, QueueUsage>,
        after: &BTreeMap<Name, QueueUsage>,
        now: Time,
    ) -> Result<(), ApiError> {
        let account = |(name, of): (&Name, &QueueUsage)| {
            (Name::clone(name), of.allocated.accounted_amounts())
        };
        self.past.record_usage(&self.api, now, capacity, uses.iter().map(account)).await?;
        match self.config.flavor {
            Flavor::Kai if !self.config.runs(Component::QueueController) => Ok(()),
            Flavor::Kai => {
                let mut usage = after.clone();
                let built = &self.snapshot_builder.built;
                queue_controller::add_skipped_requests(&mut usage, &self.cache, built);
                queue_controller::write_queue_statuses(
                    &self.api,
                    &mut self.cache,
                    &usage,
                    capacity,
                    now,
                )
                .await
            }
            Flavor::Kube => Ok(()),
        }
    }

    /// Writes the resources that groups use, once the plan is applied. `None`: applying the plan
    /// was incomplete, so the next cycle writes them.
    pub(super) async fn report_group_resources(
        &mut self,
        plan: Option<&Plan>,
    ) -> Result<(), ApiError> {
        let is_due = self.config.runs(Component::QueueController)
            && (plan.is_some() || !self.config.runs(Component::Scheduler));
        if self.config.flavor == Flavor::Kube || !self.config.runs(Component::QueueController) {
            self.cache.groups_to_report = GroupsToReport::default();
            return Ok(());
        }
        if !is_due {
            return Ok(());
        }
        let snapshot = &self.snapshot_builder.built.snapshot;
        pod_groups::write_group_resources(
            &self.api,
            &mut self.cache,
            snapshot,
            plan,
            &mut self.limiter,
        )
        .await
    }

    pub(super) fn report_progress(
        &self,
        plan: &Plan,
        outcome: &ApplyOutcome,
        uses: &BTreeMap<Name, QueueUsage>,
        timings: CycleTimings,
    ) {
        let queue = |queue: &Queue| {
            let account = uses.get(&queue.name).cloned().unwrap_or_default();
            QueueSummary {
                name: Name::clone(&queue.name),
                quota: queue.quota,
                limit: queue.limit,
                fair_share: account.fair_share,
                allocated: account.allocated,
                allocated_non_preemptible: account.allocated_non_preemptible,
                requested: account.requested,
            }
        };
        let queues = self.snapshot_builder.built.snapshot.queues.iter().map(queue).collect();
        self.config.progress.send_modify(|status| {
            status.cycles += 1;
            status.plans += 1;
            status.decisions = plan.decisions.len();
            status.waiting_groups = plan.waiting.len();
            status.last_failure.clone_from(&outcome.failure);
            status.queues = queues;
            status.timings = timings;
        });
    }

    /// Reports reservation pods that are idle in two consecutive cycles, since one may be idle for
    /// a moment before its sharers have their node. Returns whether further pods are idle now,
    /// which the next cycle must report.
    pub(super) fn report_idle_reservations(&mut self) -> bool {
        if self.config.deletes_idle_reservations() {
            return false;
        }
        let idle = self.cache.idle_reservations();
        let message = idle_reservations_message(self.idle_reservations.intersection(&idle));
        self.config.progress.send_if_modified(|status| {
            let is_new = status.idle_reservations != message;
            status.idle_reservations = message;
            is_new
        });
        let previous = std::mem::replace(&mut self.idle_reservations, idle);
        !self.idle_reservations.is_subset(&previous)
    }
}
