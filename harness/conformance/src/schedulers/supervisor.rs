//! Supervises the scheduler under test: starts it, records how it ended, and restarts it after a
//! crash.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::{sync::Notify, task::AbortHandle};

use super::AfterKill;
use super::crash_injector::CrashPoint;

/// How long a killed scheduler takes to restart.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// A function that returns whether a scheduler is running or about to restart.
pub(super) type LivenessProbe = Arc<dyn Fn() -> bool + Send + Sync>;

/// Starts, stops, kills and restarts a scheduler as steps demand.
pub(super) struct Supervisor {
    shared: Arc<SharedState>,
    task: Option<AbortHandle>,
}

impl Supervisor {
    /// A supervisor that has not started a scheduler yet. `on_kill` is called whenever a step stops
    /// or kills the scheduler.
    pub(super) fn new(on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { shared: Arc::new(SharedState::new(on_kill)), task: None }
    }

    /// Whether the scheduler was started by a step and not stopped by one since.
    pub(super) fn is_started(&self) -> bool {
        self.task.is_some()
    }

    /// How often the scheduler was killed before a write.
    pub(super) fn kill_count(&self) -> usize {
        self.shared.lock_state().kill_count
    }

    /// Why the scheduler ended by itself; `None` if it did not.
    pub(super) fn exit_error(&self) -> Option<String> {
        self.shared.lock_state().error.clone()
    }

    /// Waits until the scheduler has ended by itself. Only one caller may wait.
    pub(super) fn wait_for_exit(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            while shared.lock_state().error.is_none() {
                shared.exit_notify.notified().await;
            }
        }
    }

    /// Whether the scheduler is running or about to restart.
    pub(super) fn is_alive(&self) -> bool {
        self.task.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Runs instances of the scheduler one after another. `run` runs one instance, which ends by
    /// itself or at its crash point, and returns how the instance ended unless that is recorded
    /// elsewhere.
    pub(super) fn start<L, F>(&mut self, run: L)
    where
        L: Fn(Arc<CrashPoint>) -> F + Send + 'static,
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.shared.lock_state().is_alive = true;
        let supervisor = restart_until_stopped(Arc::clone(&self.shared), run);
        self.task = Some(tokio::spawn(supervisor).abort_handle());
    }

    /// Stops the scheduler between two requests.
    pub(super) fn stop(&mut self) {
        if let Some(supervisor) = self.task.take() {
            supervisor.abort();
            self.shared.record_stop();
        }
    }

    /// A function that tells callers which wait for the scheduler whether it is alive.
    pub(super) fn liveness_probe(&self) -> LivenessProbe {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.lock_state().is_alive)
    }

    /// Kills the scheduler before a write of the running instance, or of the next instance if none
    /// is running.
    pub(super) fn kill_before_write(&self, write_number: u32, after_kill: AfterKill) {
        let liveness = if self.is_alive() { Liveness::Alive } else { Liveness::Dead };
        self.shared.kill_before_write(write_number, after_kill, liveness);
    }
}

async fn restart_until_stopped<F>(shared: Arc<SharedState>, run: impl Fn(Arc<CrashPoint>) -> F)
where
    F: Future<Output = Option<String>>,
{
    loop {
        let crash_point = shared.new_crash_point();
        let ended = run(Arc::clone(&crash_point)).await;
        if !crash_point.has_fired() {
            shared.record_exit(ended);
            return;
        }
        if !shared.record_kill() {
            return;
        }
        tokio::time::sleep(RESTART_DELAY).await;
    }
}

/// The state that steps share with the supervising task.
struct SharedState {
    state: Mutex<SupervisorState>,
    /// Notified when the scheduler has ended by itself.
    exit_notify: Notify,
    on_kill: Box<dyn Fn() + Send + Sync>,
}

struct SupervisorState {
    /// The crash point with which the running instance can be killed.
    crash_point: Arc<CrashPoint>,
    /// The number of the write before which the next instance is killed; 0 means never.
    next_kill_at: u32,
    after_kill: AfterKill,
    /// How often the scheduler was killed before a write.
    kill_count: usize,
    /// Why the scheduler ended by itself.
    error: Option<String>,
    /// Whether an instance is running or is about to follow.
    is_alive: bool,
}

impl SharedState {
    /// The state before a scheduler is started. `on_kill` is called whenever a step stops or kills
    /// the scheduler.
    fn new(on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let state = SupervisorState {
            crash_point: Arc::default(),
            next_kill_at: 0,
            after_kill: AfterKill::StayDead,
            kill_count: 0,
            error: None,
            is_alive: false,
        };
        Self { state: Mutex::new(state), exit_notify: Notify::new(), on_kill }
    }

    /// Locks the state of the supervisor.
    fn lock_state(&self) -> MutexGuard<'_, SupervisorState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a step stopped the scheduler.
    fn record_stop(&self) {
        let mut state = self.lock_state();
        state.crash_point.kill_task();
        state.is_alive = false;
        drop(state);
        (self.on_kill)();
    }

    /// Records that the scheduler ended by itself.
    fn record_exit(&self, error: Option<String>) {
        let mut state = self.lock_state();
        state.error = error;
        state.is_alive = false;
        self.exit_notify.notify_one();
    }

    /// Records that the scheduler was killed before a write. Returns whether the scheduler
    /// restarts.
    fn record_kill(&self) -> bool {
        (self.on_kill)();
        let mut state = self.lock_state();
        state.kill_count += 1;
        state.is_alive = state.after_kill != AfterKill::StayDead;
        state.is_alive
    }

    fn kill_before_write(&self, write_number: u32, after_kill: AfterKill, liveness: Liveness) {
        let mut state = self.lock_state();
        state.after_kill = after_kill;
        if liveness == Liveness::Alive {
            state.crash_point.arm_at_write(write_number);
        }
        // One kill is enough, unless every instance shall be killed.
        let again = after_kill == AfterKill::RestartAndKillAgain;
        state.next_kill_at = if again || liveness == Liveness::Dead { write_number } else { 0 };
    }

    /// The crash point for a new instance, armed if the instance is to be killed.
    fn new_crash_point(&self) -> Arc<CrashPoint> {
        let mut state = self.lock_state();
        let crash_point = Arc::new(CrashPoint::default());
        if state.next_kill_at > 0 {
            crash_point.arm_at_write(state.next_kill_at);
        }
        if state.after_kill != AfterKill::RestartAndKillAgain {
            state.next_kill_at = 0;
        }
        state.crash_point = Arc::clone(&crash_point);
        state.error = None;
        crash_point
    }
}

/// Whether an instance of the scheduler is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Liveness {
    /// An instance of the scheduler is running.
    Alive,
    /// No instance of the scheduler is running.
    Dead,
}
