//! Finds without a cluster what a run would reject: invalid tables, manifests and fleets, and queues
//! and nodes that do not exist when a step names them.
//!
//! A case is followed from its first step: which queues and nodes exist after each step. After a
//! step that cannot be read or is undefined they are not known any more, and names are not checked.

mod names;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use cucumber::step::Collection;
use gherkin::Step;
use regex::Regex;
use schedlab_emulator::Fleet;

use crate::features::Case;
use crate::report::{Diagnostic, Diagnostics};
use crate::steps::catalogue::{StepDoc, all_step_docs, step_collection};
use crate::steps::{mentions, never_existed};
use crate::world::World;
use crate::world::manifests::{
    Document, FLEET_COLUMNS, QUEUE_COLUMNS, Row, RowError, SourceLocation, WORKLOAD_COLUMNS,
    check_distinct, nodes_from_row, queue_from_row, workload_from_row,
};
use crate::world::step_source::{StepSource, fixture_documents, fixture_text};
use names::{Names, ObjectKind};
use schedlab_api::{Value, json};

/// Everything that a run of these cases would reject because of its input; each problem once.
pub fn check(cases: &[Case]) -> Vec<Diagnostic> {
    let checker = Checker { steps: step_collection(), catalogue: all_step_docs() };
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for case in cases {
        for problem in checker.case(case) {
            // Steps of a background belong to several cases.
            if seen.insert((problem.file.clone(), problem.line, problem.message.clone())) {
                problems.push(problem);
            }
        }
    }
    Diagnostics::sorted(problems).0
}

struct Checker {
    steps: Collection<World>,
    catalogue: Vec<StepDoc>,
}

impl Checker {
    fn case(&self, case: &Case) -> Vec<Diagnostic> {
        let mut walk = Walk { case, names: Names::default(), problems: Vec::new() };
        for step in &case.steps {
            match self.pattern_of(step) {
                Some(pattern) => walk.step(step, pattern),
                None => walk.names.forget_all(),
            }
        }
        walk.problems
    }

    /// The pattern that a step matches; `None` for an undefined or ambiguous step.
    fn pattern_of(&self, step: &Step) -> Option<&str> {
        let (_, _, location, _) = self.steps.find(step).ok().flatten()?;
        let location = location?;
        self.catalogue.iter().find(|doc| doc.is_at(location)).map(|doc| doc.pattern.as_str())
    }
}

/// The steps of a case up to one of them.
struct Walk<'a> {
    case: &'a Case,
    names: Names,
    problems: Vec<Diagnostic>,
}

