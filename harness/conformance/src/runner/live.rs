//! A scenario's cluster that stays up: its steps run one at a time, on request, while other clients
//! use the cluster. A lesson of the lab runs on one.
//!
//! The cluster follows the clock of the current runtime. In a runtime whose clock is paused, time
//! passes only while a step waits or the caller advances it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cucumber::step::Collection;
use futures::FutureExt as _;
use gherkin::{Step, StepType};
use jiff::Timestamp;
use schedlab_emulator::Emulator;
use schedlab_emulator::store::LogEntry;
use schedlab_scheduler::{Config, IdlePolicy, Progress};

use super::panics;
use crate::features::Case;
use crate::steps::{catalogue, unknown_name_message};
use crate::world::World;
use crate::world::observed::ObservedCluster;
use schedlab_clusters::api::Api;
use tokio::task::JoinSet;

/// Maximum time of one step, on the cluster's clock.
const STEP_TIMEOUT: Duration = Duration::from_hours(30 * 24);

/// The cluster of a scenario, on which single steps run. It must stay on one thread.
#[derive(Debug)]
pub struct LiveCluster {
    world: World,
    steps: Collection<World>,
    emulator: Emulator,
    /// The task of kube-scheduler's profile, which ends with the cluster.
    default_scheduler: JoinSet<anyhow::Result<()>>,
}

/// The eviction of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictedPod {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Queue of the pod; empty if it is not known.
    pub queue: String,
    /// The pod group for which the pod was evicted, if the scheduler named it.
    pub evictor: Option<String>,
    /// What the scheduler said.
    pub message: String,
    /// When, in the format of the API.
    pub time: String,
}

impl LiveCluster {
    /// Starts an emulated cluster whose time begins at `time`, with the scheduler of this program.
    /// No step of the case runs yet.
    ///
    /// # Errors
    /// The cluster cannot start.
    pub async fn start(case: &Case, time: Timestamp) -> anyhow::Result<Self> {
        panics::install_panic_hook();
        panics::start_recording();
        let world = World::new_emulated_at(case, time).await?;
        let emulator = world.emulator().context("a live cluster is emulated")?.clone();
        let (steps, default_scheduler) = (catalogue::step_collection(), JoinSet::new());
        Ok(Self { world, steps, emulator, default_scheduler })
    }

