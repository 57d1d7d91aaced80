//! What `lab verify`, `lab quiz` and `lab answer` say, as text.

use std::fmt::{self, Write as _};

use gherkin::Step;
use schedlab_conformance::text::counted_noun;
use serde::{Deserialize, Serialize};

use crate::lesson::{Lesson, Question, Task};
use crate::record::{AnswerRecord, Record};

/// Maximum number of lines that are shown of what a claim found.
const FOUND_LINES_MAX: usize = 6;

/// The result of `lab verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyReport {
    /// Title of the lesson.
    pub lesson: String,
    /// Nodes and queues of the lesson that do not exist any more.
    pub missing: Vec<String>,
    /// The tasks, in order.
    pub tasks: Vec<TaskReport>,
    /// What the lesson says about the first claim that does not hold.
    pub advice: Option<String>,
    /// Number of questions without a right answer.
    pub open_questions: usize,
    /// Number of hints that were not shown yet.
    pub hints_left: usize,
}

/// A task in the result of `lab verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskReport {
    /// What the task is about.
    pub title: String,
    /// Number of claims of the task.
    pub count: usize,
    /// The claims that were checked; empty if the task was solved before or was not reached.
    pub claims: Vec<ClaimResult>,
    /// Whether the task was solved before.
    pub was_solved: bool,
    /// When the task was solved, on the cluster's clock.
    pub solved_at: Option<String>,
}

/// A claim and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// The claim.
    pub text: String,
    /// Why it does not hold; `None` if it holds.
    pub found: Option<String>,
}

impl ClaimResult {
    pub(super) fn new(step: &Step, found: Option<String>) -> Self {
        Self { text: step.value.clone(), found }
    }

    /// The claim that the objects of the lesson are as they were prepared; `changes` says which are
    /// not.
    pub(super) fn changed_objects(changes: &[String]) -> Self {
        Self {
            text: "what the lesson prepared is unchanged, except for what the task changes"
                .to_owned(),
            found: Some(format!(
                "{}\nput it back, or start the lesson again with `schedlab lab reset`",
                changes.join("\n")
            )),
        }
    }
}

impl TaskReport {
    pub(super) fn open(task: &Task) -> Self {
        Self {
            title: task.title().to_owned(),
            count: task.claims().len(),
            claims: Vec::new(),
            was_solved: false,
            solved_at: None,
        }
    }

    /// Whether the task is solved.
    pub fn is_solved(&self) -> bool {
        let holds = |claim: &ClaimResult| claim.found.is_none();
        self.was_solved || (self.claims.len() == self.count && self.claims.iter().all(holds))
    }
}

impl VerifyReport {
    pub(super) fn new(lesson: &Lesson, record: &Record, missing: Vec<String>) -> Self {
        let tasks = lesson.tasks.iter().zip(&record.tasks).map(|(task, known)| TaskReport {
            was_solved: known.is_solved(),
            solved_at: known.solved_at.clone(),
            ..TaskReport::open(task)
        });
        Self {
            lesson: lesson.title.clone(),
            missing,
            tasks: tasks.collect(),
            advice: None,
            open_questions: record.answers.len() - record.right_answers(),
            hints_left: lesson.hints.len().saturating_sub(record.hints as usize),
        }
    }

    /// Whether all tasks are solved.
    pub fn is_solved(&self) -> bool {
        self.missing.is_empty() && self.tasks.iter().all(TaskReport::is_solved)
    }

    /// The first claim that does not hold.
    pub fn first_open_claim(&self) -> Option<&ClaimResult> {
        self.tasks.iter().flat_map(|task| &task.claims).find(|claim| claim.found.is_some())
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.lesson)?;
        if !self.missing.is_empty() {
            writeln!(f, "These objects of the lesson were deleted: {}.", self.missing.join(", "))?;
            return writeln!(
                f,
                "`schedlab lab reset --missing` creates them again and keeps your work; `schedlab \
                 lab reset` starts the lesson again."
            );
        }
        for (index, task) in self.tasks.iter().enumerate() {
            let mark = if task.is_solved() { "✔" } else { "○" };
            let solved =
                task.solved_at.as_deref().map(|time| format!(" (solved at {})", second(time)));
            let solved = solved.unwrap_or_default();
            writeln!(f, "{mark} Task {}: {}{solved}", index + 1, task.title)?;
            for claim in &task.claims {
                write_claim(f, claim)?;
            }
        }
        writeln!(f)?;
        if self.is_solved() {
            return match self.open_questions {
                0 => writeln!(f, "Everything is solved. Next: schedlab lab evidence"),
                open => writeln!(
                    f,
                    "All tasks are solved. Open: {}. Next: schedlab lab quiz",
                    counted_noun(open, "question")
                ),
            };
        }
        if let Some(advice) = &self.advice {
            writeln!(f, "{advice}\n")?;
        }
        let hint = match self.hints_left {
            0 => "schedlab lab solution shows the solution",
            3 => "schedlab lab hint gives the first of three hints",
            _ => "schedlab lab hint gives the next hint",
        };
        writeln!(f, "Not solved yet. {hint}.")
    }
}

