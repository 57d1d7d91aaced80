//! What a step brings along: its table, its doc string and the fixture that it names. No cluster is
//! needed. Each parsed object keeps its source location, and errors about it quote that location.

use anyhow::{Context as _, anyhow};
use gherkin::Step;

use super::manifests::{Columns, Document, Row, SourceText, Table, parse_documents, parse_patch};
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
    /// `file:line` of the step.
    pub(crate) fn location(&self) -> String {
        format!("{}:{}", self.case.location.file, self.step.position.line)
    }

    /// The values in the step's sentence as a table row.
    pub(crate) fn inline_row<'s>(&self, cells: &[(&'s str, &'s str)]) -> Row<'s> {
        Row::inline(self.location(), cells)
    }

    /// Parses the table, whose columns must be among these.
    pub(crate) fn table(&self, columns: &[&str]) -> anyhow::Result<Table<'a>> {
        let table = self.step.table.as_ref().with_context(|| {
            let columns = columns.join(", ");
            format!(
                "{}: this step needs a table below it; its columns are {columns}",
                self.location()
            )
        })?;
        let lines = self.case.tables.get(&table.position.line);
        let row_location = |row: usize| {
            let line = lines.and_then(|lines| lines.get(row)).copied();
            let line = line.unwrap_or(table.position.line + row);
            format!("{}:{line}", self.case.location.file)
        };
        Ok(Table::parse(&table.rows, columns, &row_location)?)
    }

    /// Parses the objects of the doc string.
    pub(crate) fn documents(&self) -> anyhow::Result<Vec<Document>> {
        parse_documents(&self.docstring()?).map_err(anyhow::Error::msg)
    }

    /// Parses the patch in the doc string.
    pub(crate) fn patch(&self) -> anyhow::Result<Document> {
        parse_patch(self.docstring()?).map_err(anyhow::Error::msg)
    }

    fn docstring(&self) -> anyhow::Result<SourceText> {
        let text = self.step.docstring.clone().with_context(|| {
            format!(
                "{}: this step needs a manifest below it: YAML between two lines of three quotes",
                self.location()
            )
        })?;
        // The text begins with the line break after its opening quotes.
        let first_line = self.step.position.line + 1;
        let file = self.case.location.file.clone();
        Ok(SourceText { file, first_line, columns: Columns::Dedented, content: text })
    }
}

/// Parses the objects in a fixture file to which the step at `location` refers.
pub(crate) fn fixture_documents(
    case: &Case,
    name: &str,
    location: &str,
) -> anyhow::Result<Vec<Document>> {
    let (file, content) = fixture_text(case, name, location)?;
    let whole = SourceText { file, first_line: 1, columns: Columns::AsInFile, content };
    parse_documents(&whole).map_err(anyhow::Error::msg)
}

/// The displayed path and the text of a fixture file to which the step at `location` refers.
pub(crate) fn fixture_text(
    case: &Case,
    name: &str,
    location: &str,
) -> anyhow::Result<(String, String)> {
    let path = case.base_folder().join("fixtures").join(name);
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
        anyhow!("{location}: {}; {there}", error.in_file(&shown))
    })?;
    Ok((shown, text))
}
