//! `schedlab lab start`: runs a lesson and its cluster until Ctrl-C.

use anyhow::Context as _;
use schedlab_clusters::interrupt::StopSignals;
use schedlab_emulator::clock::Clock;
use schedlab_lab::folder::LabFolder;
use schedlab_lab::lesson::Lesson;
use schedlab_lab::record::SessionStart;
use schedlab_lab::server::{LessonServer, lesson_text};
use schedlab_lab::session::LessonSession;

use super::super::{CommandOutput, UsageError};
use super::load_lesson;
use crate::cli::LabStart;
use crate::exit::ExitStatus;

pub(super) fn start_lesson(args: &LabStart) -> anyhow::Result<ExitStatus> {
    let lesson = load_lesson(&args.lesson)?;
    let folder = LabFolder::find(args.folder.folder.as_deref());
    check_folder_is_free(&folder)?;
    // Time of the cluster is virtual, and follows real time while no command runs.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(run_lesson(args, lesson, folder))
}

/// Fails if a lesson runs in the folder, or if it is a folder of something else.
fn check_folder_is_free(folder: &LabFolder) -> anyhow::Result<()> {
    let shown = folder.path().display();
    if let Some(connection) = folder.connection()
        && std::net::TcpStream::connect(connection.address).is_ok()
    {
        let message = format!(
            "lesson {} runs in {shown}: end it with Ctrl-C in its terminal, or use another folder \
             with --folder DIR",
            connection.lesson
        );
        return Err(UsageError(message).into());
    }
    if folder.path().exists() && !folder.path().is_dir() {
        return Err(UsageError(format!("{shown}: got a file, expected a folder")).into());
    }
    Ok(())
}

async fn run_lesson(
    args: &LabStart,
    lesson: Lesson,
    folder: LabFolder,
) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let mut signals = StopSignals::listen()?;
    let learner = args.learner.clone().or_else(|| std::env::var("USER").ok());
    let start = SessionStart {
        learner: learner.filter(|name| !name.is_empty()).unwrap_or_else(|| "learner".to_owned()),
        time: Clock::real().now(),
        session: random_text()?,
    };
    let files = folder.write_lesson_files(&lesson)?;
    let session = LessonSession::start(lesson, start).await?;
    let text = lesson_text(&session, &folder);
    let server = LessonServer::start(session, folder.clone(), args.port, random_text()?).await?;
    output.print_result(&format!("{text}\n{}", next_commands(&folder, server.session().lesson())));
    for file in files {
        output.print_note(&format!(
            "kept your {file}; delete it before `schedlab lab start` to get the original"
        ));
    }
    let stop = async move { signals.wait_for_signal().await };
    let evidence = server.run(stop).await?;
    if let Some(path) = evidence {
        output.print_note(&format!("evidence: {}", path.display()));
    }
    output.print_note("the lesson has ended");
    Ok(ExitStatus::Passed)
}

/// What to type in another terminal.
fn next_commands(folder: &LabFolder, lesson: &Lesson) -> String {
    let path = folder.lesson_folder(&lesson.id);
    let whole = std::path::absolute(folder.kubeconfig()).unwrap_or_else(|_| folder.kubeconfig());
    format!(
        "The cluster runs until Ctrl-C. In another terminal, in this folder:\n\n  export \
         KUBECONFIG={}\n  cd {}; kubectl get nodes\n\n  schedlab lab verify      what is right so far\n  \
         schedlab lab hint        one of three hints\n  schedlab lab quiz        questions about the \
         cluster\n  schedlab lab show        this text\n\nWithout kubectl: schedlab lab kubectl get \
         pods, schedlab lab kubectl describe pod NAME, schedlab lab apply -f FILE\nThe cluster's clock \
         may be ahead of yours: then `kubectl describe` prints <invalid> as an age, and `schedlab lab \
         kubectl describe` the right one.\n",
        whole.display(),
        path.display(),
    )
}

/// A text that cannot be guessed.
fn random_text() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).context("cannot get random bytes")?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
