//! Where scenarios run, and what they do to the scheduler there.

mod emulated;

use std::time::Duration;

pub use emulated::Emulated;

/// A cluster that kept changing for longer than it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster did not come to rest within {} s", limit.as_secs())]
pub struct Unsettled {
    /// How long it was given, in its own time.
    pub limit: Duration,
}
