//! Tracks which of several streams were woken. Polling an idle stream costs about as much as
//! reading a short line, and otherwise every wake would poll all of them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::task::AtomicWaker;

/// The waker of one stream: sets a flag, and wakes the task that polls all streams.
pub(super) struct WakeFlag {
    state: Arc<WakeState>,
    /// The waker that sets the flag.
    waker: Waker,
}

struct WakeState {
    is_woken: AtomicBool,
    parent_waker: Arc<AtomicWaker>,
}

impl WakeFlag {
    /// The flag of a new stream, which counts as woken so that it is polled once.
    pub(super) fn new(parent_waker: &Arc<AtomicWaker>) -> Self {
        let state = Arc::new(WakeState {
            is_woken: AtomicBool::new(true),
            parent_waker: parent_waker.clone(),
        });
        let waker = Waker::from(state.clone());
        Self { state, waker }
    }

    /// Polls the stream if it was woken since it last returned `Pending`.
    pub(super) fn poll_if_woken<T>(
        &self,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if !self.state.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.state.is_woken.store(true, Ordering::Release);
        }
        polled
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.parent_waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_pending_stream_is_polled_again_only_after_a_wake() {
        let bell = WakeFlag::new(&Arc::default());
        let asked = Cell::new(0);
        let ask = |polled| {
            bell.poll_if_woken(|_| {
                asked.set(asked.get() + 1);
                polled
            })
        };
        assert_eq!((ask(Poll::Ready(1)), asked.get()), (Poll::Ready(1), 1));
        assert_eq!((ask(Poll::Pending), asked.get()), (Poll::Pending, 2));
        assert_eq!((ask(Poll::Ready(2)), asked.get()), (Poll::Pending, 2));
        bell.waker.wake_by_ref();
        assert_eq!((ask(Poll::Ready(3)), asked.get()), (Poll::Ready(3), 3));
    }

    #[test]
    fn a_wake_of_one_stream_wakes_the_parent() {
        let (whole, outer) = (Arc::new(AtomicWaker::new()), WakeFlag::new(&Arc::default()));
        let bell = WakeFlag::new(&whole);
        assert_eq!(outer.poll_if_woken(|_| Poll::<()>::Pending), Poll::Pending);
        whole.register(&outer.waker);
        bell.waker.wake_by_ref();
        assert_eq!(outer.poll_if_woken(|_| Poll::Ready(())), Poll::Ready(()));
    }
}
