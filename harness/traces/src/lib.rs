//! Traces of jobs: [`read_jobs`] reads the native format and those of public traces, [`stats`]
//! describes a trace, [`generate`] draws a trace like another one, [`edit`] cuts, merges and scales
//! traces; [`objects`] and [`prometheus`] record pods, of which [`pods`] makes jobs. The crate
//! starts no cluster and opens no connection.

mod calendar;
mod csv_files;
mod csv_source;
pub mod edit;
mod error;
mod fleet;
mod format;
pub mod generate;
mod job;
mod json_lines;
pub mod limits;
mod lines;
mod numbers;
pub mod objects;
mod options;
pub mod pods;
pub mod prometheus;
mod queues;
mod read;
mod readers;
mod recorded;
mod size_class;
pub mod stats;
mod write;

pub use csv_files::{read_nodes as read_csv_nodes, read_queues as read_csv_queues};
pub use error::TraceError;
pub use fleet::{TraceNode, TraceQueue};
pub use format::{TraceFormat, UnknownFormat};
pub use job::{JobEnd, JobTrace, TraceJob, UnknownModel, unknown_models_note};
pub use json_lines::{read_nodes as read_json_nodes, read_queues as read_json_queues};
pub use options::{QueueBy, ReadOptions};
pub use queues::queues_of;
pub use read::read_jobs;
pub use size_class::SizeClass;
pub use write::{write_jobs, write_queues};
