//! What steps write into the cluster: whole or not at all, and remembered by name.

use anyhow::Context as _;
use gherkin::Step;
use serde_json::Value;

use super::World;
use crate::api::Applied;
use crate::objects::{Row, RowError, Rows, documents};
use crate::view::WORKLOAD;

impl World {
    /// Applies objects in their order. When one is refused, those made before it go again.
    pub(crate) async fn submit(&mut self, objects: Vec<Value>) -> anyhow::Result<()> {
        self.rest = None;
        let mut made: Vec<Value> = Vec::new();
        for object in &objects {
            match self.api.apply(object).await {
                Ok(Applied::Created) => made.push(object.clone()),
                Ok(Applied::Changed) => {}
                Err(error) => {
                    self.withdraw(&made).await?;
                    return Err(error);
                }
            }
        }
        for object in objects {
            let label = object["metadata"]["labels"][WORKLOAD].as_str();
            let name = label.or_else(|| object["metadata"]["name"].as_str()).unwrap_or_default();
            let known = self.submitted.entry(name.to_owned()).or_default();
            if !known.contains(&object) {
                known.push(object);
            }
        }
        Ok(())
    }

    /// The objects that were submitted under a name.
    pub(crate) fn submitted(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        self.submitted.get(name).cloned().with_context(|| {
            let names: Vec<&str> = self.submitted.keys().map(String::as_str).collect();
            format!("nothing was submitted as {name:?}; submitted were: {}", names.join(", "))
        })
    }

    /// Deletes objects that were submitted, the last first; those that are gone stay so.
    pub(crate) async fn withdraw(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        self.rest = None;
        for object in objects.iter().rev() {
            let path = self.api.path(object).await?;
            match self.api.delete(&path).await {
                Ok(_) => {}
                Err(error) if crate::api::is_not_found(&error) => {}
                Err(error) => return Err(crate::api::refusal(error)),
            }
        }
        Ok(())
    }

    /// Changes one object by JSON merge.
    pub(crate) async fn patch(&mut self, at: &str, patch: &Value) -> anyhow::Result<()> {
        self.rest = None;
        let patched = self.api.merge(at, patch).await;
        patched.map(drop).map_err(crate::api::refusal).with_context(|| at.to_owned())
    }

    /// Deletes one object.
    pub(crate) async fn delete(&mut self, path: &str) -> anyhow::Result<()> {
        self.rest = None;
        let deleted = self.api.delete(path).await;
        deleted.map(drop).map_err(crate::api::refusal).with_context(|| path.to_owned())
    }

    /// The objects of a fixture.
    pub(crate) fn read_fixture(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let (path, text) = self.fixture_text(name)?;
        documents(&path, 1, &text).map_err(anyhow::Error::msg)
    }

    /// The name and text of a fixture.
    pub(crate) fn fixture_text(&self, name: &str) -> anyhow::Result<(String, String)> {
        let path = self.fixture(name);
        let shown = crate::features::shown(&path);
        let text = std::fs::read_to_string(&path).map_err(|error| {
            anyhow::anyhow!("{shown}: {error}; fixtures stand in fixtures/ beside features/")
        })?;
        Ok((shown, text))
    }

    /// The objects of a step's doc string.
    pub(crate) fn read_docstring(&self, step: &Step) -> anyhow::Result<Vec<Value>> {
        let text = step.docstring.as_ref().context(
            "this step needs a manifest below it: YAML between two lines of three quotes",
        )?;
        // Its first line is that after the quotes.
        let line = step.position.line + 1;
        documents(&self.case.place.file, line, text).map_err(anyhow::Error::msg)
    }

    /// The rows of a step's table.
    pub(crate) fn rows<'s>(&self, step: &'s Step, columns: &[&str]) -> anyhow::Result<Rows<'s>> {
        let table = step.table.as_ref().with_context(|| {
            format!("this step needs a table below it; its columns are {}", columns.join(", "))
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
    ) -> anyhow::Result<Vec<Value>> {
        let rows = self.rows(step, columns)?;
        let mut objects = Vec::new();
        for row in &rows.rows {
            objects.extend(make(row)?);
        }
        Ok(objects)
    }
}
