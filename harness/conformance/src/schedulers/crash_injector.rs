//! Injects a crash: a layer around a scheduler's client that counts writes and, after the fatal
//! one, leaves every request of that scheduler unanswered.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use tokio::task::AbortHandle;
use tower::Service;

/// The point at which one scheduler instance is killed: before one of its writes, or never.
#[derive(Debug, Default)]
pub(crate) struct CrashPoint {
    /// The number of the write instead of which the instance is killed; 0 means never.
    kill_at: AtomicU32,
    write_count: AtomicU32,
    is_dead: AtomicBool,
    /// Whether the instance was killed at `kill_at` and not by a step.
    has_fired: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl CrashPoint {
    /// Kills the instance instead of its write number `write_number`, counted from now on.
    pub(super) fn arm_at_write(&self, write_number: u32) {
        let at = self.write_count.load(Ordering::Relaxed).saturating_add(write_number.max(1));
        self.kill_at.store(at, Ordering::Relaxed);
    }

    /// Sets the task that is aborted when the instance is killed.
    pub(super) fn set_task(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Kills the instance: no further request of the instance is answered.
    pub(super) fn kill_task(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Whether the instance was killed at its armed write, and not by a step.
    pub(super) fn has_fired(&self) -> bool {
        self.has_fired.load(Ordering::Relaxed)
    }

    /// Counts a request. Returns `false` if the request must not happen because the instance is
    /// killed.
    fn admit_request(&self, method: &Method) -> bool {
        if self.is_dead.load(Ordering::Relaxed) {
            return false;
        }
        if *method == Method::GET {
            return true;
        }
        let number = self.write_count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.kill_at.load(Ordering::Relaxed) == number {
            self.has_fired.store(true, Ordering::Relaxed);
            self.kill_task();
            return false;
        }
        true
    }
}

/// A client service that stops answering when its crash point kills the instance.
#[derive(Clone, Debug)]
pub(crate) struct CrashService<S> {
    pub inner: S,
    pub(crate) crash_point: Arc<CrashPoint>,
}

impl<S> Service<Request<Body>> for CrashService<S>
where
    S: Service<Request<Body>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if self.crash_point.admit_request(request.method()) {
            self.inner.call(request).boxed()
        } else {
            futures::future::pending().boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_write_and_all_later_requests_do_not_happen() {
        let crash_point = CrashPoint::default();
        assert!(crash_point.admit_request(&Method::POST));
        crash_point.arm_at_write(2);
        let passed = [Method::GET, Method::PATCH, Method::GET, Method::POST, Method::GET]
            .map(|method| crash_point.admit_request(&method));
        assert_eq!(passed, [true, true, true, false, false]);
        assert!(crash_point.has_fired());
    }
}
