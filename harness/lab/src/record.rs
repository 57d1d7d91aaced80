//! How far a learner has come. It is kept while the lesson runs, and is part of the evidence.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lesson::Lesson;

/// Who learns, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStart {
    /// The name of the learner.
    pub learner: String,
    /// The time at which the cluster's clock begins.
    pub time: Timestamp,
    /// A name of this session that no other has.
    pub session: String,
}

/// How far a learner has come in a lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Version of schedlab.
    pub schedlab: String,
    /// Id of the lesson.
    pub lesson: String,
    /// SHA-256 of the lesson's text.
    pub lesson_digest: String,
    /// Name of the learner.
    pub learner: String,
    /// A name of the session that no other has.
    pub session: String,
    /// When the lesson began, on the cluster's clock.
    pub started: String,
    /// The tasks, in order.
    pub tasks: Vec<TaskRecord>,
    /// The questions, in order.
    pub answers: Vec<AnswerRecord>,
    /// Number of `lab verify`.
    pub verifications: u32,
    /// Number of hints that were shown.
    pub hints: u32,
    /// Whether the solution was shown.
    pub is_solution_shown: bool,
    /// How often the lesson was started again.
    pub resets: u32,
    /// Time that the learner skipped, in seconds.
    pub waited_seconds: u64,
}

/// A task of a lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRecord {
    /// What the task is about.
    pub title: String,
    /// When it was solved, on the cluster's clock.
    pub solved_at: Option<String>,
    /// How often it was verified without being solved.
    pub failures: u32,
}

impl TaskRecord {
    /// Whether the task is solved.
    pub fn is_solved(&self) -> bool {
        self.solved_at.is_some()
    }
}

/// A question of a lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerRecord {
    /// The question.
    pub question: String,
    /// The last answer; `None` if there is none.
    pub given: Option<String>,
    /// The answers that were accepted when it was given.
    pub expected: Vec<String>,
    /// Whether the last answer is right.
    pub is_right: bool,
    /// Number of answers.
    pub tries: u32,
}

impl AnswerRecord {
    pub(crate) fn record(&mut self, given: &str, expected: Vec<String>, is_right: bool) {
        self.given = Some(given.to_owned());
        self.expected = expected;
        self.is_right = is_right;
        self.tries += 1;
    }
}

impl Record {
    pub(crate) fn new(lesson: &Lesson, start: SessionStart) -> Self {
        let tasks = lesson.tasks.iter().map(|task| TaskRecord {
            title: task.title().to_owned(),
            solved_at: None,
            failures: 0,
        });
        let answers = lesson.quiz.iter().map(|question| AnswerRecord {
            question: question.text.clone(),
            given: None,
            expected: Vec::new(),
            is_right: false,
            tries: 0,
        });
        Self {
            schedlab: env!("CARGO_PKG_VERSION").to_owned(),
            lesson: lesson.id.clone(),
            lesson_digest: lesson.digest(),
            learner: start.learner,
            session: start.session,
            started: start.time.to_string(),
            tasks: tasks.collect(),
            answers: answers.collect(),
            verifications: 0,
            hints: 0,
            is_solution_shown: false,
            resets: 0,
            waited_seconds: 0,
        }
    }

    /// Takes back which tasks are solved: the cluster is new.
    pub(crate) fn begin_again(&mut self) {
        self.resets += 1;
        for task in &mut self.tasks {
            task.solved_at = None;
        }
    }

    /// Number of solved tasks.
    pub fn solved_tasks(&self) -> usize {
        self.tasks.iter().filter(|task| task.is_solved()).count()
    }

    /// Number of right answers.
    pub fn right_answers(&self) -> usize {
        self.answers.iter().filter(|answer| answer.is_right).count()
    }
}

/// Whether two answers are the same: as numbers, or as texts without regard to case and a kind in
/// front of a name (`pod/x`).
pub(crate) fn is_same_answer(expected: &str, given: &str) -> bool {
    let given = given.trim().trim_matches(['"', '\'']);
    if let (Ok(expected), Ok(given)) = (expected.parse::<f64>(), given.parse::<f64>()) {
        return (expected - given).abs() < 1e-6;
    }
    let name = given.rsplit_once('/').map_or(given, |(_, name)| name);
    [given, name].iter().any(|one| one.eq_ignore_ascii_case(expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_written_in_several_ways() {
        assert!(is_same_answer("8", " 8 ") && is_same_answer("8", "8.0"));
        assert!(is_same_answer("pod-a", "pod/pod-a") && is_same_answer("Train", "train"));
        assert!(!is_same_answer("8", "9") && !is_same_answer("pod-a", "pod-b"));
    }
}
