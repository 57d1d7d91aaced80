//! Finds without a cluster what a run would reject: invalid tables, manifests and fleets, and
//! queues and nodes that do not exist when a step names them.
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
use crate::steps::{mentions_in_sentence, never_existed_message};
use crate::world::World;
use crate::world::manifests::{
    FLEET_COLUMNS, ManifestDocument, QUEUE_COLUMNS, Row, RowError, SourceLocation,
    WORKLOAD_COLUMNS, check_no_duplicates, nodes_from_row, queue_from_row,
    workload_objects_from_row,
};
use crate::world::step_source::{StepSource, fixture_documents, fixture_text};
use names::{KnownNames, ObjectKind};
use schedlab_api::{Value, json};

/// Everything in the input of these cases that a run would reject; each problem once.
pub fn check_cases(cases: &[Case]) -> Vec<Diagnostic> {
    let checker = StaticChecker { steps: step_collection(), catalogue: all_step_docs() };
    let mut seen = BTreeSet::new();
    let mut problems = Vec::new();
    for case in cases {
        for problem in checker.check_case(case) {
            // Steps of a background belong to several cases.
            if seen.insert((problem.file.clone(), problem.line, problem.message.clone())) {
                problems.push(problem);
            }
        }
    }
    Diagnostics::sorted(problems).0
}

struct StaticChecker {
    steps: Collection<World>,
    catalogue: Vec<StepDoc>,
}

impl StaticChecker {
    fn check_case(&self, case: &Case) -> Vec<Diagnostic> {
        let mut walk = CaseWalk { case, names: KnownNames::default(), problems: Vec::new() };
        for step in &case.steps {
            match self.pattern_of_step(step) {
                Some(pattern) => walk.check_step(step, pattern),
                None => walk.names.forget_all_kinds(),
            }
        }
        walk.problems
    }

    /// The catalogue's pattern that a step matches; `None` for an undefined or ambiguous step.
    fn pattern_of_step(&self, step: &Step) -> Option<&str> {
        let (_, _, location, _) = self.steps.find(step).ok().flatten()?;
        let location = location?;
        self.catalogue.iter().find(|doc| doc.is_at(location)).map(|doc| doc.pattern.as_str())
    }
}

/// Walks through the steps of a case and follows which names exist.
struct CaseWalk<'a> {
    case: &'a Case,
    names: KnownNames,
    problems: Vec<Diagnostic>,
}

