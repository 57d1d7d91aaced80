//! Kills a scheduler at a write: a layer on its client that counts, and from then on answers
//! nothing to that scheduler.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request};
use kube::client::Body;
use tokio::task::AbortHandle;
use tower::Service;

/// One life of a scheduler.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    /// Kill in place of this write; 0: never.
    at: AtomicU32,
    written: AtomicU32,
    dead: AtomicBool,
    /// It died by the count and not by a step.
    blown: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl Fuse {
    /// Kills in place of the `n`-th write from now on.
    pub(super) fn arm(&self, n: u32) {
        let at = self.written.load(Ordering::Relaxed).saturating_add(n.max(1));
        self.at.store(at, Ordering::Relaxed);
    }

    /// The task to end.
    pub(super) fn guard(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Ends this life: no further request of it is answered.
    pub(super) fn end(&self) {
        self.dead.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Whether the count ended it.
    pub(super) fn is_blown(&self) -> bool {
        self.blown.load(Ordering::Relaxed)
    }

    /// Counts a request; `false`: it must not happen.
    fn passes(&self, method: &Method) -> bool {
        if self.dead.load(Ordering::Relaxed) {
            return false;
        }
        if *method == Method::GET {
            return true;
        }
        let number = self.written.fetch_add(1, Ordering::Relaxed) + 1;
        if self.at.load(Ordering::Relaxed) == number {
            self.blown.store(true, Ordering::Relaxed);
            self.end();
            return false;
        }
        true
    }
}

/// A service behind a fuse.
#[derive(Clone, Debug)]
pub(crate) struct Fused<S> {
    pub(crate) inner: S,
    pub(crate) fuse: Arc<Fuse>,
}

impl<S> Service<Request<Body>> for Fused<S>
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
        if self.fuse.passes(request.method()) {
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
    fn the_nth_write_does_not_happen_and_nothing_after_it() {
        let fuse = Fuse::default();
        assert!(fuse.passes(&Method::POST));
        fuse.arm(2);
        let passed = [Method::GET, Method::PATCH, Method::GET, Method::POST, Method::GET]
            .map(|method| fuse.passes(&method));
        assert_eq!(passed, [true, true, true, false, false]);
        assert!(fuse.is_blown());
    }
}
