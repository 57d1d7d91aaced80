//! The process of a running lesson: serves its cluster to kubectl, and answers `schedlab lab` in
//! other terminals. The cluster's time passes as real time does, except while a command runs: then
//! it passes as fast as the cluster is idle. A page beside the lesson may stop the time or speed it
//! up.

use std::fmt::{self, Write as _};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures::future::BoxFuture;
use schedlab_conformance::runner::live::LiveCluster;
use schedlab_emulator::Server;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use crate::commands::{LabCommand, parse_command, split_words};
use crate::folder::{Connection, LabFolder};
use crate::session::{LessonSession, QuestionReport, VerifyReport};

/// How long real time passes before the cluster's time follows.
const TICK: Duration = Duration::from_millis(50);

/// Maximum length of a request in bytes.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// What a command asks of the running lesson.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The text of the lesson.
    Lesson,
    /// Whether the tasks are solved.
    Verify,
    /// The next hint.
    Hint,
    /// The solution.
    Solution,
    /// The questions.
    Quiz,
    /// An answer.
    Answer {
        /// Number of the question, from 1.
        number: usize,
        /// The answer.
        text: String,
    },
    /// Time passes.
    Wait {
        /// How much, in milliseconds.
        millis: u64,
    },
    /// A command of kubectl is carried out, with the files in the lesson's folder.
    Command {
        /// The command, such as `kubectl apply -f research.yaml`.
        line: String,
    },
    /// The lesson starts again.
    Reset,
    /// Objects of the lesson that were deleted are created again.
    RestoreMissing,
    /// The evidence is written.
    Evidence {
        /// Whole path of the file; `None`: into the lesson's folder.
        path: Option<PathBuf>,
    },
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What is printed.
    pub text: String,
    /// How it went.
    pub outcome: Outcome,
    /// The result of [`Request::Verify`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifyReport>,
    /// The questions of [`Request::Quiz`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionReport>,
}

impl Reply {
    fn new(text: String, outcome: Outcome) -> Self {
        Self { text, outcome, verified: None, questions: Vec::new() }
    }
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// As asked.
    Done,
    /// A task is not solved, or an answer is wrong.
    NotSolved,
    /// The request could not be carried out.
    Failed,
}

#[derive(Serialize, Deserialize)]
struct Call {
    token: String,
    request: Request,
}

type Job = (Request, oneshot::Sender<Reply>);

/// Asks the running lesson from within its process.
#[derive(Clone, Debug)]
pub struct LessonClient(mpsc::Sender<Job>);

impl LessonClient {
    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// The lesson has ended.
    pub async fn ask(&self, request: Request) -> anyhow::Result<Reply> {
        let (sender, receiver) = oneshot::channel();
        let ended = || anyhow!("the lesson has ended");
        self.0.send((request, sender)).await.map_err(|_| ended())?;
        receiver.await.map_err(|_| ended())
    }
}

/// A page beside the lesson.
#[allow(missing_debug_implementations, reason = "a function has none")]
pub struct PageLink {
    /// Work on the cluster. It is done one after the other, and time passes for it as fast as the
    /// cluster is idle.
    pub work: mpsc::UnboundedReceiver<BoxFuture<'static, ()>>,
    /// Seconds of cluster time in a second of real time; 0 stops the time.
    pub speed: watch::Receiver<u32>,
    /// Called with each new cluster, after the lesson was started again.
    pub on_cluster: Box<dyn Fn(&LiveCluster)>,
}

/// The running lesson.
pub struct LessonServer {
    session: LessonSession,
    folder: LabFolder,
    server: Server,
    jobs: mpsc::Receiver<Job>,
    client: LessonClient,
    page: Option<PageLink>,
    _accepting: tokio::task::JoinHandle<()>,
}

impl fmt::Debug for LessonServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LessonServer").field("session", &self.session).finish_non_exhaustive()
    }
}

