//! What is wrong with a lesson that could be read: steps that a run would reject, names of files and
//! tasks that do not exist.

use schedlab_conformance::report::Diagnostic;
use schedlab_conformance::runner::step_mismatch_message;
use schedlab_conformance::static_check;
use schedlab_conformance::steps::catalogue;

use super::Lesson;
use crate::commands::{LabCommand, objects_of_manifest};

pub(super) fn problems(lesson: &Lesson) -> Vec<Diagnostic> {
    let mut problems = step_problems(lesson);
    problems.extend(file_problems(lesson));
    problems.extend(script_problems(lesson));
    for mistake in &lesson.mistakes {
        if !(1..=lesson.tasks.len()).contains(&mistake.task) {
            let message = format!(
                "task: got {}, expected 1 to {}: the lesson has as many scenarios",
                mistake.task,
                lesson.tasks.len()
            );
            problems.push(Diagnostic::new(&lesson.file, mistake.line, message));
        }
    }
    problems
}

fn step_problems(lesson: &Lesson) -> Vec<Diagnostic> {
    let steps = catalogue::step_collection();
    let mut problems: Vec<Diagnostic> = Vec::new();
    let mut cases = Vec::new();
    for task in &lesson.tasks {
        if task.claims().is_empty() {
            let message = format!("scenario {:?} claims nothing", task.title());
            problems.push(Diagnostic::new(&lesson.file, task.case.location.line, message));
        }
        for step in &task.case.steps {
            let Some((_, message)) = step_mismatch_message(step, &steps) else { continue };
            let found = Diagnostic::new(&lesson.file, step.position.line, message);
            if !problems.contains(&found) {
                problems.push(found);
            }
        }
        cases.push(task.case.clone());
    }
    if problems.is_empty() {
        // Workloads of claims come from the learner; nodes and queues from the lesson.
        problems.extend(static_check::check_cases(&cases));
    }
    problems
}

fn file_problems(lesson: &Lesson) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    for file in &lesson.files {
        if let Err(message) = objects_of_manifest(&file.name, &file.text, &lesson.namespace) {
            problems.push(Diagnostic::new(&lesson.file, file.line, message));
        }
    }
    problems
}

/// Files that a script applies and the lesson does not have.
fn script_problems(lesson: &Lesson) -> Vec<Diagnostic> {
    let solutions = lesson.tasks.iter().flat_map(|task| &task.solution).map(|command| (1, command));
    let mistakes = lesson
        .mistakes
        .iter()
        .flat_map(|mistake| mistake.commands.iter().map(|command| (mistake.line, command)));
    let mut problems = Vec::new();
    for (line, command) in solutions.chain(mistakes) {
        let LabCommand::Apply { files } = command else { continue };
        for name in files.iter().filter(|name| lesson.file_text(name).is_none()) {
            let known: Vec<&str> = lesson.files.iter().map(|file| file.name.as_str()).collect();
            let message = format!(
                "a script applies {name}, which no ```yaml file={name} block has; the lesson has {}",
                known.join(", ")
            );
            problems.push(Diagnostic::new(&lesson.file, line, message));
        }
    }
    problems
}
