//! Counts requests that are not answered yet: while there is one, the cluster is not idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter that clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRequests(Arc<AtomicUsize>);

/// One open request. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<AtomicUsize>);

impl OpenRequests {
    /// Counts one more request until the returned value is dropped.
    pub(crate) fn begin(&self) -> OpenRequest {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenRequest(Arc::clone(&self.0))
    }

    /// The number of open requests.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_open_until_it_is_dropped() {
        let requests = OpenRequests::default();
        let (first, second) = (requests.begin(), requests.clone().begin());
        assert_eq!(requests.count(), 2);
        drop(first);
        assert_eq!(requests.count(), 1);
        drop(second);
        assert_eq!(requests.count(), 0);
    }
}
