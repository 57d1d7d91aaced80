//! Input of steps: tables, doc strings and fixtures. Each parsed object keeps its source location,
//! and errors about it quote that location.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::anyhow;
use gherkin::Step;
use schedlab_api::Value;

use super::World;
use super::step_source::{self, StepSource};
use crate::world::manifests::{
    ExistingNames, ManifestDocument, Row, RowError, SourceLocation, Table, check_no_duplicates,
    first_invalid_quantity,
};
use schedlab_clusters::api::ApiError;

impl World {
    /// Sets the line number of the step that runs now.
    pub(crate) fn set_step_line(&mut self, line: usize) {
        self.step_line = line;
        self.last_mismatch = None;
    }

    /// Where the step that runs now is: `file:line`.
    pub(crate) fn step_location(&self) -> String {
        format!("{}:{}", self.case.location.file, self.step_line)
    }

    /// The values in a sentence as a table row.
    pub(crate) fn inline_row<'s>(&self, cells: &[(&'s str, &'s str)]) -> Row<'s> {
        Row::from_cells(self.step_location(), cells)
    }

    /// Documents for objects whose source location is the step that runs now.
    pub(crate) fn inline_documents(&self, objects: Vec<Value>) -> Vec<ManifestDocument> {
        let origin = SourceLocation::Line(self.step_location());
        objects
            .into_iter()
            .map(|object| ManifestDocument { location: origin.clone(), object })
            .collect()
    }

    /// Parses the objects in a fixture file.
    pub(crate) fn read_fixture(&self, name: &str) -> anyhow::Result<Vec<ManifestDocument>> {
        step_source::fixture_documents(&self.case, name, &self.step_location())
    }

    /// The path of a case file that a step names, which is relative to the folder of the features.
    pub(crate) fn case_file_path(&self, file: &str) -> PathBuf {
        self.case.base_folder().join(file)
    }

    /// The displayed path and the text of a fixture file.
    pub(crate) fn fixture_text(&self, name: &str) -> anyhow::Result<(String, String)> {
        step_source::fixture_text(&self.case, name, &self.step_location())
    }

    /// Parses the objects in the doc string of a step.
    pub(crate) fn read_docstring(&self, step: &Step) -> anyhow::Result<Vec<ManifestDocument>> {
        self.source_of(step).docstring_documents()
    }

    /// Parses the patch in the doc string of a step.
    pub(crate) fn read_patch_docstring(&self, step: &Step) -> anyhow::Result<ManifestDocument> {
        self.source_of(step).docstring_patch()
    }

