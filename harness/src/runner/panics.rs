//! Panics, told apart: a step's own ends the step; one in a task of the emulator or the
//! scheduler would vanish in the runtime, so each is noted on the thread it happened on.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Vec<Panic>> = const { RefCell::new(Vec::new()) };
    static NOTED: RefCell<bool> = const { RefCell::new(false) };
}

/// One panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Panic {
    /// Its message.
    pub(super) message: String,
    /// File and line.
    pub(super) place: String,
}

/// From now on panics on threads that [`note`] are kept instead of printed.
pub(super) fn keep_silent() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !NOTED.with_borrow(|noted| *noted) {
                return before(panic);
            }
            let place =
                panic.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
            let message = text(panic.payload());
            SEEN.with_borrow_mut(|seen| seen.push(Panic { message, place }));
        }));
    });
}

/// Notes panics on this thread from now on.
pub(super) fn note() {
    NOTED.with_borrow_mut(|noted| *noted = true);
    SEEN.with_borrow_mut(Vec::clear);
}

/// What was noted since the last call.
pub(super) fn take() -> Vec<Panic> {
    SEEN.with_borrow_mut(std::mem::take)
}

/// A panic's message.
pub(super) fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
