//! What steps read: tables, doc strings, fixtures. Everything that is read knows where it was
//! written, and whoever refuses it is quoted with that place.

use anyhow::{Context as _, anyhow};
use gherkin::Step;
use schedlab_json::Value;

use super::World;
use crate::api::Refusal;
use crate::objects::{
    Columns, Document, Origin, Row, RowError, Rows, Text, bad_quantity, change, distinct, documents,
};

impl World {
    /// The step that is run now stands at this line.
    pub(crate) fn at_line(&mut self, line: usize) {
        self.line = line;
        self.found = None;
    }

    /// `file:line` of the step that is run.
    pub(crate) fn here(&self) -> String {
        format!("{}:{}", self.case.place.file, self.line)
    }

    /// What a sentence says, as if it stood in a table.
    pub(crate) fn sentence<'s>(&self, cells: &[(&'s str, &'s str)]) -> Row<'s> {
        Row::of(self.here(), cells)
    }

    /// Objects that the step itself calls for.
    pub(crate) fn written_here(&self, objects: Vec<Value>) -> Vec<Document> {
        let origin = Origin::Line(self.here());
        objects.into_iter().map(|object| Document { origin: origin.clone(), object }).collect()
    }

    /// The objects of a fixture.
    pub(crate) fn read_fixture(&self, name: &str) -> anyhow::Result<Vec<Document>> {
        let (file, text) = self.fixture_text(name)?;
        let whole = Text { file, first_line: 1, columns: Columns::Kept, content: text };
        documents(&whole).map_err(anyhow::Error::msg)
    }

    /// The name and text of a fixture.
    pub(crate) fn fixture_text(&self, name: &str) -> anyhow::Result<(String, String)> {
        let path = self.fixture(name);
        let shown = crate::features::shown(&path);
        let text = crate::text::read(&path).map_err(|error| {
            if error.line > 0 {
                return anyhow!(error.of(&shown));
            }
            let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
            let names = beside.into_iter().flatten().flatten().map(|entry| entry.file_name());
            let mut names: Vec<String> =
                names.map(|name| name.to_string_lossy().into_owned()).collect();
            names.sort();
            let there = match names.as_slice() {
                [] => "fixtures stand in fixtures/ beside features/".to_owned(),
                names => format!("in its folder are {}", names.join(", ")),
            };
            anyhow!("{}: {}; {there}", self.here(), error.of(&shown))
        })?;
        Ok((shown, text))
    }

    /// The objects of a step's doc string.
    pub(crate) fn read_docstring(&self, step: &Step) -> anyhow::Result<Vec<Document>> {
        documents(&self.docstring(step)?).map_err(anyhow::Error::msg)
    }

    /// The fields in a step's doc string, which an object that is there shall have.
    pub(crate) fn read_change(&self, step: &Step) -> anyhow::Result<Document> {
        change(self.docstring(step)?).map_err(anyhow::Error::msg)
    }

    fn docstring(&self, step: &Step) -> anyhow::Result<Text> {
        let text = step.docstring.clone().with_context(|| {
            format!(
                "{}: this step needs a manifest below it: YAML between two lines of three quotes",
                self.here()
            )
        })?;
        // The text begins with the end of the line of its quotes.
        let first_line = step.position.line + 1;
        let file = self.case.place.file.clone();
        Ok(Text { file, first_line, columns: Columns::Moved, content: text })
    }

    /// The rows of a step's table.
    pub(crate) fn rows<'s>(&self, step: &'s Step, columns: &[&str]) -> anyhow::Result<Rows<'s>> {
        let table = step.table.as_ref().with_context(|| {
            let columns = columns.join(", ");
            format!("{}: this step needs a table below it; its columns are {columns}", self.here())
        })?;
        let place = |row: usize| self.place(table.position.line, row);
        Ok(Rows::read(&table.rows, columns, &place)?)
    }

    /// Objects from all rows of a table, none made unless all can be.
    pub(crate) fn objects_of<'s>(
        &self,
        step: &'s Step,
        columns: &[&str],
        make: &dyn Fn(&Row<'s>) -> Result<Vec<Value>, RowError>,
    ) -> anyhow::Result<Vec<Document>> {
        let rows = self.rows(step, columns)?;
        let mut objects = Vec::new();
        for row in &rows.rows {
            let origin = Origin::Line(row.place().to_owned());
            let new = make(row)?.into_iter();
            objects.extend(new.map(|object| Document { origin: origin.clone(), object }));
        }
        distinct(&objects).map_err(anyhow::Error::msg)?;
        Ok(objects)
    }

    /// Why an object was refused, with the place of the field that is wrong.
    pub(crate) async fn told(&self, document: &Document, error: anyhow::Error) -> anyhow::Error {
        let Document { origin, object } = document;
        let refusal = error.downcast_ref::<Refusal>();
        let field = refusal.and_then(|refusal| refusal.field.clone());
        // The server's decoder does not say which quantity it could not read.
        let unread = refusal.is_some_and(|refusal| {
            ["quantity ", "quantities "].iter().any(|word| refusal.message.contains(word))
        });
        if let (None, true, Some((field, found))) = (&field, unread, bad_quantity(object)) {
            let place = origin.of(&field);
            return error.context(format!("{place}: {field}: found {found}"));
        }
        let place = origin.of(field.as_deref().unwrap_or_default());
        if let Some((field, found)) = field.as_deref().and_then(|field| unquoted(object, field))
            && refusal.is_some_and(|refusal| refusal.message.contains("of type string"))
        {
            let place = origin.of(&field);
            let written = origin.written(&field).unwrap_or_else(|| found.to_string());
            let kind = if found.is_boolean() { "truth value" } else { "number" };
            return error.context(format!(
                "{place}: {field}: found {written}, which YAML reads as the {kind} {found}, \
                 allowed is a text: write \"{written}\" in quotes"
            ));
        }
        match (field, refusal.filter(|refusal| refusal.unknown)) {
            (Some(field), Some(_)) => {
                let text = |name: &str| object[name].as_str().unwrap_or_default();
                let beside = self.api.fields_beside(text("apiVersion"), text("kind"), &field);
                let beside = beside.await.join(", ");
                anyhow!(
                    "{place}: {}: found the unknown field {field}, allowed beside it are {beside}",
                    crate::api::title(object)
                )
            }
            (Some(_), None) | (None, _) => error.context(place),
        }
    }
}

/// The truth value or number that stands at a field, or in the map that the field is.
fn unquoted(object: &Value, field: &str) -> Option<(String, Value)> {
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
