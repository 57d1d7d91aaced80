//! `schedlab demo`: one story in ten seconds, drawn as boxes of GPUs: a team borrows, the owner
//! reclaims, a gang waits and runs whole.

mod frame;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_api::{Value, json};
use schedlab_conformance::world::manifest_objects;
use schedlab_ui::session::{Session, SessionOptions};
use schedlab_view::state::ClusterState;

use super::up::load_fleet;
use super::{CommandOutput, UsageError};
use crate::cli::settings::{ParseError, parse_command_line};
use crate::cli::{Command, Demo};
use crate::exit::ExitStatus;

/// How long a picture stands, where a person watches.
const FRAME_TIME: Duration = Duration::from_millis(400);

/// How much time of the cluster passes from one picture to the next.
const FRAME_STEP: Duration = Duration::from_secs(1);

const QUEUES: &str = include_str!("demo/queues.yaml");

const NEXT: &str = "\
What next?
  schedlab lab start a-quota     learn it yourself, step by step, with kubectl
  schedlab ui                    the same cluster as a page in your browser
  schedlab init my-project       a project of your own
  schedlab run features/reclaim  a part of the suite
";

/// A part of the story.
struct Scene {
    /// What is told.
    text: &'static str,
    /// What happens at its beginning.
    acts: Vec<Act>,
    /// Number of pictures.
    frames: u32,
}

/// Something that happens in the cluster.
enum Act {
    Submit(Value),
    Scale(&'static str, u32),
    Delete(&'static str),
}

/// Tells the story, and runs the suite if that is asked for.
pub fn run_demo_command(args: &Demo) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(tell_story())?;
    let mut output = CommandOutput::for_this_process();
    let mut exit = ExitStatus::Passed;
    if args.suite {
        output.print_result("\nNow every scenario of the suite, on the same emulator:\n\n");
        exit = run_suite()?;
    }
    output.print_result(&format!("\n{NEXT}"));
    Ok(exit)
}

fn run_suite() -> anyhow::Result<ExitStatus> {
    let words = ["schedlab", "run", "features"].map(std::ffi::OsString::from);
    let parsed = parse_command_line(words).map_err(|error| match error {
        ParseError::CommandLine(error) => UsageError(error.to_string()),
        ParseError::Settings(error) => UsageError(error.to_string()),
    })?;
    let Command::Run(args) = parsed.command else {
        anyhow::bail!("these words are the command run")
    };
    super::run(&args)
}

fn scenes() -> Vec<Scene> {
    let borrower = deployment("service", "team-prod", 32);
    let owner = deployment("research", "team-research", 16);
    let filler = deployment("filler", "team-prod", 24);
    vec![
        Scene {
            text: "Two teams share 32 GPUs, each with a quota of 16. team-prod submits 32 pods.",
            acts: vec![Act::Submit(borrower)],
            frames: 4,
        },
        Scene {
            text: "BORROW: team-research is idle, so team-prod runs on all 32 GPUs.",
            acts: Vec::new(),
            frames: 3,
        },
        Scene {
            text: "RECLAIM: team-research submits 16 pods. Exactly 16 borrowed GPUs come back.",
            acts: vec![Act::Submit(owner)],
            frames: 6,
        },
        Scene {
            text: "A new day: 24 pods run, 8 GPUs are free.",
            acts: vec![Act::Delete("service"), Act::Delete("research"), Act::Submit(filler)],
            frames: 5,
        },
        Scene {
            text: "GANG: a job of 10 needs all of its pods. It takes none of the 8 free GPUs.",
            acts: vec![Act::Submit(gang())],
            frames: 4,
        },
        Scene {
            text: "GANG: two pods end, 10 GPUs are free, and the job starts whole.",
            acts: vec![Act::Scale("filler", 22)],
            frames: 6,
        },
    ]
}

async fn tell_story() -> anyhow::Result<()> {
    let objects = manifest_objects("the queues of the demo", QUEUES).map_err(UsageError)?;
    let options = SessionOptions { fleet: load_fleet(None)?, objects, seed: 1 };
    let session = Session::start(options).await?;
    let mut screen = Screen::for_this_process();
    for scene in scenes() {
        for act in scene.acts {
            perform(&session, act).await?;
        }
        for frame in 1..=scene.frames {
            session.advance(FRAME_STEP).await?;
            let state = session.state_at(u64::MAX);
            screen.show(scene.text, &state, frame == scene.frames).await;
        }
    }
    Ok(())
}

async fn perform(session: &Session, act: Act) -> anyhow::Result<()> {
    match act {
        Act::Submit(object) => session.apply(vec![object]).await,
        Act::Scale(name, replicas) => {
            let change = json!({ "spec": { "replicas": replicas } });
            session.merge_patch(deployment_path(name), change).await
        }
        Act::Delete(name) => session.delete(deployment_path(name)).await,
    }
}

fn deployment_path(name: &str) -> String {
    format!("/apis/apps/v1/namespaces/default/deployments/{name}")
}

/// Where pictures are drawn. On a terminal each replaces the one before; elsewhere the last picture
/// of each scene is printed.
struct Screen {
    output: CommandOutput,
    is_terminal: bool,
    /// Number of lines of the last picture.
    lines: usize,
}

impl Screen {
    fn for_this_process() -> Self {
        let output = CommandOutput::for_this_process();
        Self { output, is_terminal: std::io::stdout().is_terminal(), lines: 0 }
    }

