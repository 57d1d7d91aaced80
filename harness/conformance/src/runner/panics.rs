//! Records panics per thread. A panic in a step ends the step, but a panic in a task of the
//! emulator or the scheduler would be lost in the runtime.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static RECORDED: RefCell<Vec<RecordedPanic>> = const { RefCell::new(Vec::new()) };
    static IS_RECORDING: RefCell<bool> = const { RefCell::new(false) };
}

/// The value that a panic carries.
pub(super) type PanicPayload = dyn Any + Send;

/// A panic that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordedPanic {
    /// The message of the panic.
    pub(super) message: String,
    /// Source file and line of the panic.
    pub(super) location: String,
}

/// Installs a panic hook that records panics on threads that called [`start_recording`] instead of
/// printing them.
pub(super) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_RECORDING.with_borrow(|noted| *noted) {
                return before(panic);
            }
            let location =
                panic.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
            let message = payload_text(panic.payload());
            RECORDED.with_borrow_mut(|seen| seen.push(RecordedPanic { message, location }));
        }));
    });
}

/// Starts recording panics on this thread.
pub(super) fn start_recording() {
    IS_RECORDING.with_borrow_mut(|noted| *noted = true);
    RECORDED.with_borrow_mut(Vec::clear);
}

/// Returns the panics that were recorded on this thread since the last call.
pub(super) fn take_recorded_panics() -> Vec<RecordedPanic> {
    RECORDED.with_borrow_mut(std::mem::take)
}

/// The message in the value that a panic carries.
pub(super) fn payload_text(payload: &PanicPayload) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