impl CaseWalk<'_> {
    fn check_step(&mut self, step: &Step, pattern: &str) {
        let source = StepSource { case: self.case, step };
        let values = quoted_values(&step.value);
        let value = |at: usize| values.get(at).copied().unwrap_or_default();
        match pattern {
            "a fleet:" => {
                self.check_table(source, FLEET_COLUMNS, ObjectKind::Node, &nodes_from_row);
            }
            "a fleet of {int} node(s) with {int} GPU(s) each" => {
                let counts = numbers_in_sentence(&step.value);
                let row = source.inline_row(&named_cells(&["nodes", "gpus"], &counts));
                self.check_row(source, &row, ObjectKind::Node, &nodes_from_row);
            }
            "a node {string} with {int} GPU(s) is added" => {
                let mut row = named_cells(&["gpus"], &numbers_in_sentence(&step.value));
                row.push(("pool", value(0)));
                let row = source.inline_row(&row);
                self.check_row(source, &row, ObjectKind::Node, &nodes_from_row);
            }
            // Its queues and nodes are in a file that is read when the step runs.
            "the case {string}" => self.names.forget_all_kinds(),
            "the fleet {string}" => self.check_fleet_file(source, value(0)),
            "these queues:" | "these queues are created:" => {
                self.check_table(source, QUEUE_COLUMNS, ObjectKind::Queue, &queue_objects_of_row);
                self.check_parents(source);
            }
            "a queue {string} with a quota of {amount}"
            | "a queue {string} with a quota of {amount} is created" => {
                let row = source.inline_row(&[("queue", value(0))]);
                self.check_row(source, &row, ObjectKind::Queue, &queue_objects_of_row);
            }
            "these workloads are submitted:" => {
                self.check_table(
                    source,
                    WORKLOAD_COLUMNS,
                    ObjectKind::Other,
                    &workload_objects_of_row,
                );
            }
            "the manifest {string} is applied" => {
                let documents = fixture_documents(self.case, value(0), &source.step_location());
                self.check_manifest(source, documents, ParentCheck::Required);
            }
            "this manifest is applied:" => {
                self.check_manifest(source, source.docstring_documents(), ParentCheck::Omitted);
            }
            _ if pattern.contains(" submitted to queue {string}") => {
                let counts = numbers_in_sentence(&step.value);
                let mut row = named_cells(&["pods", "gpus"], &counts);
                row.extend([("name", value(0)), ("queue", value(1))]);
                let row = source.inline_row(&row);
                self.check_row(source, &row, ObjectKind::Other, &workload_objects_of_row);
            }
            _ if pattern.contains(" arrive(s) in queue {string}") => {
                let row = source.inline_row(&[("name", value(0)), ("queue", value(1))]);
                self.check_row(source, &row, ObjectKind::Other, &workload_objects_of_row);
            }
            _ => self.check_existing_objects(source, pattern, &values),
        }
    }

    /// Checks that the objects to which a step refers exist or existed.
    fn check_existing_objects(&mut self, source: StepSource<'_>, pattern: &str, values: &[&str]) {
        let mut mentioned: Vec<(ObjectKind, String, &str)> =
            mentions_in_sentence(&source.step.value)
                .filter_map(|mention| {
                    let kind = ObjectKind::from_word(mention.kind)?;
                    Some((kind, mention.text.to_owned(), mention.name))
                })
                .collect();
        let moved = pattern == "queue {string} moves under {string}";
        if let (true, Some(parent)) = (moved, values.get(1)) {
            mentioned.push((ObjectKind::Queue, format!("queue {parent:?}"), parent));
        }
        for (kind, text, name) in &mentioned {
            if let Some(known) = self.names.all_names_if_unknown(*kind, name) {
                let message = never_existed_message(text, name, &known);
                self.add_problem(source, &message);
                return;
            }
        }
        let Some((kind, _, name)) = mentioned.first() else { return };
        match pattern {
            "queue {string} is deleted" | "node {string} is deleted" => {
                self.names.remove_name(*kind, name);
            }
            "node {string} is added again" => {
                self.names.add_object(*kind, &json!({"metadata": {"name": name}}));
            }
            "queue {string} moves under {string}" => {
                let parent = values.get(1);
                let spec = json!({"parentQueue": parent});
                self.names.add_object(*kind, &json!({"metadata": {"name": name}, "spec": spec}));
            }
            _ => {}
        }
    }

    fn check_table(
        &mut self,
        source: StepSource<'_>,
        columns: &[&str],
        kind: ObjectKind,
        make: &dyn Fn(&Row<'_>) -> Result<Vec<Value>, RowError>,
    ) {
        let table = match source.parse_table(columns) {
            Ok(table) => table,
            Err(error) => return self.forget_unreadable(source, kind, &error),
        };
        let mut documents = Vec::new();
        for row in &table.rows {
            let location = SourceLocation::Line(row.row_location().to_owned());
            let objects = self.check_row(source, row, kind, make).into_iter();
            documents.extend(
                objects.map(|object| ManifestDocument { location: location.clone(), object }),
            );
        }
        if let Err(message) = check_no_duplicates(&documents) {
            self.add_problem(source, &message);
        }
    }

    /// The objects of a table row; none if the row is invalid.
    fn check_row(
        &mut self,
        source: StepSource<'_>,
        row: &Row<'_>,
        kind: ObjectKind,
        make: &dyn Fn(&Row<'_>) -> Result<Vec<Value>, RowError>,
    ) -> Vec<Value> {
        let objects = match make(row) {
            Ok(objects) => objects,
            Err(error) => {
                self.forget_unreadable(source, kind, &error.into());
                return Vec::new();
            }
        };
        for object in &objects {
            self.names.add_object(kind, object);
        }
        if kind == ObjectKind::Other
            && let Err(error) = self.names.existing_names().check_row(row)
        {
            self.add_problem(source, &error.to_string());
        }
        objects
    }

    fn check_parents(&mut self, source: StepSource<'_>) {
        let Ok(table) = source.parse_table(QUEUE_COLUMNS) else { return };
        for row in &table.rows {
            if let Some(Err(error)) = self.names.queue_tree().map(|tree| tree.check_row(row)) {
                self.add_problem(source, &error.to_string());
            }
        }
    }

    fn check_fleet_file(&mut self, source: StepSource<'_>, file: &str) {
        let text = fixture_text(self.case, file, &source.step_location());
        let fleet = text.and_then(|(path, text)| Ok(Fleet::parse(&path, &text)?));
        match fleet {
            Ok(fleet) => {
                for node in fleet.nodes() {
                    self.names.add_object(ObjectKind::Node, node);
                }
            }
            Err(error) => self.forget_unreadable(source, ObjectKind::Node, &error),
        }
    }

    fn check_manifest(
        &mut self,
        source: StepSource<'_>,
        documents: anyhow::Result<Vec<ManifestDocument>>,
        parents: ParentCheck,
    ) {
        let documents = match documents {
            Ok(documents) => documents,
            Err(error) => {
                self.names.forget_all_kinds();
                return self.add_problem(source, &format!("{error:#}"));
            }
        };
        for ManifestDocument { object, .. } in &documents {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            match text("kind") {
                "Queue" if text("apiVersion").starts_with("scheduling.run.ai/") => {
                    self.names.add_object(ObjectKind::Queue, object);
                }
                "Node" => self.names.add_object(ObjectKind::Node, object),
                _ => {}
            }
        }
        if parents == ParentCheck::Omitted {
            return;
        }
        for document in documents.iter().filter(|document| document.object["kind"] == "Queue") {
            let checked = self.names.queue_tree().map(|tree| tree.check_document(document));
            if let Some(Err(message)) = checked {
                self.add_problem(source, &message);
            }
        }
    }

    /// Reports an error in a step that creates objects, and forgets which names of their kind
    /// exist.
    fn forget_unreadable(
        &mut self,
        source: StepSource<'_>,
        kind: ObjectKind,
        error: &anyhow::Error,
    ) {
        self.names.forget_kind(kind);
        self.add_problem(source, &format!("{error:#}"));
    }

    /// Reports a message at the line of the feature that the message names, or else at the step.
    fn add_problem(&mut self, source: StepSource<'_>, message: &str) {
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

fn queue_objects_of_row(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    Ok(vec![queue_from_row(row)?])
}

/// The objects of a row of workloads. The name of the scheduler does not matter here, since it does
/// not change whether a row is valid.
fn workload_objects_of_row(row: &Row<'_>) -> Result<Vec<Value>, RowError> {
    workload_objects_from_row(row, "scheduler")
}

/// The quoted texts in a sentence.
fn quoted_values(sentence: &str) -> Vec<&str> {
    static QUOTED: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#""([^"]*)"|'([^']*)'"#).expect("the pattern is valid"));
    let texts = QUOTED.captures_iter(sentence);
    texts.filter_map(|found| found.get(1).or_else(|| found.get(2))).map(|m| m.as_str()).collect()
}

/// The numbers in a sentence, except those inside quotes.
fn numbers_in_sentence(sentence: &str) -> Vec<&str> {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#""[^"]*"|'[^']*'|(-?[0-9]+)"#).expect("the pattern is valid")
    });
    let words = WORDS.captures_iter(sentence);
    words.filter_map(|found| found.get(1)).map(|number| number.as_str()).collect()
}

fn named_cells<'s>(columns: &[&'s str], values: &[&'s str]) -> Vec<(&'s str, &'s str)> {
    columns.iter().copied().zip(values.iter().copied()).collect()
}

#[cfg(test)]
mod tests;
