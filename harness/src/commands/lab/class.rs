//! `schedlab lab grade` and `schedlab lab check`: what teachers need.

use schedlab_conformance::report::Diagnostics;
use schedlab_conformance::text::counted_noun;
use schedlab_lab::catalogue;
use schedlab_lab::grade::{Grade, grade_files, grades_table};
use schedlab_lab::lesson::Lesson;
use schedlab_lab::rehearsal::rehearse;

use super::super::CommandOutput;
use super::load_lesson_file;
use crate::cli::{Format, LabCheck, LabGrade};
use crate::exit::ExitStatus;

pub(super) fn grade(args: &LabGrade) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let mut own: Vec<(String, &std::path::Path)> = Vec::new();
    for path in &args.lesson {
        own.push((load_lesson_file(path)?.id, path));
    }
    let find = |id: &str| -> Result<Lesson, String> {
        match own.iter().find(|(known, _)| known == id) {
            Some((_, path)) => load_lesson_file(path).map_err(|error| error.to_string()),
            None => catalogue::find_lesson(id).map_err(|message| {
                format!("{message}; name the file of a lesson of your own with --lesson")
            }),
        }
    };
    let grades = grade_files(&args.files, &find);
    output.print_result(&match args.format {
        Format::Text => grades_table(&grades),
        Format::Json => serde_json::to_string_pretty(&grades)? + "\n",
    });
    let all_valid = grades.iter().all(Grade::is_valid);
    Ok(if all_valid { ExitStatus::Passed } else { ExitStatus::Failed })
}

pub(super) fn check(args: &LabCheck) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let mut passed = true;
    for path in &args.files {
        let shown = path.display();
        let lesson = match load_lesson_file(path) {
            Ok(lesson) => lesson,
            Err(error) if error.is::<Diagnostics>() => {
                output.print_note(&error.to_string());
                passed = false;
                continue;
            }
            Err(error) => return Err(error),
        };
        let counted = format!(
            "{}, {}, {}",
            counted_noun(lesson.tasks.len(), "task"),
            counted_noun(lesson.quiz.len(), "question"),
            counted_noun(lesson.mistakes.len(), "mistake"),
        );
        if args.text_only {
            output.print_result(&format!("{shown}: {counted}: no problem\n"));
            continue;
        }
        let rehearsal = match rehearse(&|| load_lesson_file(path)) {
            Ok(rehearsal) => rehearsal,
            Err(error) => {
                output.print_note(&format!("{shown}: cannot be played: {error:#}"));
                passed = false;
                continue;
            }
        };
        for problem in &rehearsal.problems {
            output.print_note(&problem.to_string());
        }
        passed &= rehearsal.problems.is_empty();
        let problems = match rehearsal.problems.len() {
            0 => "played, no problem".to_owned(),
            count => counted_noun(count, "problem"),
        };
        output.print_result(&format!("{shown}: {counted}: {problems}\n"));
        for (question, answers) in lesson.quiz.iter().zip(&rehearsal.answers) {
            output.print_progress(&format!("  {} {}", question.text, answers.join(", ")));
        }
    }
    Ok(if passed { ExitStatus::Passed } else { ExitStatus::Failed })
}
