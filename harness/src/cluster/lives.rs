//! The lives of a scheduler under test: how each ends, and what follows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::AfterKill;
use super::fuse::Fuse;

/// What is known of a scheduler's lives, by steps and by who lets them follow each other.
pub(super) struct Lives {
    life: Mutex<Life>,
    on_kill: Box<dyn Fn() + Send + Sync>,
}

pub(super) struct Life {
    /// Cuts it off.
    pub(super) fuse: Arc<Fuse>,
    /// Kill in place of this write of a life that has not begun.
    next: u32,
    then: AfterKill,
    /// How often it was killed at a write.
    pub(super) deaths: usize,
    /// Why it ended, when nobody wanted that.
    pub(super) error: Option<String>,
}

impl Lives {
    /// None so far. `on_kill` is told of every death that a step causes.
    pub(super) fn new(on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let life = Life {
            fuse: Arc::default(),
            next: 0,
            then: AfterKill::StayDead,
            deaths: 0,
            error: None,
        };
        Self { life: Mutex::new(life), on_kill }
    }

    /// The present life, or the last.
    pub(super) fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step ends it.
    pub(super) fn stop(&self) {
        self.life().fuse.end();
        (self.on_kill)();
    }

    /// It died at a write. Answers whether another life follows.
    pub(super) fn died(&self) -> bool {
        (self.on_kill)();
        let mut life = self.life();
        life.deaths += 1;
        life.then != AfterKill::StayDead
    }

    /// Has it die at a write: of this life, or when it does not live of the next.
    pub(super) fn kill_before_write(&self, n: u32, then: AfterKill, lives: Lively) {
        let mut life = self.life();
        life.then = then;
        if lives == Lively::Yes {
            life.fuse.arm(n);
        }
        // One death is enough, unless every life is to end.
        let again = then == AfterKill::RestartAndKillAgain;
        life.next = if again || lives == Lively::No { n } else { 0 };
    }

    /// A new fuse, armed if this life is to be killed.
    pub(super) fn next_life(&self) -> Arc<Fuse> {
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

/// Whether a scheduler lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lively {
    /// It does.
    Yes,
    /// It does not.
    No,
}
