//! Suspends a task of this runtime. A step that creates several objects must appear atomic: on the
//! emulator no time passes in it, and in real time the scheduler must not see half of the objects
//! either.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Suspends and resumes a task. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct SuspendHandle(Arc<Mutex<SuspendState>>);

#[derive(Debug, Default)]
struct SuspendState {
    guards: usize,
    /// Wakes the task if the task was polled while it was suspended.
    waker: Option<Waker>,
}

/// Keeps the task suspended until this guard is dropped.
#[derive(Debug)]
pub(crate) struct SuspendGuard(SuspendHandle);

impl SuspendHandle {
    /// Suspends the task before its next poll.
    pub(crate) fn suspend(&self) -> SuspendGuard {
        self.lock_state().guards += 1;
        SuspendGuard(self.clone())
    }

    /// Runs the task, except while it is suspended.
    pub(super) async fn run<F: Future>(self, task: F) -> F::Output {
        let mut task = std::pin::pin!(task);
        std::future::poll_fn(|context| self.poll_unless_suspended(task.as_mut(), context)).await
    }

    fn poll_unless_suspended<F: Future>(
        &self,
        task: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let mut state = self.lock_state();
        if state.guards > 0 {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        task.poll(context)
    }

    fn lock_state(&self) -> MutexGuard<'_, SuspendState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        let mut state = self.0.lock_state();
        state.guards -= 1;
        if state.guards == 0
            && let Some(waker) = state.waker.take()
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
    async fn a_suspended_task_resumes_when_all_guards_are_dropped() {
        let (handle, start) = (SuspendHandle::default(), Instant::now());
        let task = tokio::spawn(handle.clone().run(async move {
            sleep(Duration::from_secs(1)).await;
            start.elapsed()
        }));
        tokio::task::yield_now().await;
        let guards = (handle.suspend(), handle.suspend());
        sleep(Duration::from_secs(5)).await;
        drop(guards.0);
        sleep(Duration::from_secs(5)).await;
        assert!(!task.is_finished());
        drop(guards.1);
        assert_eq!(task.await.unwrap(), Duration::from_secs(10));
    }
}
