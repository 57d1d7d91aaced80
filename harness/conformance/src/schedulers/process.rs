//! A scheduler as a process of its own, which reaches the scenario through an [`ApiProxy`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Connector;
use super::api_proxy::ApiProxy;
use super::crash_injector::CrashPoint;
use super::supervisor::Supervisor;
use super::target::{KUBECONFIG, LOG, Target};
use anyhow::Context as _;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::process::ChildProcess;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_control_plane::Process as _;
use schedlab_scheduler::{Config, Flavor};

/// How often the process is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A scheduler that runs in a process of its own.
pub(crate) struct SchedulerProcess {
    spec: Arc<ProcessSpec>,
    pub(super) supervisor: Supervisor,
}

/// Everything needed to start the process.
pub(crate) struct ProcessSpec {
    /// How it reaches the cluster.
    pub(crate) connector: Connector,
    /// Its configuration, as far as the command line determines it.
    pub config: Config,
    /// The target: its command and files.
    pub target: Target,
    /// The feature gates that the scenario needs: `GenericWorkload=true,…`.
    pub feature_gates: String,
    /// A folder with programs, in addition to the `PATH`.
    pub program_folder: Option<PathBuf>,
    /// The name of the folder for its files.
    pub folder: String,
    /// The run that registers the folder and the process.
    pub run: Run,
}

impl SchedulerProcess {
    /// A scheduler that is not started yet. `on_kill` is called whenever a step stops or kills it.
    pub(crate) fn new(start: ProcessSpec, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { spec: Arc::new(start), supervisor: Supervisor::new(on_kill) }
    }

    /// Its configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.spec.config
    }

    /// Starts it, unless it is running.
    pub(super) fn start(&mut self) {
        if self.supervisor.is_alive() {
            return;
        }
        let spec = Arc::clone(&self.spec);
        self.supervisor.start(move |crash_point| {
            let spec = Arc::clone(&spec);
            async move {
                Some(spec.run_once(&crash_point).await.unwrap_or_else(|error| format!("{error:#}")))
            }
        });
    }
}

impl ProcessSpec {
    /// Runs one instance until the process ends or reaches its crash point. Returns how it ended.
    async fn run_once(&self, crash_point: &Arc<CrashPoint>) -> anyhow::Result<String> {
        let proxy = ApiProxy::start((self.connector.connect)(Arc::clone(crash_point))).await?;
        let folder = self.run.temp_folder(&self.folder)?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(KUBECONFIG, &proxy.kubeconfig)?;
        for (name, text) in &self.target.files {
            write(name, &self.fill_placeholders(text, &folder))?;
        }
        let SchedulerSource::Process(command) = &self.target.source else {
            anyhow::bail!("target {} has no command", self.target.name)
        };
        let words = ["-c".to_owned(), format!("exec {}", self.fill_placeholders(command, &folder))];
        let log = folder.join(LOG);
        let path = self.path();
        let environment = path.iter().map(|path| ("PATH", path.as_str())).collect::<Vec<_>>();
        let shell = Path::new("/bin/sh");
        let mut child = ChildProcess::start(shell, &words, &environment, &log, &self.run)?;
        while child.is_running() && !crash_point.has_fired() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(exit_message(&log))
    }

    /// The `PATH` for its command: the user's own folders come first.
    fn path(&self) -> Option<String> {
        let programs = self.program_folder.as_ref()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([programs.clone()]);
        std::env::join_paths(folders).ok()?.into_string().ok()
    }

    /// Fills in the placeholders of a text.
    fn fill_placeholders(&self, text: &str, folder: &Path) -> String {
        let profile = match self.config.flavor {
            Flavor::Kai => "kai",
            Flavor::Kube => "kube",
        };
        let folder = folder.display().to_string();
        text.replace("{kubeconfig}", &format!("{folder}/{KUBECONFIG}"))
            .replace("{scheduler-name}", &self.config.scheduler_name)
            .replace("{profile}", profile)
            .replace("{feature-gates}", &self.feature_gates)
            .replace("{dir}", &folder)
    }
}

fn exit_message(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(5);
    format!("its process ended; last lines of its log: {}", lines[last..].join(" | "))
}

impl std::fmt::Debug for SchedulerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerProcess")
            .field("target", &self.spec.target.name)
            .finish_non_exhaustive()
    }
}
