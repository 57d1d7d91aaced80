//! Our scheduler as a task in this process, with a client that can be cut off.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schedlab_scheduler::{Config, Status};
use tokio::sync::watch;

use super::Door;
use super::fuse::Fuse;
use super::lives::{Liveliness, Supervised};
use super::pause::{Held, Pause};

/// How often one that tells nothing is asked whether it lives.
const GLANCE: Duration = Duration::from_millis(200);

/// A scheduler in this process.
pub struct InProcess {
    door: Door,
    config: Config,
    pub(super) supervised: Supervised,
    status: watch::Receiver<Status>,
    pause: Pause,
}

impl InProcess {
    /// A scheduler that does not run yet. `on_kill` is told of every death that a step causes.
    pub(crate) fn new(door: Door, config: Config, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let status = config.status.subscribe();
        let pause = Pause::default();
        Self { door, config, supervised: Supervised::new(on_kill), status, pause }
    }

    /// How it is set up.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it last told about itself.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// What it tells after each cycle.
    pub(crate) fn cycles(&self) -> watch::Receiver<Status> {
        self.config.status.subscribe()
    }

    /// What it tells after each cycle, and whether it will.
    pub(crate) fn pulse(&self) -> Pulse {
        Pulse { status: self.config.status.subscribe(), lives: self.supervised.liveliness() }
    }

    /// Has it stand still until the answer is dropped.
    pub(crate) fn hold(&self) -> Held {
        self.pause.hold()
    }

    /// Starts it; one that lives goes on.
    pub(super) fn start(&mut self) {
        if self.supervised.lives() {
            return;
        }
        self.status = self.config.status.subscribe();
        let (door, config, pause) = (self.door.clone(), self.config.clone(), self.pause.clone());
        let live = move |fuse| live(door.clone(), config.clone(), pause.clone(), fuse);
        self.supervised.start(live);
    }
}

async fn live(door: Door, config: Config, pause: Pause, fuse: Arc<Fuse>) -> Option<String> {
    let client = (door.connect)(Arc::clone(&fuse));
    let clock = door.clock.clone();
    let now: schedlab_scheduler::Clock = Arc::new(move || clock.now());
    let run = tokio::spawn(pause.wrap(schedlab_scheduler::run(client, config, now)));
    fuse.guard(run.abort_handle());
    match run.await {
        Ok(Ok(())) => Some("it returned".to_owned()),
        Ok(Err(error)) => Some(format!("{error:#}")),
        // The panic itself is noted where it happened.
        Err(_) => None,
    }
}

/// The cycles of a scheduler in this process, for those who wait for them.
#[derive(Clone)]
pub(crate) struct Pulse {
    status: watch::Receiver<Status>,
    lives: Liveliness,
}

impl Pulse {
    /// Waits until it has begun and ended a cycle from now, or does not live.
    pub(super) async fn two(&mut self) {
        let mut last = self.status.borrow_and_update().cycles;
        let mut left: u64 = 2;
        while left > 0 && (self.lives)() {
            let told = tokio::time::timeout(GLANCE, self.status.changed()).await;
            let cycles = self.status.borrow_and_update().cycles;
            // One that began anew counts from 0 again.
            let new = if cycles < last { cycles } else { cycles - last };
            (last, left) = (cycles, left.saturating_sub(new));
            if let Ok(Err(_)) = told {
                return;
            }
        }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess")
            .field("started", &self.supervised.is_started())
            .finish_non_exhaustive()
    }
}