impl LessonServer {
    /// Serves a lesson: its cluster on `port` (0: a free one), and commands. Writes the files of
    /// the folder.
    ///
    /// # Errors
    /// The port is taken, or a file cannot be written.
    pub async fn start(
        session: LessonSession,
        folder: LabFolder,
        port: u16,
        token: String,
    ) -> anyhow::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = session.cluster().emulator().serve(address).await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("no port is free")?;
        let (sender, jobs) = mpsc::channel(8);
        let connection = Connection {
            address: listener.local_addr()?,
            token: token.clone(),
            lesson: session.lesson().id.clone(),
            namespace: session.lesson().namespace.clone(),
        };
        folder.write_connection(&connection)?;
        let client = LessonClient(sender.clone());
        let accepting = tokio::spawn(accept_calls(listener, token, sender));
        let running =
            Self { session, folder, server, jobs, client, page: None, _accepting: accepting };
        running.write_kubeconfig()?;
        Ok(running)
    }

    /// The lesson that runs.
    pub fn session(&self) -> &LessonSession {
        &self.session
    }

    /// A client for requests from within this process.
    pub fn client(&self) -> LessonClient {
        self.client.clone()
    }

    /// Lets a page act on the cluster and decide how fast its time passes.
    pub fn attach_page(&mut self, page: PageLink) {
        self.page = Some(page);
    }

    fn write_kubeconfig(&self) -> anyhow::Result<()> {
        let namespace = &self.session.lesson().namespace;
        let text = &self.server.kubeconfig;
        self.folder.write_kubeconfig(
            &text.replace("namespace: default", &format!("namespace: {namespace}")),
        )
    }

    /// Runs until `stop` ends. Then writes the evidence, if the learner has verified anything, and
    /// removes the files that lead to the cluster. Returns the path of the evidence.
    ///
    /// # Errors
    /// The evidence cannot be written.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> anyhow::Result<Option<PathBuf>> {
        tokio::pin!(stop);
        loop {
            let speed = self.page.as_ref().map_or(1, |page| *page.speed.borrow());
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some((request, reply)) = self.jobs.recv() => {
                    let answer = self.respond(request).await;
                    // The command may have been interrupted.
                    let _ = reply.send(answer);
                }
                Some(work) = next_work(self.page.as_mut()) => work.await,
                () = follow_real_time(speed) => {}
            }
        }
        let record = self.session.record();
        let is_worth_keeping = record.verifications > 0;
        self.folder.remove_connection();
        let path = if is_worth_keeping { Some(self.write_evidence().await?) } else { None };
        self.server.shut_down().await;
        Ok(path)
    }

    async fn respond(&mut self, request: Request) -> Reply {
        let done = self.carry_out(request).await;
        done.unwrap_or_else(|error| Reply::new(format!("{error:#}\n"), Outcome::Failed))
    }

    async fn carry_out(&mut self, request: Request) -> anyhow::Result<Reply> {
        let session = &mut self.session;
        let reply = Reply::new;
        let solved = |is: bool| if is { Outcome::Done } else { Outcome::NotSolved };
        Ok(match request {
            Request::Lesson => reply(lesson_text(session, &self.folder), Outcome::Done),
            Request::Verify => {
                let report = session.verify().await?;
                let text = report.to_string();
                let outcome = solved(report.is_solved());
                Reply { verified: Some(report), ..reply(text, outcome) }
            }
            Request::Hint => {
                let (number, hint) = session.next_hint();
                reply(format!("Hint {number} of 3: {hint}\n"), Outcome::Done)
            }
            Request::Solution => reply(format!("{}\n", session.solution()), Outcome::Done),
            Request::Quiz => {
                let questions = session.quiz();
                Reply { questions, ..reply(quiz_text(session), Outcome::Done) }
            }
            Request::Answer { number, text } => {
                let report = session.answer(number, &text).await?;
                reply(report.to_string(), solved(report.is_right))
            }
            Request::Wait { millis } => {
                session.wait(Duration::from_millis(millis)).await?;
                let now = session.cluster().emulator().clock().now();
                reply(format!("the cluster's time is now {now:.0}\n"), Outcome::Done)
            }
            Request::Command { line } => reply(self.run_line(&line).await?, Outcome::Done),
            Request::Reset => {
                let is_worth_keeping = session.record().solved_tasks() > 0;
                let kept = if is_worth_keeping { Some(self.write_evidence().await?) } else { None };
                let session = &mut self.session;
                session.reset().await?;
                self.serve_new_cluster().await?;
                if let Some(page) = &self.page {
                    (page.on_cluster)(self.session.cluster());
                }
                let text = "the lesson starts again on a new cluster; your files, answers and hints \
                            are kept\n";
                let kept = kept.map(|path| format!("evidence so far: {}\n", path.display()));
                reply(format!("{text}{}", kept.unwrap_or_default()), Outcome::Done)
            }
            Request::RestoreMissing => {
                let restored = session.restore_missing().await?;
                let text = restored_text(&restored, &session.deleted_objects());
                reply(text, Outcome::Done)
            }
            Request::Evidence { path } => {
                let path = match path {
                    None => self.write_evidence().await?,
                    Some(path) => {
                        let evidence = session.evidence().await?;
                        let shown = path.display();
                        anyhow::ensure!(
                            evidence.may_overwrite(&path),
                            "--output: got {shown}, which has other work in it, expected a new file"
                        );
                        evidence.write(&path)?;
                        path
                    }
                };
                let whole = std::path::absolute(&path).unwrap_or(path);
                reply(format!("{}\n", whole.display()), Outcome::Done)
            }
        })
    }

    /// Carries out a command of kubectl. Returns what kubectl would print.
    async fn run_line(&mut self, line: &str) -> anyhow::Result<String> {
        let mut words = split_words(line).map_err(|message| anyhow!(message))?;
        if !matches!(words.first().map(String::as_str), Some("kubectl" | "schedlab")) {
            words.insert(0, "kubectl".to_owned());
        }
        let command = parse_command(&words).map_err(|message| anyhow!(message))?;
        if command == LabCommand::Show {
            let verbs = "apply, delete, scale, patch, cordon or uncordon";
            anyhow::bail!("got {line:?}, expected kubectl {verbs}; the page shows the cluster");
        }
        let folder = self.folder.lesson_folder(&self.session.lesson().id);
        let read_file = |name: &str| {
            anyhow::ensure!(!name.contains('/'), "got file {name:?}, expected one of the lesson");
            let path = folder.join(name);
            std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))
        };
        let lines = self.session.run_command(&command, &read_file).await?;
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        Ok(text)
    }

    /// Writes the evidence into the lesson's folder, and keeps that of other sessions. Returns its
    /// path.
    async fn write_evidence(&mut self) -> anyhow::Result<PathBuf> {
        let record = self.session.record();
        let path = self.folder.evidence(&record.lesson, &record.learner);
        let evidence = self.session.evidence().await?;
        let path = evidence.free_path(&path);
        evidence.write(&path)?;
        Ok(path)
    }

    /// Serves the cluster of a lesson that started again, at the same address.
    async fn serve_new_cluster(&mut self) -> anyhow::Result<()> {
        let address = self.server.address;
        // The address is free only when the old server has ended.
        let emulator = self.session.cluster().emulator().clone();
        let placeholder = emulator.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let old = std::mem::replace(&mut self.server, placeholder);
        old.shut_down().await;
        let server = emulator.serve(address).await?;
        let placeholder = std::mem::replace(&mut self.server, server);
        placeholder.shut_down().await;
        self.write_kubeconfig()
    }
}

