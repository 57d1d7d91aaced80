//! Holds a task of this runtime where it is for a while. A step that makes several objects is one
//! moment: on the emulator no time passes in it, and in real time the scheduler must not see
//! half of what it makes either.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether the task is held. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    held: usize,
    /// Who wanted to go on meanwhile.
    waiting: Option<Waker>,
}

/// Holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Held(Pause);

impl Pause {
    /// Holds the task from its next step on.
    pub(crate) fn hold(&self) -> Held {
        self.state().held += 1;
        Held(self.clone())
    }

    /// What the task does, when it is not held.
    pub(super) async fn wrap<F: Future>(self, task: F) -> F::Output {
        let mut task = std::pin::pin!(task);
        std::future::poll_fn(|context| self.poll(task.as_mut(), context)).await
    }

    fn poll<F: Future>(&self, task: Pin<&mut F>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut state = self.state();
        if state.held > 0 {
            state.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        task.poll(context)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.held -= 1;
        if state.held == 0
            && let Some(waker) = state.waiting.take()
        {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_held_goes_on_when_it_is_let_go() {
        let (pause, start) = (Pause::default(), Instant::now());
        let task = tokio::spawn(pause.clone().wrap(async move {
            sleep(Duration::from_secs(1)).await;
            start.elapsed()
        }));
        tokio::task::yield_now().await;
        let held = (pause.hold(), pause.hold());
        sleep(Duration::from_secs(5)).await;
        drop(held.0);
        sleep(Duration::from_secs(5)).await;
        assert!(!task.is_finished());
        drop(held.1);
        assert_eq!(task.await.unwrap(), Duration::from_secs(10));
    }
}
