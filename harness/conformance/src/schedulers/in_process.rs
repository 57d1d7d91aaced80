//! Our scheduler as a task in this process, with a client that can be cut off.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schedlab_scheduler::{Config, Progress};
use tokio::sync::watch;

use super::SchedulerConnector;
use super::crash_injector::CrashPoint;
use super::supervisor::{LivenessProbe, Supervisor};
use super::suspend::{SuspendGuard, SuspendHandle};

/// How often the liveness of a scheduler is checked while it reports no cycles.
const LIVENESS_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A scheduler that runs in this process.
pub(crate) struct InProcessScheduler {
    connector: SchedulerConnector,
    config: Config,
    pub(super) supervisor: Supervisor,
    status: watch::Receiver<Progress>,
    suspend_handle: SuspendHandle,
}

impl InProcessScheduler {
    /// A scheduler that is not started yet. `on_kill` is called whenever a step stops or kills it.
    pub(crate) fn new(
        connector: SchedulerConnector,
        config: Config,
        on_kill: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let status = config.progress.subscribe();
        let suspend_handle = SuspendHandle::default();
        Self { connector, config, supervisor: Supervisor::new(on_kill), status, suspend_handle }
    }

    /// The configuration of the scheduler.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// The progress that the scheduler last reported.
    pub(crate) fn scheduler_progress(&self) -> Progress {
        self.status.borrow().clone()
    }

    /// A receiver of the progress that the scheduler reports after each cycle.
    pub(crate) fn subscribe_to_progress(&self) -> watch::Receiver<Progress> {
        self.config.progress.subscribe()
    }

    /// The scheduler's cycles, for callers that wait for them.
    pub(crate) fn cycle_ticks(&self) -> CycleTicks {
        CycleTicks {
            status: self.config.progress.subscribe(),
            is_alive: self.supervisor.liveness_probe(),
        }
    }

    /// Suspends the scheduler until the returned guard is dropped.
    pub(crate) fn suspend(&self) -> SuspendGuard {
        self.suspend_handle.suspend()
    }

    /// Starts the scheduler, unless it is running.
    pub(super) fn start(&mut self) {
        if self.supervisor.is_alive() {
            return;
        }
        self.status = self.config.progress.subscribe();
        let (connector, config, suspend_handle) =
            (self.connector.clone(), self.config.clone(), self.suspend_handle.clone());
        let run = move |crash_point| {
            run_until_exit(connector.clone(), config.clone(), suspend_handle.clone(), crash_point)
        };
        self.supervisor.start(run);
    }
}

async fn run_until_exit(
    connector: SchedulerConnector,
    config: Config,
    suspend_handle: SuspendHandle,
    crash_point: Arc<CrashPoint>,
) -> Option<String> {
    let client = (connector.connect)(Arc::clone(&crash_point));
    let clock = connector.clock.clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let run = tokio::spawn(suspend_handle.run(schedlab_scheduler::run(client, config, now)));
    crash_point.set_task(run.abort_handle());
    match run.await {
        Ok(Ok(())) => Some("it returned".to_owned()),
        Ok(Err(error)) => Some(format!("{error:#}")),
        // The panic itself is recorded where it happens.
        Err(_) => None,
    }
}

/// The cycles of a scheduler in this process, for callers that wait for them.
#[derive(Clone)]
pub(crate) struct CycleTicks {
    status: watch::Receiver<Progress>,
    is_alive: LivenessProbe,
}

impl CycleTicks {
    /// Waits until one whole cycle has run from now on: two cycles must end, because the first may
    /// be running already. Returns early if the scheduler is not alive.
    pub(crate) async fn wait_for_two_cycles(&mut self) {
        let mut last = self.status.borrow_and_update().cycles;
        let mut remaining: u64 = 2;
        while remaining > 0 && (self.is_alive)() {
            let change = tokio::time::timeout(LIVENESS_POLL_INTERVAL, self.status.changed()).await;
            let cycles = self.status.borrow_and_update().cycles;
            // A restarted scheduler counts from 0 again.
            let new = if cycles < last { cycles } else { cycles - last };
            (last, remaining) = (cycles, remaining.saturating_sub(new));
            if let Ok(Err(_)) = change {
                return;
            }
        }
    }
}

impl fmt::Debug for InProcessScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessScheduler")
            .field("started", &self.supervisor.is_started())
            .finish_non_exhaustive()
    }
}