impl Walk<'_> {
    fn step(&mut self, step: &Step, pattern: &str) {
        let source = StepSource { case: self.case, step };
        let values = quoted_values(&step.value);
        let value = |at: usize| values.get(at).copied().unwrap_or_default();
        match pattern {
            "a fleet:" => {
                self.table(source, FLEET_COLUMNS, ObjectKind::Node, &nodes_from_row);
            }
            "a fleet of {int} node(s) with {int} GPU(s) each" => {
                let counts = numbers(&step.value);
                let row = source.inline_row(&cells(&["nodes", "gpus"], &counts));
                self.row(source, &row, ObjectKind::Node, &nodes_from_row);
            }
            "a node {string} with {int} GPU(s) is added" => {
                let mut row = cells(&["gpus"], &numbers(&step.value));
                row.push(("pool", value(0)));
                let row = source.inline_row(&row);
                self.row(source, &row, ObjectKind::Node, &nodes_from_row);
            }
            "the fleet {string}" => self.fleet_file(source, value(0)),
            "these queues:" | "these queues are created:" => {
                self.table(source, QUEUE_COLUMNS, ObjectKind::Queue, &queue_objects);
                self.check_parents(source);
            }
            "a queue {string} with a quota of {amount}"
            | "a queue {string} with a quota of {amount} is created" => {
                let row = source.inline_row(&[("queue", value(0))]);
                self.row(source, &row, ObjectKind::Queue, &queue_objects);
            }
            "these workloads are submitted:" => {
                self.table(source, WORKLOAD_COLUMNS, ObjectKind::Other, &workload_objects);
            }
            "the manifest {string} is applied" => {
                let documents = fixture_documents(self.case, value(0), &source.location());
                self.manifest(source, documents, ParentCheck::Required);
            }
            "this manifest is applied:" => {
                self.manifest(source, source.documents(), ParentCheck::Omitted);
            }
            _ if pattern.contains(" submitted to queue {string}") => {
                let counts = numbers(&step.value);
                let mut row = cells(&["pods", "gpus"], &counts);
                row.extend([("name", value(0)), ("queue", value(1))]);
                let row = source.inline_row(&row);
                self.row(source, &row, ObjectKind::Other, &workload_objects);
            }
            _ if pattern.contains(" arrive(s) in queue {string}") => {
                let row = source.inline_row(&[("name", value(0)), ("queue", value(1))]);
                self.row(source, &row, ObjectKind::Other, &workload_objects);
            }
            _ => self.existing_objects(source, pattern, &values),
        }
    }

    /// A step about objects that exist or existed.
    fn existing_objects(&mut self, source: StepSource<'_>, pattern: &str, values: &[&str]) {
        let mut mentioned: Vec<(ObjectKind, String, &str)> = mentions(&source.step.value)
            .filter_map(|mention| {
                let kind = ObjectKind::of_word(mention.kind)?;
                Some((kind, mention.text.to_owned(), mention.name))
            })
            .collect();
        let moved = pattern == "queue {string} moves under {string}";
        if let (true, Some(parent)) = (moved, values.get(1)) {
            mentioned.push((ObjectKind::Queue, format!("queue {parent:?}"), parent));
        }
        for (kind, text, name) in &mentioned {
            if let Some(known) = self.names.unless_known(*kind, name) {
                let message = never_existed(text, name, &known);
                self.problem(source, &message);
                return;
            }
        }
        let Some((kind, _, name)) = mentioned.first() else { return };
        match pattern {
            "queue {string} is deleted" | "node {string} is deleted" => {
                self.names.remove(*kind, name);
            }
            "node {string} is added again" => {
                self.names.add(*kind, &json!({"metadata": {"name": name}}));
            }
            "queue {string} moves under {string}" => {
                let parent = values.get(1);
                let spec = json!({"parentQueue": parent});
                self.names.add(*kind, &json!({"metadata": {"name": name}, "spec": spec}));
            }
            _ => {}
        }
    }

    fn table(
        &mut self,
        source: StepSource<'_>,
        columns: &[&str],
        kind: ObjectKind,
        make: &dyn Fn(&Row<'_>) -> Result<Vec<Value>, RowError>,
    ) {
        let table = match source.table(columns) {
            Ok(table) => table,
            Err(error) => return self.unreadable(source, kind, &error),
        };
        let mut documents = Vec::new();
        for row in &table.rows {
            let location = SourceLocation::Line(row.location().to_owned());
            let objects = self.row(source, row, kind, make).into_iter();
            documents.extend(objects.map(|object| Document { location: location.clone(), object }));
        }
        if let Err(message) = check_distinct(&documents) {
            self.problem(source, &message);
        }
    }

    /// The objects of a row; none when it is invalid.
    fn row(
        &mut self,
        source: StepSource<'_>,
        row: &Row<'_>,
        kind: ObjectKind,
        make: &dyn Fn(&Row<'_>) -> Result<Vec<Value>, RowError>,
    ) -> Vec<Value> {
        let objects = match make(row) {
            Ok(objects) => objects,
            Err(error) => {
                self.unreadable(source, kind, &error.into());
                return Vec::new();
            }
        };
        for object in &objects {
            self.names.add(kind, object);
        }
        if kind == ObjectKind::Other
            && let Err(error) = self.names.existing().check(row)
        {
            self.problem(source, &error.to_string());
        }
        objects
    }

    fn check_parents(&mut self, source: StepSource<'_>) {
        let Ok(table) = source.table(QUEUE_COLUMNS) else { return };
        for row in &table.rows {
            if let Some(Err(error)) = self.names.queue_tree().map(|tree| tree.check(row)) {
                self.problem(source, &error.to_string());
            }
        }
    }

    fn fleet_file(&mut self, source: StepSource<'_>, file: &str) {
        let text = fixture_text(self.case, file, &source.location());
        let fleet = text.and_then(|(path, text)| Ok(Fleet::parse(&path, &text)?));
        match fleet {
            Ok(fleet) => {
                for node in fleet.nodes() {
                    self.names.add(ObjectKind::Node, node);
                }
            }
            Err(error) => self.unreadable(source, ObjectKind::Node, &error),
        }
    }

    fn manifest(
        &mut self,
        source: StepSource<'_>,
        documents: anyhow::Result<Vec<Document>>,
        parents: ParentCheck,
    ) {
        let documents = match documents {
            Ok(documents) => documents,
            Err(error) => {
                self.names.forget_all();
                return self.problem(source, &format!("{error:#}"));
            }
        };
        for Document { object, .. } in &documents {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            match text("kind") {
                "Queue" if text("apiVersion").starts_with("scheduling.run.ai/") => {
                    self.names.add(ObjectKind::Queue, object);
                }
                "Node" => self.names.add(ObjectKind::Node, object),
                _ => {}
            }
        }
        if parents == ParentCheck::Omitted {
            return;
        }
        for document in documents.iter().filter(|document| document.object["kind"] == "Queue") {
            let checked = self.names.queue_tree().map(|tree| tree.check_document(document));
            if let Some(Err(message)) = checked {
                self.problem(source, &message);
            }
        }
    }

    /// Reports an error of a step that would have created objects of a kind.
    fn unreadable(&mut self, source: StepSource<'_>, kind: ObjectKind, error: &anyhow::Error) {
        self.names.forget(kind);
        self.problem(source, &format!("{error:#}"));
    }

    /// Reports a message at its own line of the feature, or at the step.
    fn problem(&mut self, source: StepSource<'_>, message: &str) {
        let file = &self.case.location.file;
        let own = message.strip_prefix(&format!("{file}:")).and_then(|rest| {
            let (line, message) = rest.split_once(": ")?;
            Some((line.parse().ok()?, message))
        });
        let (line, message) = own.unwrap_or((source.step.position.line, message));
        self.problems.push(Diagnostic::new(file, line, message.to_owned()));
    }
}

/// Whether the parents of a manifest's queues must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParentCheck {
    Required,
    Omitted,
}

fn queue_objects(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    Ok(vec![queue_from_row(row)?])
}

/// The scheduler's name does not change whether a row is valid.
fn workload_objects(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    workload_from_row(row, "scheduler")
}

/// The quoted texts in a sentence.
fn quoted_values(sentence: &str) -> Vec<&str> {
    static QUOTED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""([^"]*)"|'([^']*)'"#).expect("the pattern is valid"));
    let texts = QUOTED.captures_iter(sentence);
    texts.filter_map(|found| found.get(1).or_else(|| found.get(2))).map(|m| m.as_str()).collect()
}

/// The numbers of a sentence outside quotes.
fn numbers(sentence: &str) -> Vec<&str> {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""[^"]*"|'[^']*'|(-?[0-9]+)"#).expect("the pattern is valid")
    });
    let words = WORDS.captures_iter(sentence);
    words.filter_map(|found| found.get(1)).map(|number| number.as_str()).collect()
}

fn cells<'s>(columns: &[&'s str], values: &[&'s str]) -> Vec<(&'s str, &'s str)> {
    columns.iter().copied().zip(values.iter().copied()).collect()
}

#[cfg(test)]
mod tests;
