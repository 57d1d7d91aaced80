//! Kubernetes objects from table rows and YAML: nodes, queues, workloads, manifests. No I/O. The
//! columns are documented in `schedlab steps`.

mod fleet;
mod manifest;
mod placement_columns;
mod quantities;
mod queue;
mod references;
mod source_location;
mod table;
mod workload;
mod workload_kinds;

use schedlab_api::Value;

pub(crate) use fleet::{FLEET_COLUMNS, nodes_from_row};
pub(crate) use manifest::{
    ManifestDocument, check_no_duplicates, parse_documents, parse_patch_document,
};
pub(crate) use quantities::first_invalid_quantity;
pub(crate) use queue::{QUEUE_COLUMNS, QueueTree, queue_field_patch, queue_from_row};
pub(crate) use references::ExistingNames;
pub(crate) use source_location::ColumnAlignment;
pub(crate) use source_location::{SourceLocation, SourceText};

pub(crate) use table::RowError;
pub(crate) use table::{Row, Table};
pub(crate) use workload::{WORKLOAD_COLUMNS, workload_objects_from_row};

/// The objects of a manifest: a YAML text with one or more documents.
///
/// # Errors
/// The text is no YAML, or a document is no object; the message has `file` and the line.
pub fn manifest_objects(file: &str, text: &str) -> Result<Vec<Value>, String> {
    let source = SourceText {
        file: file.to_owned(),
        first_line: 1,
        columns: ColumnAlignment::AsInFile,
        content: text.to_owned(),
    };
    let documents = parse_documents(&source)?;
    Ok(documents.into_iter().map(|document| document.object).collect())
}
