//! What a log entry means: see [`schedlab_audit::Change`].

use schedlab_audit::Change;
use schedlab_emulator::store::LogEntry;

use crate::audit::write_of;

/// The changes that a log entry shows; often none.
pub fn changes(entry: &LogEntry) -> Vec<Change> {
    schedlab_audit::changes(&write_of(entry))
}

/// Whether this log entry requested the deletion of the object.
pub fn requests_deletion(entry: &LogEntry) -> bool {
    schedlab_audit::requests_deletion(&write_of(entry))
}
