//! Our scheduler as a task in this process, with a client that can be cut off.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schedlab_scheduler::{Config, Status};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::lives::{Lively, Lives};
use super::{AfterKill, Door, SchedulerUnderTest};

/// How long a killed scheduler needs to start anew.
pub(super) const RESTART: Duration = Duration::from_secs(1);

/// A scheduler in this process.
pub struct InProcess {
    door: Door,
    config: Config,
    lives: Arc<Lives>,
    supervisor: Option<AbortHandle>,
    status: watch::Receiver<Status>,
}

impl InProcess {
    /// A scheduler that does not run yet. `on_kill` is told of every death that a step causes.
    pub(crate) fn new(door: Door, config: Config, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let status = config.status.subscribe();
        Self { door, config, lives: Arc::new(Lives::new(on_kill)), supervisor: None, status }
    }

    /// How it is set up.
    pub fn config(&self) -> &Config {
        &self.config
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
        self.lives.life().deaths
    }

    /// Why it ended, when nobody wanted that.
    pub fn error(&self) -> Option<String> {
        self.lives.life().error.clone()
    }

    fn lives(&self) -> bool {
        self.supervisor.as_ref().is_some_and(|task| !task.is_finished())
    }
}

impl SchedulerUnderTest for InProcess {
    fn start(&mut self) {
        if self.lives() {
            return;
        }
        self.status = self.config.status.subscribe();
        let supervisor = supervise(self.door.clone(), self.config.clone(), self.lives.clone());
        self.supervisor = Some(tokio::spawn(supervisor).abort_handle());
    }

    fn stop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.abort();
            self.lives.stop();
        }
    }

    fn kill_before_write(&mut self, n: u32, then: AfterKill) {
        let lively = if self.lives() { Lively::Yes } else { Lively::No };
        self.lives.kill_before_write(n, then, lively);
    }
}

/// Lets one life follow the other, as steps want it.
async fn supervise(door: Door, config: Config, lives: Arc<Lives>) {
    loop {
        let fuse = lives.next_life();
        let client = (door.connect)(Arc::clone(&fuse));
        let clock = door.clock.clone();
        let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
        let run = tokio::spawn(schedlab_scheduler::run(client, config.clone(), now));
        fuse.guard(run.abort_handle());
        let ended = run.await;
        if !fuse.is_blown() {
            lives.life().error = match ended {
                Ok(Ok(())) => Some("it returned".to_owned()),
                Ok(Err(error)) => Some(format!("{error:#}")),
                // The panic itself is noted where it happened.
                Err(_) => None,
            };
            return;
        }
        if !lives.died() {
            return;
        }
        tokio::time::sleep(RESTART).await;
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("started", &self.is_started()).finish_non_exhaustive()
    }
}