    async fn show(&mut self, text: &str, state: &ClusterState, is_last: bool) {
        if !self.is_terminal && !is_last {
            return;
        }
        let picture = frame::picture(text, state, self.output.colors);
        let mut shown = String::new();
        if self.is_terminal && self.lines > 0 {
            // Up to the first line of the last picture, and clear to the end.
            let _ = write!(shown, "\u{1b}[{}A\u{1b}[J", self.lines);
        }
        self.lines = picture.lines().count();
        self.output.print_result(&(shown + &picture));
        if self.is_terminal {
            tokio::time::sleep(FRAME_TIME).await;
        }
    }
}

fn deployment(name: &str, queue: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": pod_template(name, queue),
        },
    })
}

fn gang() -> Value {
    let mut template = pod_template("gang", "training");
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gang",
            "namespace": "default",
            "labels": { "kai.scheduler/queue": "training" },
            "annotations": { "kai.scheduler/batch-min-member": "10" },
        },
        "spec": { "parallelism": 10, "completions": 10, "template": template },
    })
}

fn pod_template(name: &str, queue: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": name, "kai.scheduler/queue": queue } },
        "spec": {
            "schedulerName": "kai-scheduler",
            "priorityClassName": "train",
            "containers": [{
                "name": "main",
                "image": "train",
                "resources": { "limits": { "nvidia.com/gpu": 1 } },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use schedlab_conformance::report::Colors;

    use super::*;

    /// Plays a scene to its end.
    async fn play(session: &Session, scene: Scene) {
        for act in scene.acts {
            perform(session, act).await.unwrap();
        }
        for _ in 0..scene.frames {
            session.advance(FRAME_STEP).await.unwrap();
        }
    }

    /// The last picture of each scene.
    #[tokio::test]
    async fn the_story_shows_borrowing_reclaim_and_a_gang() {
        let objects = manifest_objects("queues", QUEUES).unwrap();
        let options = SessionOptions { fleet: load_fleet(None).unwrap(), objects, seed: 1 };
        let session = Session::start(options).await.unwrap();
        let mut pictures = Vec::new();
        for scene in scenes() {
            let text = scene.text;
            play(&session, scene).await;
            let state = session.state_at(u64::MAX);
            pictures.push(frame::picture(text, &state, Colors::Off));
        }
        let count = |picture: &String, letter: &str| {
            let nodes = picture.lines().filter(|line| line.contains("node-"));
            nodes.map(|line| line.matches(letter).count()).sum::<usize>()
        };
        let used = pictures.iter().map(|one| ["[P]", "[R]", "[T]"].map(|of| count(one, of)));
        let expected = [[32, 0, 0], [32, 0, 0], [16, 16, 0], [24, 0, 0], [24, 0, 0], [22, 0, 10]];
        assert_eq!(used.collect::<Vec<_>>(), expected);
    }
}
