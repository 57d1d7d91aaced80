//! A scheduler as a process of its own, which reaches the scenario through an [`ApiProxy`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::SchedulerConnector;
use super::api_proxy::ApiProxy;
use super::configuration::{CONFIGURATION_PLACEHOLDER, configuration_file};
use super::crash_injector::CrashPoint;
use super::supervisor::Supervisor;
use super::target::{KUBECONFIG_FILE_NAME, LOG_FILE_NAME, Target};
use anyhow::Context as _;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::process::ChildProcess;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_control_plane::Process as _;
use schedlab_scheduler::{Config, Flavor};

/// How often the process is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A scheduler that runs in a process of its own.
pub(crate) struct SchedulerProcess {
    spec: Arc<SchedulerProcessSpec>,
    pub(super) supervisor: Supervisor,
}

/// Everything that is needed to start the scheduler process.
pub(crate) struct SchedulerProcessSpec {
    /// Creates clients through which the process reaches the cluster.
    pub(crate) connector: SchedulerConnector,
    /// The configuration of the scheduler, as far as the command line determines it.
    pub config: Config,
    /// The target: the scheduler's command and files.
    pub target: Target,
    /// The texts of the scheduler's configuration file that steps have set.
    pub configuration_texts: Vec<String>,
    /// The feature gates that the scenario needs: `GenericWorkload=true,…`.
    pub feature_gates: String,
    /// A folder that is searched for programs in addition to the `PATH`.
    pub program_folder: Option<PathBuf>,
    /// The name of the folder for the files of the process.
    pub folder: String,
    /// The run that registers the folder and the process.
    pub run: Run,
}

impl SchedulerProcess {
    /// A scheduler that is not started yet. `on_kill` is called whenever a step stops or kills it.
    pub(crate) fn new(start: SchedulerProcessSpec, on_kill: Box<dyn Fn() + Send + Sync>) -> Self {
        Self { spec: Arc::new(start), supervisor: Supervisor::new(on_kill) }
    }

    /// The configuration of the scheduler.
    pub(crate) fn config(&self) -> &Config {
        &self.spec.config
    }

    /// Starts the process, unless it is running.
    pub(super) fn start(&mut self) {
        if self.supervisor.is_alive() {
            return;
        }
        let spec = Arc::clone(&self.spec);
        self.supervisor.start(move |crash_point| {
            let spec = Arc::clone(&spec);
            async move {
                Some(
                    spec.run_until_exit(&crash_point)
                        .await
                        .unwrap_or_else(|error| format!("{error:#}")),
                )
            }
        });
    }
}

impl SchedulerProcessSpec {
    /// Runs one instance until the process ends or reaches its crash point. Returns how the process
    /// ended.
    async fn run_until_exit(&self, crash_point: &Arc<CrashPoint>) -> anyhow::Result<String> {
        let proxy = ApiProxy::start((self.connector.connect)(Arc::clone(crash_point))).await?;
        let folder = self.run.temp_folder(&self.folder)?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        write(KUBECONFIG_FILE_NAME, &proxy.kubeconfig)?;
        for (name, text) in &self.target.files {
            let text = match text.trim() {
                CONFIGURATION_PLACEHOLDER => {
                    configuration_file(&self.config, &self.configuration_texts)?
                }
                _ => self.fill_placeholders(text, &folder),
            };
            write(name, &text)?;
        }
        let SchedulerSource::Process(command) = &self.target.source else {
            anyhow::bail!("target {} has no command", self.target.name)
        };
        let words = ["-c".to_owned(), format!("exec {}", self.fill_placeholders(command, &folder))];
        let log = folder.join(LOG_FILE_NAME);
        let path = self.path_with_program_folder();
        let environment = path.iter().map(|path| ("PATH", path.as_str())).collect::<Vec<_>>();
        let shell = Path::new("/bin/sh");
        let mut child =
            ChildProcess::start_with_watchdog(shell, &words, &environment, &log, &self.run)?;
        while child.is_running() && !crash_point.has_fired() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(exit_message_with_log(&log))
    }

    /// The `PATH` for the scheduler's command, with `program_folder` behind the user's own folders;
    /// `None` if there is no such folder.
    fn path_with_program_folder(&self) -> Option<String> {
        let programs = self.program_folder.as_ref()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([programs.clone()]);
        std::env::join_paths(folders).ok()?.into_string().ok()
    }

    /// Replaces the placeholders in a text of the target by their values.
    fn fill_placeholders(&self, text: &str, folder: &Path) -> String {
        let profile = match self.config.flavor {
            Flavor::Kai => "kai",
            Flavor::Kube => "kube",
        };
        let folder = folder.display().to_string();
        text.replace("{kubeconfig}", &format!("{folder}/{KUBECONFIG_FILE_NAME}"))
            .replace("{scheduler-name}", &self.config.scheduler_name)
            .replace("{profile}", profile)
            .replace("{feature-gates}", &self.feature_gates)
            .replace("{dir}", &folder)
    }
}

fn exit_message_with_log(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.len().saturating_sub(5);
    format!("the scheduler's process ended; last lines of its log: {}", lines[last..].join(" | "))
}

impl std::fmt::Debug for SchedulerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerProcess")
            .field("target", &self.spec.target.name)
            .finish_non_exhaustive()
    }
}
