//! Which of several streams may have something to say. Asking one that has nothing costs as much
//! as reading a short line, and all would be asked whenever one of them speaks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::task::AtomicWaker;

/// Rung by a stream that may have news; it wakes who waits for all of them.
pub(super) struct Bell {
    state: Arc<State>,
    /// Rings.
    waker: Waker,
}

struct State {
    has_rung: AtomicBool,
    whole: Arc<AtomicWaker>,
}

impl Bell {
    /// A stream's that was never asked, for which it counts as rung.
    pub(super) fn new(whole: &Arc<AtomicWaker>) -> Self {
        let state = Arc::new(State { has_rung: AtomicBool::new(true), whole: whole.clone() });
        let waker = Waker::from(state.clone());
        Self { state, waker }
    }

    /// Asks, if it has rung since it was asked last and answered that there is nothing.
    pub(super) fn ask<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        if !self.state.has_rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let answer = poll(&mut Context::from_waker(&self.waker));
        if answer.is_ready() {
            self.state.has_rung.store(true, Ordering::Release);
        }
        answer
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.whole.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn who_said_nothing_is_asked_again_only_when_it_has_rung() {
        let bell = Bell::new(&Arc::default());
        let asked = Cell::new(0);
        let ask = |answer| {
            bell.ask(|_| {
                asked.set(asked.get() + 1);
                answer
            })
        };
        assert_eq!((ask(Poll::Ready(1)), asked.get()), (Poll::Ready(1), 1));
        assert_eq!((ask(Poll::Pending), asked.get()), (Poll::Pending, 2));
        assert_eq!((ask(Poll::Ready(2)), asked.get()), (Poll::Pending, 2));
        bell.waker.wake_by_ref();
        assert_eq!((ask(Poll::Ready(3)), asked.get()), (Poll::Ready(3), 3));
    }

    #[test]
    fn a_bell_that_rings_wakes_who_waits_for_all() {
        let (whole, outer) = (Arc::new(AtomicWaker::new()), Bell::new(&Arc::default()));
        let bell = Bell::new(&whole);
        assert_eq!(outer.ask(|_| Poll::<()>::Pending), Poll::Pending);
        whole.register(&outer.waker);
        bell.waker.wake_by_ref();
        assert_eq!(outer.ask(|_| Poll::Ready(())), Poll::Ready(()));
    }
}
