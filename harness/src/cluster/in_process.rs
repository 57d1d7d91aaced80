//! Our scheduler as a task beside the emulator, with a client that can be cut off.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedlab_emulator::Emulator;
use schedlab_scheduler::{Config, Status};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::fuse::{Fuse, Fused};
use super::{AfterKill, SchedulerUnderTest};

/// How long a killed scheduler needs to start anew.
const RESTART: Duration = Duration::from_secs(1);

/// A scheduler in this process.
pub struct InProcess {
    emulator: Emulator,
    config: Config,
    shared: Arc<Shared>,
    supervisor: Option<AbortHandle>,
    status: watch::Receiver<Status>,
}

struct Shared {
    life: Mutex<Life>,
    on_kill: Box<dyn Fn() + Send + Sync>,
}

struct Life {
    fuse: Arc<Fuse>,
    /// Kill in place of this write of a life that has not begun.
    next: u32,
    then: AfterKill,
    /// How often it was killed at a write.
    deaths: usize,
    /// Why it ended, when nobody wanted that.
    error: Option<String>,
}

impl InProcess {
    /// A scheduler that does not run yet. `on_kill` is told of every death that a step causes.
    pub fn new(emulator: Emulator, config: Config, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let life = Life {
            fuse: Arc::default(),
            next: 0,
            then: AfterKill::StayDead,
            deaths: 0,
            error: None,
        };
        let status = config.status.subscribe();
        let shared = Arc::new(Shared { life: Mutex::new(life), on_kill });
        Self { emulator, config, shared, supervisor: None, status }
    }

    /// How it is set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its set-up, for steps that change it; `None` while it runs.
    pub fn config_mut(&mut self) -> Option<&mut Config> {
        if self.supervisor.is_some() { None } else { Some(&mut self.config) }
    }

    /// What it last told about itself.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Whether a step started it and none stopped it.
    pub fn is_started(&self) -> bool {
        self.supervisor.is_some()
    }

    /// How often it was killed at a write.
    pub fn deaths(&self) -> usize {
        self.shared.life().deaths
    }

    /// Why it ended, when nobody wanted that.
    pub fn error(&self) -> Option<String> {
        self.shared.life().error.clone()
    }
}

impl SchedulerUnderTest for InProcess {
    fn start(&mut self) {
        if self.supervisor.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        self.status = self.config.status.subscribe();
        let supervisor = supervise(self.emulator.clone(), self.config.clone(), self.shared.clone());
        self.supervisor = Some(tokio::spawn(supervisor).abort_handle());
    }

    fn stop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.abort();
            self.shared.life().fuse.end();
            (self.shared.on_kill)();
        }
    }

    fn kill_before_write(&mut self, n: u32, then: AfterKill) {
        let mut life = self.shared.life();
        life.then = then;
        let lives = self.supervisor.as_ref().is_some_and(|task| !task.is_finished());
        if lives {
            life.fuse.arm(n);
        }
        // One death is enough, unless every life is to end.
        let again = then == AfterKill::RestartAndKillAgain;
        life.next = if again || !lives { n } else { 0 };
    }
}

/// Lets one life follow the other, as steps want it.
async fn supervise(emulator: Emulator, config: Config, shared: Arc<Shared>) {
    loop {
        let fuse = shared.next_life();
        let service = Fused { inner: emulator.service(), fuse: Arc::clone(&fuse) };
        let client = kube::Client::new(service, "default");
        let clock = emulator.clock().clone();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        let run = tokio::spawn(schedlab_scheduler::run(client, config.clone(), now));
        fuse.guard(run.abort_handle());
        let ended = run.await;
        if !fuse.is_blown() {
            shared.life().error = match ended {
                Ok(Ok(())) => Some("it returned".to_owned()),
                Ok(Err(error)) => Some(format!("{error:#}")),
                // The panic itself is noted where it happened.
                Err(_) => None,
            };
            return;
        }
        (shared.on_kill)();
        shared.life().deaths += 1;
        if shared.life().then == AfterKill::StayDead {
            return;
        }
        tokio::time::sleep(RESTART).await;
    }
}

impl Shared {
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new fuse, armed if this life is to be killed.
    fn next_life(&self) -> Arc<Fuse> {
        let mut life = self.life();
        let fuse = Arc::new(Fuse::default());
        if life.next > 0 {
            fuse.arm(life.next);
        }
        if life.then != AfterKill::RestartAndKillAgain {
            life.next = 0;
        }
        life.fuse = Arc::clone(&fuse);
        life.error = None;
        fuse
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("started", &self.is_started()).finish_non_exhaustive()
    }
}
