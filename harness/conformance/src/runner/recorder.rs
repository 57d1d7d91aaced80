//! Passes the history of a case to the reporter that draws it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use schedlab_emulator::store::LogEntry;

/// Everything that happened on the cluster of a case.
#[derive(Clone, Debug)]
pub struct CaseHistory {
    /// The id of the case in results.
    pub id: String,
    /// All writes, in the order of revisions.
    pub log: Vec<Arc<LogEntry>>,
    /// The revision of the last write before the end of each step that ran.
    pub step_revisions: Vec<u64>,
    /// When the cluster's clock started.
    pub start: Timestamp,
}

/// Receives the history of each attempt of a case; that of the last attempt counts.
#[derive(Clone)]
pub struct HistoryRecorder(Arc<dyn Fn(CaseHistory) + Send + Sync>);

impl HistoryRecorder {
    /// A recorder that passes each history to a function, on the thread of the case.
    pub fn new(record: impl Fn(CaseHistory) + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }

    pub(super) fn record(&self, history: CaseHistory) {
        (self.0)(history);
    }
}

impl fmt::Debug for HistoryRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HistoryRecorder")
    }
}