/// The next work that the page sends; none ever without a page.
async fn next_work(page: Option<&mut PageLink>) -> Option<BoxFuture<'static, ()>> {
    match page {
        Some(page) => page.work.recv().await,
        None => std::future::pending().await,
    }
}

/// Lets the cluster's time pass `speed` times as fast as real time does. Time does not pass by itself
/// meanwhile, because a blocking task runs.
async fn follow_real_time(speed: u32) {
    let waited = tokio::task::spawn_blocking(|| {
        let (_sender, nothing) = std::sync::mpsc::channel::<()>();
        nothing.recv_timeout(TICK)
    })
    .await;
    match speed {
        0 => {}
        1 if waited.is_ok() => tokio::time::advance(TICK).await,
        // Timers within the time go off one after the other.
        speed => tokio::time::sleep(TICK * speed).await,
    }
}

/// The lesson as the learner reads it.
pub fn lesson_text(session: &LessonSession, folder: &LabFolder) -> String {
    let lesson = session.lesson();
    let given: Vec<&str> =
        lesson.files.iter().filter(|file| file.is_given).map(|file| file.name.as_str()).collect();
    let path = folder.lesson_folder(&lesson.id);
    let files = match given.as_slice() {
        [] => String::new(),
        names => format!("\n\nFiles in {}: {}", path.display(), names.join(", ")),
    };
    let tasks = lesson.tasks.iter().enumerate();
    let tasks: Vec<String> =
        tasks.map(|(index, task)| format!("  {}. {}", index + 1, task.title())).collect();
    format!(
        "{title} (about {minutes} minutes)\n\nGOAL\n{goal}\n\nBACKGROUND\n{background}\n\nTASK\n{task}\
         {files}\n\n`schedlab lab verify` checks:\n{tasks}\n",
        title = lesson.title,
        minutes = lesson.minutes,
        goal = lesson.goal,
        background = lesson.background,
        task = lesson.task,
        tasks = tasks.join("\n"),
    )
}

