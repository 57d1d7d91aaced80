//! Traces of jobs: [`read_jobs`] reads the native format and those of public traces. The crate
//! starts no cluster and opens no connection.

mod csv_files;
mod csv_source;
mod error;
mod fleet;
mod format;
mod job;
mod json_lines;
pub mod limits;
mod lines;
mod numbers;
mod options;
mod read;
mod readers;
mod recorded;
mod write;

pub use csv_files::{read_nodes as read_csv_nodes, read_queues as read_csv_queues};
pub use error::TraceError;
pub use fleet::{TraceNode, TraceQueue};
pub use format::{TraceFormat, UnknownFormat};
pub use job::{JobEnd, JobTrace, TraceJob, UnknownModel, unknown_models_note};
pub use json_lines::{read_nodes as read_json_nodes, read_queues as read_json_queues};
pub use options::{QueueBy, ReadOptions};
pub use read::read_jobs;
pub use write::{write_jobs, write_queues};
