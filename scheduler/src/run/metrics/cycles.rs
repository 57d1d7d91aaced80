//! Metrics of cycles and actions: durations, and number of groups considered and scheduled.

use std::{collections::BTreeSet, time::Duration};

use prometheus::{CounterVec, GaugeVec, Histogram};
use schedlab_scheduler_core::{
    CycleObserver, Decision,
    framework::{ScenarioCounts, Session},
    model::PodGroupId,
    profile::Action,
};
use tokio::time::Instant;

use super::{CycleObservation, Registrar};
use crate::logging::millis;

/// Measures each action of a cycle.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    began: Option<ActionStart>,
    laps: Vec<ActionTiming>,
}

/// State at the start of an action.
#[derive(Debug)]
struct ActionStart {
    at: Instant,
    decided: usize,
    waiting: usize,
    scenarios: ScenarioCounts,
}

#[derive(Debug)]
struct ActionTiming {
    action: Action,
    duration: Duration,
    /// Number of pod groups in usable queues that were pending at the start of the action.
    considered: usize,
    /// Number of pod groups of which the action placed at least one pod.
    scheduled: usize,
    /// Number of victim sets that were simulated.
    simulated: usize,
    /// Number of victim sets that were skipped without simulation.
    filtered: usize,
}

impl CycleObserver for Stopwatch {
    fn on_action_start(&mut self, _: Action, session: &Session<'_>) {
        let is_usable = |group: &PodGroupId| session.group(*group).queue.is_ok();
        let waiting = session.waiting_groups().filter(is_usable).count();
        let (decided, scenarios) = (session.decisions().len(), session.scenario_counts());
        self.began = Some(ActionStart { at: Instant::now(), decided, waiting, scenarios });
    }

    fn on_action_end(&mut self, action: Action, session: &Session<'_>) {
        let Some(start) = self.began.take() else { return };
        let placed =
            session.decisions()[start.decided..].iter().filter_map(|decision| match decision {
                Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => {
                    session.pod(*pod).group
                }
                Decision::Evict { .. } => None,
            });
        let scheduled = placed.collect::<BTreeSet<_>>().len();
        let (now, before) = (session.scenario_counts(), start.scenarios);
        self.laps.push(ActionTiming {
            action,
            duration: start.at.elapsed(),
            considered: start.waiting,
            scheduled,
            simulated: now.simulated - before.simulated,
            filtered: now.filtered - before.filtered,
        });
    }
}

pub(super) struct CycleMetrics {
    whole: GaugeVec,
    open: GaugeVec,
    close: GaugeVec,
    action: GaugeVec,
    considered: CounterVec,
    scheduled: CounterVec,
    simulated: CounterVec,
    filtered: CounterVec,
    attempts: CounterVec,
    task: Histogram,
    bind: Histogram,
}

impl CycleMetrics {
    pub(super) fn new(register: &Registrar<'_>) -> Self {
        let by_action = &["action"];
        Self {
            whole: register.register_gauge(
                "e2e_scheduling_latency_milliseconds",
                "Duration of the last scheduling cycle, including its writes",
                &[],
            ),
            open: register.register_gauge(
                "open_session_latency_milliseconds",
                "Duration of grouping pods and updating the snapshot in the last cycle",
                &[],
            ),
            close: register.register_gauge(
                "close_session_latency_milliseconds",
                "Duration of writing annotations and queue status in the last cycle",
                &[],
            ),
            action: register.register_gauge(
                "action_scheduling_latency_milliseconds",
                "Duration of each action of the last cycle",
                by_action,
            ),
            considered: register.register_counter(
                "podgroups_acted_on_by_action",
                "Pending pod groups at the start of the action",
                by_action,
            ),
            scheduled: register.register_counter(
                "podgroups_scheduled_by_action",
                "Pod groups of which the action allocated or pipelined pods",
                by_action,
            ),
            simulated: register.register_counter(
                "scenarios_simulation_by_action",
                "Victim sets that the action simulated",
                by_action,
            ),
            filtered: register.register_counter(
                "scenarios_filtered_by_action",
                "Victim sets that the action skipped without simulation",
                by_action,
            ),
            attempts: register.register_counter(
                "total_preemption_attempts",
                "Pending pod groups at the start of reclaim or preempt",
                &[],
            ),
            task: register.latency_histogram(
                "task_scheduling_latency_milliseconds",
                "From a pod's creation to the decision to bind it",
            ),
            bind: register.latency_histogram(
                "task_bind_latency_milliseconds",
                "From sending a Binding to its response",
            ),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
    pub(super) fn observe(&self, cycle: &CycleObservation<'_>) {
        let none: &[&str] = &[];
        let timings = cycle.timings;
        self.whole.with_label_values(none).set(millis(timings.whole));
        self.open.with_label_values(none).set(millis(timings.group + timings.refresh));
        self.close.with_label_values(none).set(millis(timings.report));
        for lap in &cycle.stopwatch.laps {
            let action = &[lap.action.as_str()];
            self.action.with_label_values(action).set(millis(lap.duration));
            if lap.action == Action::StaleGangEviction {
                continue;
            }
            self.considered.with_label_values(action).inc_by(lap.considered as f64);
            self.scheduled.with_label_values(action).inc_by(lap.scheduled as f64);
            if lap.action != Action::Allocate {
                self.simulated.with_label_values(action).inc_by(lap.simulated as f64);
                self.filtered.with_label_values(action).inc_by(lap.filtered as f64);
            }
            if matches!(lap.action, Action::Reclaim | Action::Preempt) {
                self.attempts.with_label_values(none).inc_by(lap.considered as f64);
            }
        }
        for decision in &cycle.plan.decisions {
            if let Decision::Bind { pod, .. } = decision {
                let created = cycle.snapshot.pods[pod.0 as usize].created;
                self.task.observe(millis(cycle.snapshot.now.elapsed_since(created)));
            }
        }
        for took in cycle.bindings {
            self.bind.observe(millis(*took));
        }
    }
}
