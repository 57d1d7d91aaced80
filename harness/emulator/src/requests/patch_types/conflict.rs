//! The conflict error of server-side apply, in the format that kubectl shows and tools parse.

use super::fields::{FieldSet, path_texts};
use super::managed::{ManagedFieldsEntry, Operation};
use crate::api_types::error::{ApiError, Cause, Details};

/// A conflict with one manager: the fields that it owns and the applier wants to change.
pub(super) struct ManagerConflict {
    manager: String,
    paths: Vec<String>,
}

impl ManagerConflict {
    pub(super) fn new(owner: &ManagedFieldsEntry, fields: &FieldSet) -> Self {
        Self { manager: owner_text(owner), paths: path_texts(fields) }
    }
}

fn owner_text(entry: &ManagedFieldsEntry) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text = format!("{text} with subresource {:?}", entry.subresource);
    }
    match entry.operation {
        Operation::Apply => text,
        Operation::Update => format!("{text} using {}", entry.api_version),
    }
}

/// The 409 error of an apply with conflicts, with one cause per field.
pub(super) fn conflict_error(mut conflicts: Vec<ManagerConflict>) -> ApiError {
    conflicts.sort_by(|one, other| one.manager.cmp(&other.manager));
    let causes = conflicts.iter().flat_map(|conflict| {
        conflict.paths.iter().map(|path| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {}", conflict.manager),
            field: path.clone(),
        })
    });
    let details = Details { causes: causes.collect(), ..Details::default() };
    let message = match &details.causes[..] {
        [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        several => {
            let lines: Vec<String> = conflicts.iter().map(conflict_lines).collect();
            format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
        }
    };
    ApiError { details: Some(Box::new(details)), ..ApiError::new(409, "Conflict", message) }
}

fn conflict_lines(conflict: &ManagerConflict) -> String {
    let mut text = format!("conflicts with {}:", conflict.manager);
    for path in &conflict.paths {
        text.push_str("\n- ");
        text.push_str(path);
    }
    text
}
