//! Grades: the evidence of a class as a table of learners and tasks.

use std::collections::BTreeMap;
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

/// Grades the files of a class.
pub fn grade_files(files: &[PathBuf], find_lesson: FindLesson<'_>) -> Vec<Grade> {
    let mut grades: Vec<Grade> = Vec::new();
    let mut sessions: BTreeMap<String, (String, String)> = BTreeMap::new();
    for file in files {
        let (mut grade, session) = grade_file(file, find_lesson);
        if let Some(session) = session {
            let own = (grade.learner.clone(), grade.file.clone());
            match sessions.get(&session) {
                Some((learner, other)) if *learner != grade.learner => {
                    grade.problems.push(format!("the session is that of {learner} in {other}"));
                }
                Some(_) => {}
                None => {
                    sessions.insert(session, own);
                }
            }
        }
        grades.push(grade);
    }
    grades.sort_by(|a, b| (&a.lesson, &a.learner, &a.file).cmp(&(&b.lesson, &b.learner, &b.file)));
    grades
}

fn grade_file(file: &Path, find_lesson: FindLesson<'_>) -> (Grade, Option<String>) {
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
    (grade, Some(record.session.clone()))
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

/// The grades as a table: a line for each learner and lesson, then what does not count.
pub fn grades_table(grades: &[Grade]) -> String {
    let mut rows = vec![
        ["LESSON", "LEARNER", "TASKS", "QUIZ", "HINTS", "VERIFIED", "EVIDENCE"].map(str::to_owned),
    ];
    for grade in grades {
        let marks: String = grade.tasks.iter().map(|done| if *done { '✔' } else { '✘' }).collect();
        let hints =
            if grade.solution_shown { "solution".to_owned() } else { grade.hints.to_string() };
        let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        rows.push([
            or_dash(&grade.lesson),
            or_dash(&grade.learner),
            or_dash(&marks),
            format!("{}/{}", grade.right_answers, grade.questions),
            hints,
            grade.verifications.to_string(),
            if grade.is_valid() { "valid".to_owned() } else { "NOT VALID".to_owned() },
        ]);
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
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
