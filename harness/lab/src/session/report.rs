//! What `lab verify`, `lab quiz` and `lab answer` say, as text.

use std::fmt;

use gherkin::Step;

use crate::lesson::{Lesson, Question, Task};
use crate::record::{AnswerRecord, Record, is_same_answer};

/// Maximum number of lines that are shown of what a claim found.
const FOUND_LINES_MAX: usize = 6;

/// The result of `lab verify`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    /// What the task is about.
    pub title: String,
    /// Number of claims of the task.
    pub count: usize,
    /// The claims that were checked; empty if the task was solved before or was not reached.
    pub claims: Vec<ClaimResult>,
    /// Whether the task was solved before.
    pub was_solved: bool,
}

/// A claim and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl TaskReport {
    pub(super) fn open(task: &Task) -> Self {
        Self {
            title: task.title().to_owned(),
            count: task.claims().len(),
            claims: Vec::new(),
            was_solved: false,
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
            writeln!(f, "{mark} Task {}: {}", index + 1, task.title)?;
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
                    "All tasks are solved. {open} questions are open: schedlab lab quiz"
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

/// A question and whether it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionReport {
    /// The question.
    pub text: String,
    /// The last answer.
    pub given: Option<String>,
    /// Whether it is right.
    pub is_right: bool,
}

impl QuestionReport {
    pub(super) fn new(question: &Question, answer: &AnswerRecord) -> Self {
        Self { text: question.text.clone(), given: answer.given.clone(), is_right: answer.is_right }
    }
}

/// An answer and what is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerReport {
    /// Whether the answer is right.
    pub is_right: bool,
    /// Why the right answer is right; empty for a wrong answer, which may be tried again.
    pub why: String,
}

impl AnswerReport {
    pub(super) fn judge(question: &Question, given: &str, expected: &[String]) -> Self {
        let is_right = expected.iter().any(|one| is_same_answer(one, given));
        Self { is_right, why: if is_right { question.why.clone() } else { String::new() } }
    }
}

impl fmt::Display for AnswerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_right {
            writeln!(f, "✔ Right. {}", self.why)
        } else {
            writeln!(
                f,
                "✘ Not what the cluster shows. Look again; you may answer as often as you like."
            )
        }
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
            tasks: vec![TaskReport {
                title: "Borrow".to_owned(),
                count: 3,
                claims: vec![
                    claim("queue \"a\" has 8 running pods", None),
                    claim("0 GPUs are free", Some("8 GPUs are free\n(at 2s)")),
                ],
                was_solved: false,
            }],
            advice: Some("Submit more.".to_owned()),
            open_questions: 2,
            hints_left: 3,
        };
        insta::assert_snapshot!(report, @r#"
        B: borrowing

        ○ Task 1: Borrow
            ✔ queue "a" has 8 running pods
            ✘ 0 GPUs are free
              8 GPUs are free
              (at 2s)

        Submit more.

        Not solved yet. schedlab lab hint gives the first of three hints.
        "#);
    }
}