    /// Runs one step of the case, or of another case of the same file. `Err` says why it failed: its
    /// first line what was found, further lines the state of the cluster.
    ///
    /// # Errors
    /// The step does not hold, cannot be carried out, or matches no step of the catalogue.
    pub async fn run_step(&mut self, step: &Step) -> Result<(), String> {
        if let Some((_, message)) = super::step_mismatch_message(step, &self.steps) {
            return Err(message);
        }
        let found = self.steps.find(step).ok().flatten();
        let (function, _, _, context) = found.expect("the step was matched above");
        self.world.set_step_line(step.position.line);
        let running = AssertUnwindSafe(function(&mut self.world, context)).catch_unwind();
        let ended = tokio::time::timeout(STEP_TIMEOUT, running).await;
        let panicked = panics::take_recorded_panics();
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(payload)) => return Err(panics::payload_text(&*payload)),
            Err(_) => return Err(self.timeout_message()),
        }
        if let Some(panic) = panicked.first() {
            return Err(format!("panic at {}: {}", panic.location, panic.message));
        }
        let unknown_name = || match step.ty {
            StepType::Then => unknown_name_message(&self.world, &step.value),
            StepType::Given | StepType::When => None,
        };
        self.world.scheduler_exit_error().or_else(unknown_name).map_or(Ok(()), Err)
    }

    fn timeout_message(&self) -> String {
        let found = self.world.last_mismatch().unwrap_or("the step did not end");
        format!("{found}\n{}", self.world.state_summary())
    }

    /// Starts the scheduler, if no step did so, and waits until nothing changes any more.
    ///
    /// # Errors
    /// The cluster does not come to rest.
    pub async fn settle(&mut self) -> anyhow::Result<()> {
        self.world.settle().await
    }

    /// Lets a duration pass on the cluster's clock.
    ///
    /// # Errors
    /// The scheduler has ended.
    pub async fn pass_time(&mut self, time: Duration) -> anyhow::Result<()> {
        self.world.run_for(time).await
    }

    /// Takes note of what other clients did since the last step. Deleted objects are known to later
    /// steps only if this is called before the log of the cluster is compacted.
    ///
    /// # Errors
    /// A watch cannot be restarted.
    pub async fn observe(&mut self) -> anyhow::Result<()> {
        self.world.view.process_available_events().await
    }

    /// Also starts kube-scheduler's profile, for pods that name no scheduler, unless the scheduler
    /// of the scenario takes them.
    pub fn start_default_scheduler(&mut self) {
        let config = Config { idle_policy: IdlePolicy::UntilEvent, ..Config::kube() };
        if self.world.scheduler_name() == config.scheduler_name {
            return;
        }
        let clock = self.emulator.clock().clone();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        self.default_scheduler.spawn(schedlab_scheduler::run(self.emulator.client(), config, now));
    }

    /// Ends the schedulers of the cluster.
    pub async fn close(self) {
        self.world.close().await;
    }

    /// The emulated cluster.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// A client with administrator rights.
    pub fn api(&self) -> Api {
        self.world.api.clone()
    }

    /// The objects as last observed.
    pub fn view(&self) -> &ObservedCluster {
        &self.world.view
    }

    /// The configuration of the scheduler, and what it reports.
    pub fn scheduler_config(&self) -> Config {
        self.world.scheduler_config()
    }

    /// What the scheduler reported after its last cycle.
    pub fn progress(&self) -> Progress {
        self.world.scheduler_progress()
    }

    /// Every write so far.
    pub fn write_log(&self) -> Vec<Arc<LogEntry>> {
        self.world.write_log()
    }

    /// All evictions so far, in their order.
    pub fn evictions(&self) -> Vec<EvictedPod> {
        let unannounced = self.world.unannounced_evictions();
        let evictions = self.world.view.all_evictions(&unannounced);
        let queue = |pod: Option<crate::world::observed::Pod<'_>>| {
            pod.and_then(|pod| pod.queue_name(&self.world.view)).unwrap_or_default().to_owned()
        };
        let evicted = |one: &crate::world::observed::Eviction<'_>| EvictedPod {
            namespace: one.namespace.to_owned(),
            name: one.name.to_owned(),
            queue: queue(one.pod),
            evictor: one.evictor.map(str::to_owned),
            message: one.message.unwrap_or_default().to_owned(),
            time: one.time.to_owned(),
        };
        evictions.iter().map(evicted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::load_text;

    const FEATURE: &str = "\
Feature: f
  Background:
    Given a fleet of 1 node with 8 GPUs each
    And a queue \"team\" with a quota of 4
  Scenario: s
    Then queue \"team\" has 4 running pods
";

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_claim_fails_and_then_holds_on_the_same_cluster() {
        let cases = load_text("f.feature", FEATURE, catalogue::is_step).unwrap();
        let time = "2026-05-01T08:00:00Z".parse().unwrap();
        let mut cluster = LiveCluster::start(&cases[0], time).await.unwrap();
        let (given, claim) = cases[0].steps.split_at(2);
        for step in given {
            assert_eq!(cluster.run_step(step).await, Ok(()));
        }
        let found = cluster.run_step(&claim[0]).await.unwrap_err();
        assert!(found.starts_with("got 0 running pods of queue \"team\", expected 4"), "{found}");
        let submit = "Given 4 pods \"work\" with 1 GPU each are submitted to queue \"team\"";
        let text = format!("Feature: f\n  Scenario: s\n    {submit}\n");
        let more = load_text("f.feature", &text, catalogue::is_step).unwrap();
        cluster.run_step(&more[0].steps[0]).await.unwrap();
        assert_eq!(cluster.run_step(&claim[0]).await, Ok(()));
        assert!(cluster.emulator().clock().now() > time);
    }
}
