//! Kubernetes objects from table rows and YAML: nodes, queues, workloads, manifests. No I/O. The
//! columns are documented in `schedlab steps`.

mod fleet;
mod manifest;
mod placement_columns;
mod quantities;
mod queue;
mod source_location;
mod table;
mod workload;
mod workload_kinds;

pub use fleet::{FLEET_COLUMNS, nodes_from_row};
pub use manifest::{Document, check_distinct, parse_documents, parse_patch};
pub use quantities::first_invalid_quantity;
pub use queue::{QUEUE_COLUMNS, QueueTree, queue_field_patch, queue_from_row};
pub use source_location::{Columns, SourceLocation, SourceText};

pub use table::{Row, RowError, Table};
pub use workload::{WORKLOAD_COLUMNS, workload_from_row};