    /// The rows of a step's table, whose columns must be among `columns`.
    pub(crate) fn table_rows<'s>(
        &'s self,
        step: &'s Step,
        columns: &[&str],
    ) -> anyhow::Result<Table<'s>> {
        self.source_of(step).parse_table(columns)
    }

    fn source_of<'s>(&'s self, step: &'s Step) -> StepSource<'s> {
        StepSource { case: &self.case, step }
    }

    /// Rejects rows that refer to a queue or node that does not exist.
    pub(crate) async fn check_references(&self, rows: &[Row<'_>]) -> anyhow::Result<()> {
        let names_any = |column: &str| rows.iter().any(|row| row.cell(column).is_some());
        let mut existing = ExistingNames::default();
        if names_any("queue") {
            existing.queues =
                Some(self.object_names_of_collection(super::target_objects::QUEUES_PATH).await?);
        }
        if names_any("node") {
            existing.nodes =
                Some(self.object_names_of_collection(super::target_objects::NODES_PATH).await?);
        }
        Ok(rows.iter().try_for_each(|row| existing.check_row(row))?)
    }

    /// Names of the objects in a collection; none on a cluster without this API.
    async fn object_names_of_collection(
        &self,
        collection: &str,
    ) -> anyhow::Result<BTreeSet<String>> {
        let list = match self.api.get(collection).await {
            Ok(list) => list,
            Err(error) if schedlab_clusters::api::is_not_found(&error) => {
                return Ok(BTreeSet::new());
            }
            Err(error) => return Err(schedlab_clusters::api::to_anyhow_error(error)),
        };
        let objects = list["items"].as_array().into_iter().flatten();
        let names = objects.filter_map(|object| object["metadata"]["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Builds objects from all rows of a step's table. An error in any row means that none is
    /// created.
    pub(crate) fn objects_from_table(
        &self,
        step: &Step,
        columns: &[&str],
        make: &dyn Fn(&Row<'_>) -> Result<Vec<Value>, RowError>,
    ) -> anyhow::Result<Vec<ManifestDocument>> {
        let rows = self.table_rows(step, columns)?;
        let mut objects = Vec::new();
        for row in &rows.rows {
            let origin = SourceLocation::Line(row.row_location().to_owned());
            let new = make(row)?.into_iter();
            objects.extend(new.map(|object| ManifestDocument { location: origin.clone(), object }));
        }
        check_no_duplicates(&objects).map_err(anyhow::Error::msg)?;
        Ok(objects)
    }

    /// Adds the source location of the field that an API error is about to the error. A field that
    /// the target's own CRDs lack is recorded: the scenario is skipped, because the API server and
    /// not the scheduler refused it.
    pub(crate) async fn locate_error(
        &mut self,
        document: &ManifestDocument,
        error: anyhow::Error,
    ) -> anyhow::Error {
        let ManifestDocument { location: origin, object } = document;
        let refusal = error.downcast_ref::<ApiError>();
        let field = refusal.and_then(|refusal| refusal.field.clone());
        // The server's decoder does not name the quantity that it could not parse.
        let is_quantity_error = refusal.is_some_and(|refusal| {
            ["quantity ", "quantities "].iter().any(|word| refusal.message.contains(word))
        });
        if let (None, true, Some((field, found))) =
            (&field, is_quantity_error, first_invalid_quantity(object))
        {
            let location = origin.location_of_field(&field);
            return error.context(format!("{location}: {field}: got {found}"));
        }
        let location = origin.location_of_field(field.as_deref().unwrap_or_default());
        if let Some((field, found)) =
            field.as_deref().and_then(|field| unquoted_scalar(object, field))
            && refusal.is_some_and(|refusal| refusal.message.contains("of type string"))
        {
            let location = origin.location_of_field(&field);
            let written = origin.scalar_text(&field).unwrap_or_else(|| found.to_string());
            let kind = if found.is_boolean() { "Boolean" } else { "number" };
            return error.context(format!(
                "{location}: {field}: got {written}, which YAML parses as the {kind} {found}, \
                 expected a string: write \"{written}\" in quotes"
            ));
        }
        match (field, refusal.filter(|refusal| refusal.is_unknown_field)) {
            (Some(field), Some(_)) => {
                self.record_unknown_field(object, &field);
                let text = |name: &str| object[name].as_str().unwrap_or_default();
                let siblings = self.api.sibling_fields(text("apiVersion"), text("kind"), &field);
                let siblings = siblings.await.join(", ");
                anyhow!(
                    "{location}: {}: unknown field {field}, expected one of {siblings}",
                    schedlab_clusters::api::object_title(object)
                )
            }
            (Some(_), None) | (None, _) => error.context(location),
        }
    }
}

/// The Boolean or number at a field, or directly inside the field if its value is a map: a text
/// that lacks quotes.
fn unquoted_scalar(object: &Value, field: &str) -> Option<(String, Value)> {
    let wrong = |value: &Value| value.is_boolean() || value.is_number();
    let steps = field.split(['.', '[', ']']).filter(|step| !step.is_empty());
    let mut at = object;
    for step in steps {
        at = match step.parse::<usize>() {
            Ok(index) if at.is_array() => at.get(index)?,
            Ok(_) | Err(_) => at.get(step)?,
        };
    }
    if wrong(at) {
        return Some((field.to_owned(), at.clone()));
    }
    let (key, value) = at.as_object()?.iter().find(|(_, value)| wrong(value))?;
    Some((format!("{field}.{key}"), value.clone()))
}
