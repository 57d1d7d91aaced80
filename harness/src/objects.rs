//! Kubernetes objects from the rows of feature tables: queues, workloads. Pure text in, JSON
//! out; what a row may say is in `docs/reference/features.md`.

mod fleet;
mod manifest;
mod origin;
mod places;
mod quantities;
mod queue;
mod rows;
mod workload;
mod workload_kinds;

pub(crate) use fleet::{FLEET_COLUMNS, fleet};
pub(crate) use manifest::{Document, change, distinct, documents};
pub(crate) use origin::{Columns, Origin, Text};
pub(crate) use quantities::bad_quantity;
pub(crate) use queue::{QUEUE_COLUMNS, QueueTree, queue, set_queue_field};

pub(crate) use rows::{Row, RowError, Rows};
pub(crate) use workload::{WORKLOAD_COLUMNS, workload};
