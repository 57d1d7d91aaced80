//! Plays a lesson by its own text, in virtual time: without the solution it must not be solved, each
//! mistake must be answered with what the lesson promises, and the solution must solve it.

use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use schedlab_conformance::report::Diagnostic;

use crate::lesson::{Lesson, Mistake};
use crate::record::SessionStart;
use crate::session::{LessonSession, TaskReport};

/// How long a lesson may run after each script, so that what the learner sees is at rest.
const SETTLE_TIME: Duration = Duration::from_secs(5);

/// What a rehearsal showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// What is wrong with the lesson, with the line.
    pub problems: Vec<Diagnostic>,
    /// What `lab verify` said before anything was done.
    pub first_report: String,
    /// The accepted answers of each question.
    pub answers: Vec<Vec<String>>,
    /// Why the answer of each question is right, with the values of the cluster.
    pub explanations: Vec<String>,
}

/// Plays a lesson. `parse` gives the lesson anew for each attempt.
///
/// # Errors
/// The runtime or the cluster cannot start.
pub fn rehearse(parse: &dyn Fn() -> anyhow::Result<Lesson>) -> anyhow::Result<Rehearsal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(async {
        let mut rehearsal = Rehearsal::default();
        play_solution(parse()?, &mut rehearsal).await?;
        for index in 0..parse()?.mistakes.len() {
            play_mistake(parse()?, index, &mut rehearsal).await?;
        }
        Ok(rehearsal)
    })
}

fn start_of_rehearsal() -> SessionStart {
    let time = "2026-05-01T08:00:00Z".parse::<Timestamp>().expect("it is a timestamp");
    SessionStart { learner: "rehearsal".to_owned(), time, session: "rehearsal".to_owned() }
}

/// A problem at the line of a task.
fn task_problem(lesson: &Lesson, index: usize, message: String) -> Diagnostic {
    let line = lesson.tasks.get(index).map_or(1, |task| task.case.location.line);
    Diagnostic::new(&lesson.file, line, message)
}

async fn play_solution(lesson: Lesson, rehearsal: &mut Rehearsal) -> anyhow::Result<()> {
    let mut session = LessonSession::start(lesson, start_of_rehearsal()).await?;
    let count = session.lesson().tasks.len();
    for index in 0..count {
        let before = session.verify().await?;
        if index == 0 {
            rehearsal.first_report = before.to_string();
        }
        if before.tasks[index].is_solved() {
            let message = format!("task {} is solved before its solution is applied", index + 1);
            rehearsal.problems.push(task_problem(session.lesson(), index, message));
            continue;
        }
        let commands = session.lesson().tasks[index].solution.clone();
        if let Err(error) = session.play(&commands).await {
            let message = format!("the solution of task {} fails: {error:#}", index + 1);
            rehearsal.problems.push(task_problem(session.lesson(), index, message));
            return Ok(());
        }
        session.wait(SETTLE_TIME).await?;
        let after = session.verify().await?;
        if !after.tasks[index].is_solved() {
            let message = format!("the solution does not solve task {}:\n{after}", index + 1);
            rehearsal.problems.push(task_problem(session.lesson(), index, message));
            return Ok(());
        }
    }
    check_answers(&mut session, rehearsal).await?;
    let problems = session.evidence().await?.problems(session.lesson());
    let file = session.lesson().file.clone();
    let problem = |message: String| Diagnostic::new(&file, 1, format!("evidence: {message}"));
    rehearsal.problems.extend(problems.into_iter().map(problem));
    Ok(())
}

/// Answers every question as the cluster does.
async fn check_answers(
    session: &mut LessonSession,
    rehearsal: &mut Rehearsal,
) -> anyhow::Result<()> {
    for index in 0..session.lesson().quiz.len() {
        let (file, line) = (session.lesson().file.clone(), session.lesson().quiz[index].line);
        let expected = match session.expected_answers(index) {
            Ok(expected) => expected,
            Err(error) => {
                rehearsal.problems.push(Diagnostic::new(&file, line, format!("{error:#}")));
                continue;
            }
        };
        let is_empty = |answer: &String| answer.is_empty() || answer == "null";
        if expected.is_empty() || expected.iter().any(is_empty) {
            let message = format!(
                "the answer after the solution is {expected:?}, expected a number or a name"
            );
            rehearsal.problems.push(Diagnostic::new(&file, line, message));
            continue;
        }
        let report = session.answer(index + 1, &expected[0]).await?;
        if !report.is_right {
            let message = format!("the answer {:?} is not accepted", expected[0]);
            rehearsal.problems.push(Diagnostic::new(&file, line, message));
        }
        rehearsal.answers.push(expected);
        rehearsal.explanations.push(report.text);
    }
    Ok(())
}

async fn play_mistake(
    lesson: Lesson,
    index: usize,
    rehearsal: &mut Rehearsal,
) -> anyhow::Result<()> {
    let mut session = LessonSession::start(lesson, start_of_rehearsal()).await?;
    let Mistake { title, task, commands, says, line } = session.lesson().mistakes[index].clone();
    let file = session.lesson().file.clone();
    let problem = |message: String| Diagnostic::new(&file, line, message);
    for before in 0..task - 1 {
        let commands = session.lesson().tasks[before].solution.clone();
        session.play(&commands).await?;
        session.wait(SETTLE_TIME).await?;
        session.verify().await?;
    }
    if let Err(error) = session.play(&commands).await {
        rehearsal.problems.push(problem(format!("mistake {title:?} fails: {error:#}")));
        return Ok(());
    }
    session.wait(SETTLE_TIME).await?;
    let report = session.verify().await?;
    let text = report.to_string();
    if report.tasks.get(task - 1).is_some_and(TaskReport::is_solved) {
        rehearsal.problems.push(problem(format!("mistake {title:?} solves task {task}")));
    } else if !words(&text).contains(&words(&says)) {
        rehearsal
            .problems
            .push(problem(format!("after mistake {title:?} expected {says:?} in:\n{text}")));
    }
    Ok(())
}

/// A text with its words separated by single blanks, wherever its lines end.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