fn quiz_text(session: &LessonSession) -> String {
    let mut text = String::new();
    for (index, question) in session.quiz().iter().enumerate() {
        let mark = match (&question.given, question.is_right) {
            (None, _) => "○",
            (Some(_), true) => "✔",
            (Some(_), false) => "✘",
        };
        let first = question.waits_for_task.map(|task| format!(" (solve task {task} first)"));
        let first = first.unwrap_or_default();
        let _ = writeln!(text, "{mark} {}. {}{first}", index + 1, question.text);
    }
    text + "\nAnswer with: schedlab lab answer NUMBER ANSWER\n"
}

fn restored_text(restored: &[String], deleted: &[String]) -> String {
    let restored = match restored {
        [] => "no node and no queue of the lesson is missing\n".to_owned(),
        all => format!("created again: {}\n", all.join(", ")),
    };
    match deleted {
        [] => restored,
        all => format!(
            "{restored}still missing: {}; --missing creates nodes and queues only, `schedlab lab \
             reset` starts the lesson again\n",
            all.join(", ")
        ),
    }
}

async fn accept_calls(listener: TcpListener, token: String, jobs: mpsc::Sender<Job>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (token, jobs) = (token.clone(), jobs.clone());
        tokio::spawn(async move {
            // A broken connection concerns the command alone.
            let _ = answer_call(stream, &token, &jobs).await;
        });
    }
}

async fn answer_call(
    mut stream: tokio::net::TcpStream,
    token: &str,
    jobs: &mpsc::Sender<Job>,
) -> anyhow::Result<()> {
    let (reading, mut writing) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(reading.take(REQUEST_BYTES_MAX)).read_line(&mut line).await?;
    let call: Call = serde_json::from_str(&line)?;
    let reply = if call.token == token {
        let (sender, receiver) = oneshot::channel();
        jobs.send((call.request, sender)).await?;
        receiver.await?
    } else {
        Reply::new("the token is wrong\n".to_owned(), Outcome::Failed)
    };
    let text = serde_json::to_string(&reply)? + "\n";
    writing.write_all(text.as_bytes()).await?;
    Ok(())
}

/// Asks the running lesson.
///
/// # Errors
/// The lesson does not run any more.
pub fn ask(connection: &Connection, request: Request) -> anyhow::Result<Reply> {
    let mut stream = TcpStream::connect(connection.address)?;
    let call = Call { token: connection.token.clone(), request };
    writeln!(stream, "{}", serde_json::to_string(&call)?)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    anyhow::ensure!(!line.is_empty(), "the lesson ended meanwhile");
    Ok(serde_json::from_str(&line)?)
}
