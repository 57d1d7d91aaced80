//! Input of steps: tables, doc strings and fixtures. Each parsed object keeps its source location,
//! and errors about it quote that location.

use anyhow::{Context as _, anyhow};
use gherkin::Step;
use schedlab_api::Value;

use super::World;
use crate::world::manifests::{
    Columns, Document, Row, RowError, SourceLocation, SourceText, Table, check_distinct,
    first_invalid_quantity, parse_documents, parse_patch,
};
use schedlab_clusters::api::ApiError;

impl World {
    /// Sets the line of the step that runs now.
    pub(crate) fn set_step_line(&mut self, line: usize) {
        self.step_line = line;
        self.last_mismatch = None;
    }

    /// `file:line` of the step that runs now.
    pub(crate) fn step_location(&self) -> String {
        format!("{}:{}", self.case.location.file, self.step_line)
    }

    /// The values of a sentence as a table row.
    pub(crate) fn inline_row<'s>(&self, cells: &[(&'s str, &'s str)]) -> Row<'s> {
        Row::inline(self.step_location(), cells)
    }

    /// Objects whose location is the step itself.
    pub(crate) fn inline_documents(&self, objects: Vec<Value>) -> Vec<Document> {
        let origin = SourceLocation::Line(self.step_location());
        objects.into_iter().map(|object| Document { location: origin.clone(), object }).collect()
    }

    /// Parses the objects of a fixture.
    pub(crate) fn read_fixture(&self, name: &str) -> anyhow::Result<Vec<Document>> {
        let (file, text) = self.fixture_text(name)?;
        let whole = SourceText { file, first_line: 1, columns: Columns::AsInFile, content: text };
        parse_documents(&whole).map_err(anyhow::Error::msg)
    }

    /// Displayed path and text of a fixture.
    pub(crate) fn fixture_text(&self, name: &str) -> anyhow::Result<(String, String)> {
        let path = self.fixture_path(name);
        let shown = crate::features::display_path(&path);
        let text = crate::text::read(&path).map_err(|error| {
            if error.line > 0 {
                return anyhow!(error.in_file(&shown));
            }
            let siblings = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
            let names = siblings.into_iter().flatten().flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> =
                names.map(|name| name.to_string_lossy().into_owned()).collect();
            names.sort();
            let there = match names.as_slice() {
                [] => "fixtures are in fixtures/ beside features/".to_owned(),
                names => format!("its folder has {}", names.join(", ")),
            };
            anyhow!("{}: {}; {there}", self.step_location(), error.in_file(&shown))
        })?;
        Ok((shown, text))
    }

    /// Parses the objects of a step's doc string.
    pub(crate) fn read_docstring(&self, step: &Step) -> anyhow::Result<Vec<Document>> {
        parse_documents(&self.docstring(step)?).map_err(anyhow::Error::msg)
    }

    /// Parses the patch in a step's doc string.
    pub(crate) fn read_patch(&self, step: &Step) -> anyhow::Result<Document> {
        parse_patch(self.docstring(step)?).map_err(anyhow::Error::msg)
    }

    fn docstring(&self, step: &Step) -> anyhow::Result<SourceText> {
        let text = step.docstring.clone().with_context(|| {
            format!(
                "{}: this step needs a manifest below it: YAML between two lines of three quotes",
                self.step_location()
            )
        })?;
        // The text begins with the line break after its opening quotes.
        let first_line = step.position.line + 1;
        let file = self.case.location.file.clone();
        Ok(SourceText { file, first_line, columns: Columns::Dedented, content: text })
    }

    /// Parses a step's table.
    pub(crate) fn rows<'s>(&self, step: &'s Step, columns: &[&str]) -> anyhow::Result<Table<'s>> {
        let table = step.table.as_ref().with_context(|| {
            let columns = columns.join(", ");
            format!(
                "{}: this step needs a table below it; its columns are {columns}",
                self.step_location()
            )
        })?;
        let row_location = |row: usize| self.row_location(table.position.line, row);
        Ok(Table::parse(&table.rows, columns, &row_location)?)
    }

    /// Builds objects from all rows of a table; an error in any row creates none.
    pub(crate) fn objects_from_table<'s>(
        &self,
        step: &'s Step,
        columns: &[&str],
        make: &dyn Fn(&Row<'s>) -> Result<Vec<Value>, RowError>,
    ) -> anyhow::Result<Vec<Document>> {
        let rows = self.rows(step, columns)?;
        let mut objects = Vec::new();
        for row in &rows.rows {
            let origin = SourceLocation::Line(row.location().to_owned());
            let new = make(row)?.into_iter();
            objects.extend(new.map(|object| Document { location: origin.clone(), object }));
        }
        check_distinct(&objects).map_err(anyhow::Error::msg)?;
        Ok(objects)
    }

    /// Adds the source location of the offending field to an API error.
    pub(crate) async fn locate_error(
        &self,
        document: &Document,
        error: anyhow::Error,
    ) -> anyhow::Error {
        let Document { location: origin, object } = document;
        let refusal = error.downcast_ref::<ApiError>();
        let field = refusal.and_then(|refusal| refusal.field.clone());
        // The server's decoder does not name the quantity that it could not parse.
        let is_quantity_error = refusal.is_some_and(|refusal| {
            ["quantity ", "quantities "].iter().any(|word| refusal.message.contains(word))
        });
        if let (None, true, Some((field, found))) =
            (&field, is_quantity_error, first_invalid_quantity(object))
        {
            let location = origin.of_field(&field);
            return error.context(format!("{location}: {field}: got {found}"));
        }
        let location = origin.of_field(field.as_deref().unwrap_or_default());
        if let Some((field, found)) =
            field.as_deref().and_then(|field| unquoted_scalar(object, field))
            && refusal.is_some_and(|refusal| refusal.message.contains("of type string"))
        {
            let location = origin.of_field(&field);
            let written = origin.scalar_text(&field).unwrap_or_else(|| found.to_string());
            let kind = if found.is_boolean() { "Boolean" } else { "number" };
            return error.context(format!(
                "{location}: {field}: got {written}, which YAML parses as the {kind} {found}, \
                 expected a string: write \"{written}\" in quotes"
            ));
        }
        match (field, refusal.filter(|refusal| refusal.is_unknown_field)) {
            (Some(field), Some(_)) => {
                let text = |name: &str| object[name].as_str().unwrap_or_default();
                let siblings = self.api.sibling_fields(text("apiVersion"), text("kind"), &field);
                let siblings = siblings.await.join(", ");
                anyhow!(
                    "{location}: {}: unknown field {field}, expected one of {siblings}",
                    schedlab_clusters::api::title(object)
                )
            }
            (Some(_), None) | (None, _) => error.context(location),
        }
    }
}

/// The Boolean or number at a field, or directly inside it when the field is a map.
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
