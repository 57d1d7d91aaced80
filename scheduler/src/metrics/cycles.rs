//! How long cycles and their actions take, and how much each action does.

use std::{collections::BTreeSet, time::Duration};

use prometheus::{CounterVec, GaugeVec, Histogram};
use schedlab_scheduler_core::{
    Decision, Onlooker,
    model::PodGroupId,
    profile::Action,
    session::{Scenarios, Session},
};
use tokio::time::Instant;

use super::{Cycle, Register, millis};

/// How long the parts of a cycle took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timings {
    /// Until the snapshot was up to date.
    pub(crate) open: Duration,
    /// What followed the decision: status, marks.
    pub(crate) close: Duration,
    /// All of it.
    pub(crate) whole: Duration,
}

/// What each action of one cycle took and did.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    began: Option<Start>,
    laps: Vec<Lap>,
}

/// How things stood when an action began.
#[derive(Debug)]
struct Start {
    at: Instant,
    decided: usize,
    waiting: usize,
    scenarios: Scenarios,
}

#[derive(Debug)]
struct Lap {
    action: Action,
    took: Duration,
    /// Pod groups that waited in a queue that can be used when it began.
    considered: usize,
    /// Pod groups of which it placed something.
    scheduled: usize,
    /// Sets of victims that it tried.
    simulated: usize,
    /// Those that it passed over untried.
    filtered: usize,
}

impl Onlooker for Stopwatch {
    fn begins(&mut self, _: Action, session: &Session<'_>) {
        let waits = |group: &PodGroupId| {
            session.group(*group).queue.is_ok() && session.members(*group).wait()
        };
        let waiting = session.groups().filter(waits).count();
        let (decided, scenarios) = (session.decisions().len(), session.scenarios());
        self.began = Some(Start { at: Instant::now(), decided, waiting, scenarios });
    }

    fn ended(&mut self, action: Action, session: &Session<'_>) {
        let Some(start) = self.began.take() else { return };
        let placed =
            session.decisions()[start.decided..].iter().filter_map(|decision| match decision {
                Decision::Bind { pod, .. } | Decision::Pipeline { pod, .. } => {
                    session.pod(*pod).group
                }
                Decision::Evict { .. } => None,
            });
        let scheduled = placed.collect::<BTreeSet<_>>().len();
        let (now, before) = (session.scenarios(), start.scenarios);
        self.laps.push(Lap {
            action,
            took: start.at.elapsed(),
            considered: start.waiting,
            scheduled,
            simulated: now.simulated - before.simulated,
            filtered: now.filtered - before.filtered,
        });
    }
}

pub(super) struct Cycles {
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

impl Cycles {
    pub(super) fn new(register: &Register<'_>) -> Self {
        let by_action = &["action"];
        Self {
            whole: register.gauge(
                "e2e_scheduling_latency_milliseconds",
                "The last cycle, decision and writes together",
                &[],
            ),
            open: register.gauge(
                "open_session_latency_milliseconds",
                "Grouping pods and bringing the snapshot up to date, in the last cycle",
                &[],
            ),
            close: register.gauge(
                "close_session_latency_milliseconds",
                "Writing marks and queue status, in the last cycle",
                &[],
            ),
            action: register.gauge(
                "action_scheduling_latency_milliseconds",
                "Each action of the last cycle",
                by_action,
            ),
            considered: register.counter(
                "podgroups_acted_on_by_action",
                "Pod groups that waited when the action began",
                by_action,
            ),
            scheduled: register.counter(
                "podgroups_scheduled_by_action",
                "Pod groups for which the action found or promised room",
                by_action,
            ),
            simulated: register.counter(
                "scenarios_simulation_by_action",
                "Sets of victims that the action tried",
                by_action,
            ),
            filtered: register.counter(
                "scenarios_filtered_by_action",
                "Sets of victims that the action passed over untried",
                by_action,
            ),
            attempts: register.counter(
                "total_preemption_attempts",
                "Pod groups that waited when reclaim or preempt began",
                &[],
            ),
            task: register.latency(
                "task_scheduling_latency_milliseconds",
                "From a pod's creation to the decision to bind it",
            ),
            bind: register
                .latency("task_bind_latency_milliseconds", "From sending a binding to its answer"),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
    pub(super) fn observe(&self, cycle: &Cycle<'_>) {
        let none: &[&str] = &[];
        let timings = cycle.timings;
        self.whole.with_label_values(none).set(millis(timings.whole));
        self.open.with_label_values(none).set(millis(timings.open));
        self.close.with_label_values(none).set(millis(timings.close));
        for lap in &cycle.stopwatch.laps {
            let action = &[lap.action.as_str()];
            self.action.with_label_values(action).set(millis(lap.took));
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
                self.task.observe(millis(cycle.snapshot.now.since(created)));
            }
        }
        for took in cycle.bindings {
            self.bind.observe(millis(*took));
        }
    }
}
