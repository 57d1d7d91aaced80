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
    /// The entry of the evidence with the cluster at that moment.
    #[serde(default)]
    pub cluster: Option<String>,
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
    /// The number of the task that the question belongs to, from 1.
    #[serde(default)]
    pub task: usize,
    /// The right answer; the last one if none was right; `None` if there is none.
    pub given: Option<String>,
    /// Whether an answer was right.
    pub is_right: bool,
    /// The entry of the evidence with the cluster on which the right answer was judged.
    #[serde(default)]
    pub cluster: Option<String>,
    /// Number of answers.
    pub tries: u32,
}

impl AnswerRecord {
    /// Records an answer that was judged on the cluster in this entry of the evidence. A right answer
    /// stays right: later answers do not change it.
    pub(crate) fn record(&mut self, given: &str, is_right: bool, cluster: &str) {
        self.tries += 1;
        if self.is_right {
            return;
        }
        self.given = Some(given.to_owned());
        self.is_right = is_right;
        self.cluster = is_right.then(|| cluster.to_owned());
    }
}

impl Record {
    pub(crate) fn new(lesson: &Lesson, start: SessionStart) -> Self {
        let tasks = lesson.tasks.iter().map(|task| TaskRecord {
            title: task.title().to_owned(),
            solved_at: None,
            cluster: None,
            failures: 0,
        });
        let answers = lesson.quiz.iter().map(|question| AnswerRecord {
            question: question.text.clone(),
            task: question.task,
            given: None,
            is_right: false,
            cluster: None,
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
            task.cluster = None;
        }
    }

    /// Records that a task is solved. Returns the entry of the evidence for the cluster at this
    /// moment.
    pub(crate) fn solve(&mut self, index: usize, now: String) -> String {
        let again = match self.resets {
            0 => String::new(),
            resets => format!("-after-reset-{resets}"),
        };
        let entry = format!("solved-task-{}{again}.json", index + 1);
        self.tasks[index].solved_at = Some(now);
        self.tasks[index].cluster = Some(entry.clone());
        entry
    }

    /// Number of solved tasks.
    pub fn solved_tasks(&self) -> usize {
        self.tasks.iter().filter(|task| task.is_solved()).count()
    }

    /// Number of right answers that count: those whose task is solved.
    pub fn right_answers(&self) -> usize {
        let is_solved = |answer: &AnswerRecord| {
            let task = answer.task.checked_sub(1).and_then(|index| self.tasks.get(index));
            task.is_some_and(TaskRecord::is_solved)
        };
        self.answers.iter().filter(|answer| answer.is_right && is_solved(answer)).count()
    }

    /// How much is done: solved tasks, then right answers.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.solved_tasks(), self.right_answers())
    }
}

/// Whether an answer has the form of the accepted ones: a number if these are numbers.
pub(crate) fn has_form_of(expected: &[String], given: &str) -> bool {
    let is_number = |text: &str| text.trim().trim_matches(['"', '\'']).parse::<f64>().is_ok();
    is_number(given) || !expected.iter().all(|one| is_number(one))
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
    fn a_right_answer_stays_right_and_a_wrong_one_is_replaced() {
        let mut answer = AnswerRecord {
            question: "q".to_owned(),
            task: 1,
            given: None,
            is_right: false,
            cluster: None,
            tries: 0,
        };
        answer.record("3", false, "c");
        assert_eq!((answer.given.as_deref(), answer.cluster.as_deref()), (Some("3"), None));
        answer.record("4", true, "c");
        answer.record("5", false, "d");
        assert_eq!((answer.given.as_deref(), answer.is_right, answer.tries), (Some("4"), true, 3));
        assert_eq!(answer.cluster.as_deref(), Some("c"));
    }

    #[test]
    fn a_word_has_not_the_form_of_a_number() {
        let (numbers, names) = (["8".to_owned()], ["pod-a".to_owned()]);
        assert!(has_form_of(&numbers, "9.0") && !has_form_of(&numbers, "nine"));
        assert!(!has_form_of(&numbers, "32 GPUs") && has_form_of(&names, "32 GPUs"));
    }

    #[test]
    fn an_answer_may_be_written_in_several_ways() {
        assert!(is_same_answer("8", " 8 ") && is_same_answer("8", "8.0"));
        assert!(is_same_answer("pod-a", "pod/pod-a") && is_same_answer("Train", "train"));
        assert!(!is_same_answer("8", "9") && !is_same_answer("pod-a", "pod-b"));
    }
}
