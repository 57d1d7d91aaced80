//! How a trace is read.

use std::str::FromStr;

use crate::format::TraceFormat;

/// How a trace is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; `None`: the first line tells it.
    pub format: Option<TraceFormat>,
    /// What becomes the queue of a job.
    pub queue_by: QueueBy,
    /// Whether invalid rows are skipped and counted; otherwise the first one is an error.
    pub skip_invalid: bool,
}

/// What becomes the queue of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueBy {
    /// The queue, or the virtual cluster, of the trace.
    #[default]
    Queue,
    /// The user.
    User,
    /// The kind of the work.
    Kind,
    /// Jobs have no queue.
    None,
}

impl FromStr for QueueBy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "queue" => Ok(Self::Queue),
            "user" => Ok(Self::User),
            "kind" => Ok(Self::Kind),
            "none" => Ok(Self::None),
            other => Err(format!("got {other:?}, expected queue, user, kind or none")),
        }
    }
}