fn write_claim(f: &mut fmt::Formatter<'_>, claim: &ClaimResult) -> fmt::Result {
    let Some(found) = &claim.found else { return writeln!(f, "    ✔ {}", claim.text) };
    writeln!(f, "    ✘ {}", claim.text)?;
    for line in found.lines().take(FOUND_LINES_MAX) {
        writeln!(f, "      {line}")?;
    }
    Ok(())
}

/// A time of the record without fractions of a second.
fn second(time: &str) -> String {
    let parsed = time.parse::<jiff::Timestamp>();
    parsed.map_or_else(|_| time.to_owned(), |time| format!("{time:.0}"))
}

/// A question and whether it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionReport {
    /// The question.
    pub text: String,
    /// The answer.
    pub given: Option<String>,
    /// Whether it is right.
    pub is_right: bool,
    /// The number of the task that must be solved first, from 1; `None` if it is solved.
    pub waits_for_task: Option<usize>,
}

impl QuestionReport {
    pub(super) fn new(question: &Question, answer: &AnswerRecord, is_open: bool) -> Self {
        Self {
            text: question.text.clone(),
            given: answer.given.clone(),
            is_right: answer.is_right,
            waits_for_task: (!is_open).then_some(question.task),
        }
    }
}

/// What is said about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerReport {
    /// Whether the answer is right.
    pub is_right: bool,
    /// Why it is right; for a wrong one, how to go on. It does not tell the right answer.
    pub text: String,
}

impl AnswerReport {
    pub(super) fn right(why: &str) -> Self {
        Self { is_right: true, text: format!("✔ Right. {why}") }
    }

    pub(super) fn too_early(task: usize) -> Self {
        let text = format!("○ Not yet: solve task {task} first, the question is about its result.");
        Self { is_right: false, text }
    }

    /// `right_now`: if the answer is right for the cluster as it is now, the task of the question and
    /// when it was solved.
    pub(super) fn wrong(known: &AnswerRecord, right_now: Option<(usize, String)>) -> Self {
        let mut text = match right_now {
            Some((task, solved_at)) => format!(
                "✘ The cluster shows this now. The question is about the moment when task {task} was \
                 solved, {}.",
                second(&solved_at)
            ),
            None => "✘ Not what the cluster showed when the task was solved. Look again; you may \
                     answer as often as you like."
                .to_owned(),
        };
        if let Some(given) = known.given.as_deref().filter(|_| known.is_right) {
            let _ = write!(text, " Your earlier answer {given} is right and counts.");
        }
        Self { is_right: false, text }
    }
}

impl fmt::Display for AnswerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_shows_what_is_right_and_the_first_thing_that_is_not() {
        let claim = |text: &str, found: Option<&str>| ClaimResult {
            text: text.to_owned(),
            found: found.map(str::to_owned),
        };
        let report = VerifyReport {
            lesson: "B: borrowing".to_owned(),
            missing: Vec::new(),
            tasks: vec![
                TaskReport {
                    title: "Submit".to_owned(),
                    count: 1,
                    claims: Vec::new(),
                    was_solved: true,
                    solved_at: Some("2026-05-01T08:00:12.5Z".to_owned()),
                },
                TaskReport {
                    title: "Borrow".to_owned(),
                    count: 3,
                    claims: vec![
                        claim("queue \"a\" has 8 running pods", None),
                        claim("0 GPUs are free", Some("8 GPUs are free\n(at 2s)")),
                    ],
                    was_solved: false,
                    solved_at: None,
                },
            ],
            advice: Some("Submit more.".to_owned()),
            open_questions: 2,
            hints_left: 3,
        };
        insta::assert_snapshot!(report, @r#"
        B: borrowing

        ✔ Task 1: Submit (solved at 2026-05-01T08:00:12Z)
        ○ Task 2: Borrow
            ✔ queue "a" has 8 running pods
            ✘ 0 GPUs are free
              8 GPUs are free
              (at 2s)

        Submit more.

        Not solved yet. schedlab lab hint gives the first of three hints.
        "#);
    }

    #[test]
    fn a_wrong_answer_is_told_the_moment_it_is_about_and_not_the_right_answer() {
        let mut known = AnswerRecord {
            question: "q".to_owned(),
            task: 2,
            given: None,
            is_right: false,
            cluster: None,
            tries: 0,
        };
        let wrong = AnswerReport::wrong(&known, None);
        assert!(wrong.text.starts_with("✘ Not what the cluster showed"), "{}", wrong.text);
        known.record("12", true, "c");
        let moved = AnswerReport::wrong(&known, Some((2, "2026-05-01T08:00:12.5Z".to_owned())));
        insta::assert_snapshot!(moved.text, @"✘ The cluster shows this now. The question is about the moment when task 2 was solved, 2026-05-01T08:00:12Z. Your earlier answer 12 is right and counts.");
    }
}
