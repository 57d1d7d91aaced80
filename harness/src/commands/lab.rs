//! `schedlab lab`: guided exercises. One process runs the lesson and its cluster; the other verbs
//! reach it through the folder of the lesson.

mod class;
mod kubectl;
mod queries;
mod start;

use std::path::Path;

use schedlab_lab::catalogue;
use schedlab_lab::folder::{Connection, DEFAULT_FOLDER, LabFolder};
use schedlab_lab::lesson::Lesson;
use schedlab_lab::server::{Outcome, Reply, Request, ask};

use super::{CommandOutput, UsageError};
use crate::cli::{Format, LabEvidence, LabFolderArgs, LabList, LabReset, LabVerb};
use crate::exit::ExitStatus;
use schedlab_conformance::text::read_text_file;

/// Runs a verb of `schedlab lab`.
pub fn run_lab_command(verb: &LabVerb) -> anyhow::Result<ExitStatus> {
    match verb {
        LabVerb::List(args) => list_lessons(args),
        LabVerb::Start(args) => start::start_lesson(args),
        LabVerb::Show(folder) => request(folder, Request::Lesson),
        LabVerb::Verify(folder) => request(folder, Request::Verify),
        LabVerb::Hint(folder) => request(folder, Request::Hint),
        LabVerb::Solution(folder) => request(folder, Request::Solution),
        LabVerb::Quiz(folder) => request(folder, Request::Quiz),
        LabVerb::Answer(args) => {
            let (number, text) = (args.number, args.answer.clone());
            request(&args.folder, Request::Answer { number, text })
        }
        LabVerb::Wait(args) => {
            let millis = u64::try_from(args.time.as_millis()).unwrap_or(u64::MAX);
            request(&args.folder, Request::Wait { millis })
        }
        LabVerb::Reset(LabReset { missing: true, folder }) => {
            request(folder, Request::RestoreMissing)
        }
        LabVerb::Reset(LabReset { missing: false, folder }) => request(folder, Request::Reset),
        LabVerb::Evidence(args) => collect_evidence(args),
        LabVerb::Kubectl(args) => kubectl::run_kubectl_words(args),
        LabVerb::Apply(args) => kubectl::apply_files(args),
        LabVerb::Grade(args) => class::grade(args),
        LabVerb::Check(args) => class::check(args),
    }
}

fn list_lessons(args: &LabList) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let lessons = catalogue::all_lessons();
    let text = match args.format {
        Format::Text => {
            let width = lessons.iter().map(|lesson| lesson.id.len()).max().unwrap_or(0);
            let line = |lesson: &Lesson| {
                format!("{:<width$}  {:>2} min  {}\n", lesson.id, lesson.minutes, lesson.title)
            };
            lessons.iter().map(line).collect::<String>()
        }
        Format::Json => {
            let entry = |lesson: &Lesson| {
                serde_json::json!({
                    "id": lesson.id,
                    "title": lesson.title,
                    "minutes": lesson.minutes,
                    "requires": lesson.requires,
                    "tasks": lesson.tasks.iter().map(schedlab_lab::lesson::Task::title).collect::<Vec<_>>(),
                    "questions": lesson.quiz.len(),
                })
            };
            let entries: Vec<_> = lessons.iter().map(entry).collect();
            serde_json::to_string_pretty(&entries)? + "\n"
        }
    };
    output.print_result(&text);
    if args.format == Format::Text {
        output.print_progress("start one: schedlab lab start ID");
    }
    Ok(ExitStatus::Passed)
}

fn collect_evidence(args: &LabEvidence) -> anyhow::Result<ExitStatus> {
    let path = args.output.as_deref().map(std::path::absolute).transpose()?;
    request(&args.folder, Request::Evidence { path })
}

/// Asks the running lesson and prints its answer.
fn request(folder: &LabFolderArgs, request: Request) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let connection = running_lesson(&LabFolder::find(folder.folder.as_deref()))?;
    let Reply { text, outcome } = ask(&connection, request)?;
    match outcome {
        Outcome::Done | Outcome::NotSolved => output.print_result(&text),
        Outcome::Failed => output.print_note(&format!("schedlab: {}", text.trim_end())),
    }
    Ok(match outcome {
        Outcome::Done => ExitStatus::Passed,
        Outcome::NotSolved => ExitStatus::Failed,
        Outcome::Failed => ExitStatus::Usage,
    })
}

/// The lesson that runs in a folder.
fn running_lesson(folder: &LabFolder) -> anyhow::Result<Connection> {
    let shown = folder.path().display();
    let start = "start one with `schedlab lab start LESSON`, and keep its terminal open";
    let Some(connection) = folder.connection() else {
        let other = if folder.path() == Path::new(DEFAULT_FOLDER) {
            "; in another folder than its own, name it with --folder DIR"
        } else {
            ""
        };
        let message = format!("no lesson runs in {shown}: {start}{other}");
        return Err(UsageError(message).into());
    };
    if std::net::TcpStream::connect(connection.address).is_err() {
        let kept = evidence_files(folder.path());
        let kept = match kept.as_slice() {
            [] => String::new(),
            files => format!("; its evidence is kept: {}", files.join(", ")),
        };
        let lesson = &connection.lesson;
        let message = format!("lesson {lesson} in {shown} has ended: {start}{kept}");
        return Err(UsageError(message).into());
    }
    Ok(connection)
}

/// The zips in a folder.
fn evidence_files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let zips = paths.filter(|path| path.extension().is_some_and(|extension| extension == "zip"));
    let mut names: Vec<String> = zips.map(|path| path.display().to_string()).collect();
    names.sort();
    names
}

/// The lesson with this id, or in this file.
fn load_lesson(name: &str) -> anyhow::Result<Lesson> {
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "md") || path.exists() {
        return load_lesson_file(path);
    }
    catalogue::find_lesson(name).map_err(|message| UsageError(message).into())
}

fn load_lesson_file(path: &Path) -> anyhow::Result<Lesson> {
    let file = path.display().to_string();
    let text = read_text_file(path)
        .map_err(|unreadable| UsageError(unreadable.message_with_file(&file)))?;
    Ok(Lesson::parse(&file, &text)?)
}
