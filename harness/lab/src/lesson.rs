//! A lesson: one Markdown file with front matter, sections and a feature.
//!
//! The feature's background prepares the cluster, and each of its scenarios is a task: its `Then`
//! steps hold once the learner has solved it.

mod checks;
mod reader;

use schedlab_conformance::features::Case;
use schedlab_conformance::report::Diagnostics;

use crate::commands::LabCommand;
use crate::computed_text::ComputedText;
use crate::expression::Expression;

/// How many hints a lesson has.
pub const HINTS: usize = 3;

/// A lesson that was read without an error.
#[derive(Debug)]
pub struct Lesson {
    /// The file, as messages name it.
    pub file: String,
    /// The text of the file.
    pub source: String,
    /// The short name with which the lesson is started.
    pub id: String,
    /// The title.
    pub title: String,
    /// How long the lesson takes, in minutes.
    pub minutes: u32,
    /// The lessons that come before.
    pub requires: Vec<String>,
    /// The namespace of the learner.
    pub namespace: String,
    /// What the learner may change of the objects that the lesson prepares.
    pub may_change: Vec<MayChange>,
    /// What the learner can do afterwards.
    pub goal: String,
    /// What the learner needs to know.
    pub background: String,
    /// What to do.
    pub task: String,
    /// What the original exercise could not show, and why.
    pub original: String,
    /// The manifests in the lesson.
    pub files: Vec<LessonFile>,
    /// The tasks, one for each scenario.
    pub tasks: Vec<Task>,
    /// The hints, from vague to exact.
    pub hints: Vec<String>,
    /// The solution as the learner reads it.
    pub solution: String,
    /// The questions.
    pub quiz: Vec<Question>,
    /// What is said when a claim does not hold yet.
    pub advice: Vec<Advice>,
    /// Wrong attempts, with what is said about them.
    pub mistakes: Vec<Mistake>,
}

/// A manifest in a lesson.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LessonFile {
    /// The name of the file.
    pub name: String,
    /// The manifest.
    pub text: String,
    /// Whether the learner gets it. Those of setup, solution and mistakes are kept back.
    pub is_given: bool,
    /// Line of the block in the lesson.
    pub line: usize,
}

/// A task: a scenario of the lesson's feature.
#[derive(Clone, Debug)]
pub struct Task {
    /// The scenario.
    pub case: Case,
    /// How many of its steps prepare the cluster.
    pub prepared: usize,
    /// The commands that solve it.
    pub solution: Vec<LabCommand>,
}

impl Task {
    /// What the task is about.
    pub fn title(&self) -> &str {
        &self.case.name
    }

    /// The steps that prepare the cluster; the same for all tasks.
    pub fn preparation(&self) -> &[gherkin::Step] {
        &self.case.steps[..self.prepared]
    }

    /// The steps that hold when the task is solved.
    pub fn claims(&self) -> &[gherkin::Step] {
        &self.case.steps[self.prepared..]
    }
}

/// A question whose answer is computed from the cluster.
#[derive(Debug)]
pub struct Question {
    /// The question.
    pub text: String,
    /// The number of the task, from 1. The question is about the cluster at the moment at which this
    /// task was solved.
    pub task: usize,
    /// The accepted answers.
    pub answers: Expression,
    /// Why it is the answer.
    pub why: ComputedText,
    /// Line in the lesson.
    pub line: usize,
}

/// What is said about an unsolved task in a cluster in which a condition holds.
#[derive(Debug)]
pub struct Advice {
    /// The condition.
    pub condition: Expression,
    /// What is said.
    pub text: ComputedText,
    /// Line in the lesson.
    pub line: usize,
}

/// A part of a prepared object that a task changes. Everything else of what the lesson prepares must
/// stay as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MayChange {
    /// The kind in lower case, such as `queue`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The field, such as `spec.replicas`; `None`: the object may be deleted, too.
    pub field: Option<String>,
}

/// A wrong attempt and what the learner must read after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is done wrong.
    pub title: String,
    /// The number of the task, from 1.
    pub task: usize,
    /// The commands.
    pub commands: Vec<LabCommand>,
    /// A part of what `lab verify` prints after it.
    pub says: String,
    /// Line in the lesson.
    pub line: usize,
}

impl Lesson {
    /// Reads a lesson. `file` is how messages name it.
    ///
    /// # Errors
    /// Everything in the text that is invalid, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostics> {
        let (lesson, mut problems) = reader::read(file, text);
        problems.extend(lesson.iter().flat_map(checks::problems));
        match lesson {
            Some(lesson) if problems.is_empty() => Ok(lesson),
            Some(_) | None => Err(Diagnostics::sorted(problems)),
        }
    }

    /// A file of the lesson.
    pub fn file_text(&self, name: &str) -> Option<&str> {
        let named = self.files.iter().find(|file| file.name == name);
        named.map(|file| file.text.as_str())
    }

    /// The SHA-256 of the lesson's text, as evidence names it.
    pub fn digest(&self) -> String {
        crate::digest::sha256(self.source.as_bytes())
    }
}
