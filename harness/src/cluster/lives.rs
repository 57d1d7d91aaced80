//! The lives of a scheduler under test: how each ends, and what follows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::{sync::Notify, task::AbortHandle};

use super::AfterKill;
use super::fuse::Fuse;

/// How long a killed scheduler needs to start anew.
const RESTART: Duration = Duration::from_secs(1);

/// Says whether a scheduler lives, or will soon.
pub(super) type Liveliness = Arc<dyn Fn() -> bool + Send + Sync>;

/// A scheduler that lives, dies and lives again as steps want it.
pub(super) struct Supervised {
    lives: Arc<Lives>,
    supervisor: Option<AbortHandle>,
}

impl Supervised {
    /// It does not live yet. `on_kill` is told of every death that a step causes.
    pub(super) fn new(on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { lives: Arc::new(Lives::new(on_kill)), supervisor: None }
    }

    /// Whether a step started it and none stopped it.
    pub(super) fn is_started(&self) -> bool {
        self.supervisor.is_some()
    }

    /// How often it was killed at a write.
    pub(super) fn deaths(&self) -> usize {
        self.lives.life().deaths
    }

    /// Why it ended, when nobody wanted that.
    pub(super) fn error(&self) -> Option<String> {
        self.lives.life().error.clone()
    }

    /// Waits until it has ended by itself. Only one may wait.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let lives = Arc::clone(&self.lives);
        async move {
            while lives.life().error.is_none() {
                lives.end.notified().await;
            }
        }
    }

    /// Whether it goes on by itself.
    pub(super) fn lives(&self) -> bool {
        self.supervisor.as_ref().is_some_and(|task| !task.is_finished())
    }

    /// Lets lives follow each other. `live` is one of them, until it ends or the fuse blows; its
    /// answer is how it ended, where that is not noted otherwise.
    pub(super) fn start<L, F>(&mut self, live: L)
    where
        L: Fn(Arc<Fuse>) -> F + Send + 'static,
        F: Future<Output = Option<String>> + Send + 'static,
    {
        self.lives.life().goes_on = true;
        let supervisor = supervise(Arc::clone(&self.lives), live);
        self.supervisor = Some(tokio::spawn(supervisor).abort_handle());
    }

    /// Ends it between two requests.
    pub(super) fn stop(&mut self) {
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.abort();
            self.lives.stop();
        }
    }

    /// A question for those who wait for it: does it live, or will it soon?
    pub(super) fn liveliness(&self) -> Liveliness {
        let lives = Arc::clone(&self.lives);
        Arc::new(move || lives.life().goes_on)
    }

    /// Has it die at a write: of this life, or when it does not live of the next.
    pub(super) fn kill_before_write(&self, n: u32, then: AfterKill) {
        let lively = if self.lives() { Lively::Yes } else { Lively::No };
        self.lives.kill_before_write(n, then, lively);
    }
}

async fn supervise<F>(lives: Arc<Lives>, live: impl Fn(Arc<Fuse>) -> F)
where
    F: Future<Output = Option<String>>,
{
    loop {
        let fuse = lives.next_life();
        let ended = live(Arc::clone(&fuse)).await;
        if !fuse.is_blown() {
            lives.ended(ended);
            return;
        }
        if !lives.died() {
            return;
        }
        tokio::time::sleep(RESTART).await;
    }
}

/// What is known of a scheduler's lives, by steps and by who lets them follow each other.
struct Lives {
    life: Mutex<Life>,
    /// It ended by itself.
    end: Notify,
    on_kill: Box<dyn Fn() + Send + Sync>,
}

struct Life {
    /// Cuts it off.
    fuse: Arc<Fuse>,
    /// Kill in place of this write of a life that has not begun.
    next: u32,
    then: AfterKill,
    /// How often it was killed at a write.
    deaths: usize,
    /// Why it ended, when nobody wanted that.
    error: Option<String>,
    /// It lives, or another life follows.
    goes_on: bool,
}

impl Lives {
    /// None so far. `on_kill` is told of every death that a step causes.
    fn new(on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        let life = Life {
            fuse: Arc::default(),
            next: 0,
            then: AfterKill::StayDead,
            deaths: 0,
            error: None,
            goes_on: false,
        };
        Self { life: Mutex::new(life), end: Notify::new(), on_kill }
    }

    /// The present life, or the last.
    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step ends it.
    fn stop(&self) {
        let mut life = self.life();
        life.fuse.end();
        life.goes_on = false;
        drop(life);
        (self.on_kill)();
    }

    /// It ended by itself.
    fn ended(&self, error: Option<String>) {
        let mut life = self.life();
        life.error = error;
        life.goes_on = false;
        self.end.notify_one();
    }

    /// It died at a write. Answers whether another life follows.
    fn died(&self) -> bool {
        (self.on_kill)();
        let mut life = self.life();
        life.deaths += 1;
        life.goes_on = life.then != AfterKill::StayDead;
        life.goes_on
    }

    fn kill_before_write(&self, n: u32, then: AfterKill, lives: Lively) {
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

/// Whether a scheduler lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lively {
    /// It does.
    Yes,
    /// It does not.
    No,
}
