//! Our scheduler as a task in this process, with a client that can be cut off.

use std::fmt;
use std::sync::Arc;

use schedlab_scheduler::{Config, Status};
use tokio::sync::watch;

use super::Door;
use super::fuse::Fuse;
use super::lives::Supervised;

/// A scheduler in this process.
pub struct InProcess {
    door: Door,
    config: Config,
    pub(super) supervised: Supervised,
    status: watch::Receiver<Status>,
}

impl InProcess {
    /// A scheduler that does not run yet. `on_kill` is told of every death that a step causes.
    pub(crate) fn new(door: Door, config: Config, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let status = config.status.subscribe();
        Self { door, config, supervised: Supervised::new(on_kill), status }
    }

    /// How it is set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it last told about itself.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Starts it; one that lives goes on.
    pub(super) fn start(&mut self) {
        if self.supervised.lives() {
            return;
        }
        self.status = self.config.status.subscribe();
        let (door, config) = (self.door.clone(), self.config.clone());
        self.supervised.start(move |fuse| live(door.clone(), config.clone(), fuse));
    }
}

async fn live(door: Door, config: Config, fuse: Arc<Fuse>) -> Option<String> {
    let client = (door.connect)(Arc::clone(&fuse));
    let clock = door.clock.clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let run = tokio::spawn(schedlab_scheduler::run(client, config, now));
    fuse.guard(run.abort_handle());
    match run.await {
        Ok(Ok(())) => Some("it returned".to_owned()),
        Ok(Err(error)) => Some(format!("{error:#}")),
        // The panic itself is noted where it happened.
        Err(_) => None,
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("started", &self.supervised.is_started())
            .finish_non_exhaustive()
    }
}
