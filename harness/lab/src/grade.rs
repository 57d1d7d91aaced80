//! Grades: the evidence of a class as a table of learners and tasks.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::evidence::Evidence;
use crate::lesson::Lesson;

/// The grade of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Grade {
    /// The file of the evidence.
    pub file: String,
    /// Name of the learner; empty if the file cannot be read.
    pub learner: String,
    /// Id of the lesson; empty if the file cannot be read.
    pub lesson: String,
    /// Which tasks are solved.
    pub tasks: Vec<bool>,
    /// Number of right answers.
    pub right_answers: usize,
    /// Number of questions.
    pub questions: usize,
    /// Number of hints that were shown.
    pub hints: u32,
    /// Whether the solution was shown.
    pub solution_shown: bool,
    /// Number of verifications.
    pub verifications: u32,
    /// Why the evidence does not count; empty if it does.
    pub problems: Vec<String>,
}

/// Finds a lesson by its id.
pub type FindLesson<'l> = &'l dyn Fn(&str) -> Result<Lesson, String>;

/// What tells the files of a class apart.
struct Origin {
    session: String,
    /// Digest of the content.
    digest: String,
    learner: String,
    file: String,
}

/// Grades the files of a class.
pub fn grade_files(files: &[PathBuf], find_lesson: FindLesson<'_>) -> Vec<Grade> {
    let mut grades: Vec<Grade> = Vec::new();
    let mut origins: Vec<Origin> = Vec::new();
    for file in files {
        let (mut grade, origin) = grade_file(file, find_lesson);
        if let Some(origin) = origin {
            let copied = origins.iter().find(|one| one.digest == origin.digest);
            let shared = origins
                .iter()
                .find(|one| one.session == origin.session && one.learner != origin.learner);
            if let Some(Origin { file, .. }) = copied {
                grade.problems.push(format!("it is a copy of {file}"));
            } else if let Some(Origin { learner, file, .. }) = shared {
                grade.problems.push(format!("the session is that of {learner} in {file}"));
            }
            origins.push(origin);
        }
        grades.push(grade);
    }
    grades.sort_by(|a, b| (&a.lesson, &a.learner, &a.file).cmp(&(&b.lesson, &b.learner, &b.file)));
    grades
}

fn grade_file(file: &Path, find_lesson: FindLesson<'_>) -> (Grade, Option<Origin>) {
    let shown = file.display().to_string();
    let evidence = match Evidence::read(file) {
        Ok(evidence) => evidence,
        Err(error) => {
            let problems = vec![format!("{error:#}")];
            return (Grade { file: shown, problems, ..Grade::empty() }, None);
        }
    };
    let problems = match find_lesson(&evidence.record.lesson) {
        Ok(lesson) => evidence.problems(&lesson),
        Err(message) => vec![message],
    };
    let record = &evidence.record;
    let origin = Origin {
        session: record.session.clone(),
        digest: evidence.digest(),
        learner: record.learner.clone(),
        file: shown.clone(),
    };
    let grade = Grade {
        file: shown,
        learner: record.learner.clone(),
        lesson: record.lesson.clone(),
        tasks: record.tasks.iter().map(crate::record::TaskRecord::is_solved).collect(),
        right_answers: record.right_answers(),
        questions: record.answers.len(),
        hints: record.hints,
        solution_shown: record.is_solution_shown,
        verifications: record.verifications,
        problems,
    };
    (grade, Some(origin))
}

impl Grade {
    fn empty() -> Self {
        Self {
            file: String::new(),
            learner: String::new(),
            lesson: String::new(),
            tasks: Vec::new(),
            right_answers: 0,
            questions: 0,
            hints: 0,
            solution_shown: false,
            verifications: 0,
            problems: Vec::new(),
        }
    }

    /// Whether the evidence counts.
    pub fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }
}

/// The grades as a table: a line for each file, then what does not count.
pub fn grades_table(grades: &[Grade]) -> String {
    let mut rows = vec![
        ["LESSON", "LEARNER", "TASKS", "QUIZ", "HINTS", "VERIFIED", "EVIDENCE", "FILE"]
            .map(str::to_owned),
    ];
    for grade in grades {
        let marks: String = grade.tasks.iter().map(|done| if *done { '✔' } else { '✘' }).collect();
        let hints =
            if grade.solution_shown { "solution".to_owned() } else { grade.hints.to_string() };
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        let is_read = !grade.lesson.is_empty();
        let if_read = |text: String| if is_read { text } else { "-".to_owned() };
        rows.push([
            or_dash(&grade.lesson),
            or_dash(&grade.learner),
            or_dash(&marks),
            if_read(format!("{}/{}", grade.right_answers, grade.questions)),
            if_read(hints),
            if_read(grade.verifications.to_string()),
            if grade.is_valid() { "valid".to_owned() } else { "NOT VALID".to_owned() },
            grade.file.clone(),
        ]);
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    for grade in grades.iter().filter(|grade| !grade.is_valid()) {
        for problem in &grade.problems {
            let _ = writeln!(text, "{}: {problem}", grade.file);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_names_its_file() {
        let graded = Grade {
            file: "class/ada.zip".to_owned(),
            learner: "ada".to_owned(),
            lesson: "b-borrow".to_owned(),
            tasks: vec![true],
            right_answers: 2,
            questions: 3,
            hints: 1,
            solution_shown: false,
            verifications: 4,
            problems: Vec::new(),
        };
        let problems = vec!["no evidence: it has no seal".to_owned()];
        let unread = Grade { file: "class/x.zip".to_owned(), problems, ..Grade::empty() };
        insta::assert_snapshot!(grades_table(&[graded, unread]), @"
        LESSON    LEARNER  TASKS  QUIZ  HINTS  VERIFIED  EVIDENCE   FILE
        b-borrow  ada      ✔      2/3   1      4         valid      class/ada.zip
        -         -        -      -     -      -         NOT VALID  class/x.zip
        class/x.zip: no evidence: it has no seal
        ");
    }
}
