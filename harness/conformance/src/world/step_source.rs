//! What a step brings along: its table, its doc string and the fixture that it names. No cluster is
//! needed. Each parsed object keeps its source location, and errors about it quote that location.

use anyhow::{Context as _, anyhow};
use gherkin::Step;

use super::manifests::{
    ColumnAlignment, ManifestDocument, Row, SourceText, Table, parse_documents,
    parse_patch_document,
};
use crate::features::Case;

/// A step of a case, as the source of tables, documents and locations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSource<'a> {
    /// The case that contains the step.
    pub(crate) case: &'a Case,
    /// The step itself.
    pub(crate) step: &'a Step,
}

impl<'a> StepSource<'a> {
    /// Where the step is: `file:line`.
    pub(crate) fn step_location(&self) -> String {
        format!("{}:{}", self.case.location.file, self.step.position.line)
    }

    /// The values in the step's sentence as a table row.
    pub(crate) fn inline_row<'s>(&self, cells: &[(&'s str, &'s str)]) -> Row<'s> {
        Row::from_cells(self.step_location(), cells)
    }

    /// The table below the step, whose columns must be among `columns`.
    pub(crate) fn parse_table(&self, columns: &[&str]) -> anyhow::Result<Table<'a>> {
        let table = self.step.table.as_ref().with_context(|| {
            let columns = columns.join(", ");
            format!(
                "{}: this step needs a table below it; its columns are {columns}",
                self.step_location()
            )
        })?;
        let lines = self.case.tables.get(&table.position.line);
        let row_location = |row: usize| {
            let line = lines.and_then(|lines| lines.get(row)).copied();
            let line = line.unwrap_or(table.position.line + row);
            format!("{}:{line}", self.case.location.file)
        };
        Ok(Table::parse_table(&table.rows, columns, &row_location)?)
    }

    /// Parses the objects in the step's doc string.
    pub(crate) fn docstring_documents(&self) -> anyhow::Result<Vec<ManifestDocument>> {
        parse_documents(&self.docstring_text()?).map_err(anyhow::Error::msg)
    }

    /// Parses the patch in the step's doc string.
    pub(crate) fn docstring_patch(&self) -> anyhow::Result<ManifestDocument> {
        parse_patch_document(self.docstring_text()?).map_err(anyhow::Error::msg)
    }

    fn docstring_text(&self) -> anyhow::Result<SourceText> {
        let text = self.step.docstring.clone().with_context(|| {
            format!(
                "{}: this step needs a manifest below it: YAML between two lines of three quotes",
                self.step_location()
            )
        })?;
        // The text begins with the line break after its opening quotes.
        let first_line = self.step.position.line + 1;
        let file = self.case.location.file.clone();
        Ok(SourceText { file, first_line, columns: ColumnAlignment::Dedented, content: text })
    }
}

/// Parses the objects in a fixture file to which the step at `location` refers.
pub(crate) fn fixture_documents(
    case: &Case,
    name: &str,
    location: &str,
) -> anyhow::Result<Vec<ManifestDocument>> {
    let (file, content) = fixture_text(case, name, location)?;
    let whole = SourceText { file, first_line: 1, columns: ColumnAlignment::AsInFile, content };
    parse_documents(&whole).map_err(anyhow::Error::msg)
}

/// The displayed path and the text of a fixture file to which the step at `location` refers.
pub(crate) fn fixture_text(
    case: &Case,
    name: &str,
    location: &str,
) -> anyhow::Result<(String, String)> {
    let path = case.fixture_path(name);
    let shown = crate::features::display_path(&path);
    let text = case.files.read_text(&path).map_err(|error| {
        if error.line > 0 {
            return anyhow!(error.message_with_file(&shown));
        }
        let names = path.parent().map(|folder| case.files.names_in(folder)).unwrap_or_default();
        let there = match names.as_slice() {
            [] => "fixtures are in fixtures/ beside features/".to_owned(),
            names => format!("its folder has {}", names.join(", ")),
        };
        anyhow!("{location}: {}; {there}", error.message_with_file(&shown))
    })?;
    Ok((shown, text))
}
