//! Logs of the actions of a cycle.

use schedlab_scheduler_core::{CycleObserver, framework::Session, profile::Action};
use tokio::time::Instant;
use tracing::{debug, debug_span, span::EnteredSpan};

use crate::logging::millis;

/// Opens a tracing span for each action, and forwards to another observer.
pub(super) struct ActionLog<'a, O> {
    inner: &'a mut O,
    current: Option<CurrentAction>,
}

struct CurrentAction {
    span: EnteredSpan,
    started: Instant,
    /// Number of decisions of earlier actions.
    decided: usize,
}

impl<'a, O: CycleObserver> ActionLog<'a, O> {
    pub(super) fn new(inner: &'a mut O) -> Self {
        Self { inner, current: None }
    }
}

impl<O: CycleObserver> CycleObserver for ActionLog<'_, O> {
    fn on_action_start(&mut self, action: Action, session: &Session<'_>) {
        let span = debug_span!("action", action = action.as_str()).entered();
        let (started, decided) = (Instant::now(), session.decisions().len());
        self.current = Some(CurrentAction { span, started, decided });
        self.inner.on_action_start(action, session);
    }

    fn on_action_end(&mut self, action: Action, session: &Session<'_>) {
        self.inner.on_action_end(action, session);
        let Some(CurrentAction { span, started, decided }) = self.current.take() else { return };
        let decisions = session.decisions().len() - decided;
        debug!(decisions, duration_ms = millis(started.elapsed()), "action ended");
        drop(span);
    }
}
