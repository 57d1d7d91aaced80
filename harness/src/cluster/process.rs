//! A scheduler as a process of its own, which reaches the scenario through a [`Gate`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Door;
use super::fuse::Fuse;
use super::gate::Gate;
use super::lives::Supervised;
use crate::leftovers::Run;
use crate::processes::Kept;
use crate::target::{KUBECONFIG, LOG, Target, Which};
use anyhow::Context as _;
use schedlab_control_plane::Process as _;
use schedlab_scheduler::{Config, Flavor};

/// How often it is looked after.
const LOOK: Duration = Duration::from_millis(50);

/// A scheduler in a process of its own.
pub(crate) struct Process {
    start: Arc<Start>,
    pub(super) supervised: Supervised,
}

/// What its start takes.
pub(crate) struct Start {
    /// How it reaches the cluster.
    pub(crate) door: Door,
    /// How it is set up, as far as its command line says.
    pub(crate) config: Config,
    /// What it is.
    pub(crate) target: Target,
    /// Where its program may be besides the `PATH`.
    pub(crate) programs: Option<PathBuf>,
    /// Names a folder of its own.
    pub(crate) folder: String,
    /// Where its folder and its process are noted.
    pub(crate) run: Run,
}

impl Process {
    /// A scheduler that does not run yet. `on_kill` is told of every death that a step causes.
    pub(crate) fn new(start: Start, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { start: Arc::new(start), supervised: Supervised::new(on_kill) }
    }

    /// How it is set up.
    pub(crate) fn config(&self) -> &Config {
        &self.start.config
    }

    /// Starts it; one that lives goes on.
    pub(super) fn start(&mut self) {
        if self.supervised.lives() {
            return;
        }
        let start = Arc::clone(&self.start);
        self.supervised.start(move |fuse| {
            let start = Arc::clone(&start);
            async move { Some(start.live(&fuse).await.unwrap_or_else(|error| format!("{error:#}"))) }
        });
    }
}

impl Start {
    /// One life, until the process ends or the fuse blows. Answers how it ended.
    async fn live(&self, fuse: &Arc<Fuse>) -> anyhow::Result<String> {
        let gate = Gate::open((self.door.connect)(Arc::clone(fuse))).await?;
        let folder = self.run.temp_folder(&self.folder)?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(KUBECONFIG, &gate.kubeconfig)?;
        for (name, text) in &self.target.files {
            write(name, &self.filled(text, &folder))?;
        }
        let Which::Process(command) = &self.target.which else {
            anyhow::bail!("{} has no command", self.target.name)
        };
        let words = ["-c".to_owned(), format!("exec {}", self.filled(command, &folder))];
        let log = folder.join(LOG);
        let path = self.path();
        let environment = path.iter().map(|path| ("PATH", path.as_str())).collect::<Vec<_>>();
        let shell = Path::new("/bin/sh");
        let mut kept = Kept::start(shell, &words, &environment, &log, &self.run)?;
        while kept.lives() && !fuse.is_blown() {
            tokio::time::sleep(LOOK).await;
        }
        Ok(last_words(&log))
    }

    /// The `PATH` of its command: what the user has comes first.
    fn path(&self) -> Option<String> {
        let programs = self.programs.as_ref()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([programs.clone()]);
        std::env::join_paths(folders).ok()?.into_string().ok()
    }

    /// A text with its placeholders filled in.
    fn filled(&self, text: &str, folder: &Path) -> String {
        let profile = match self.config.flavor {
            Flavor::Kai => "kai",
            Flavor::Kube => "kube",
        };
        let folder = folder.display().to_string();
        text.replace("{kubeconfig}", &format!("{folder}/{KUBECONFIG}"))
            .replace("{scheduler-name}", &self.config.scheduler_name)
            .replace("{profile}", profile)
            .replace("{dir}", &folder)
    }
}

fn last_words(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(5);
    format!("its process ended; its last words: {}", lines[last..].join(" | "))
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("target", &self.start.target.name).finish_non_exhaustive()
    }
}
