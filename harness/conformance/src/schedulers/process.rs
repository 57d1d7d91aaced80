//! A scheduler as a process of its own, which reaches the scenario through an [`ApiProxy`].

mod placeholders;
mod readiness;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::SchedulerConnector;
use super::api_proxy::ApiProxy;
use super::configuration::{CONFIGURATION_PLACEHOLDER, configuration_file};
use super::crash_injector::CrashPoint;
use super::supervisor::Supervisor;
use super::target::{
    KUBECONFIG_FILE_NAME, Readiness, TARGET_FOLDER_PLACEHOLDER, Target, TargetProgram,
};
use anyhow::Context as _;
use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::Run;
use schedlab_clusters::process::{ChildProcess, in_own_network};
use schedlab_emulator::http::serve::SelfSignedCertificate;
use schedlab_scheduler::{Config, Flavor};
use tokio::net::TcpListener;
use tokio::sync::watch;

use placeholders::PlaceholderValues;
use readiness::is_ready;

/// Placeholders in the files of a target for a TLS certificate and its private key, as PEM.
const CERTIFICATE_PLACEHOLDER: &str = "{certificate}";
const CERTIFICATE_KEY_PLACEHOLDER: &str = "{certificate-key}";

/// How often the process is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The number of lines of a program's log that messages quote.
const LOG_TAIL_LINES: usize = 5;

/// A scheduler that runs in processes of its own.
pub(crate) struct SchedulerProcess {
    spec: Arc<SchedulerProcessSpec>,
    pub(super) supervisor: Supervisor,
    startup: Arc<watch::Sender<Startup>>,
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
        let startup = watch::Sender::new(Startup::Starting("its start".to_owned()));
        Self {
            spec: Arc::new(start),
            supervisor: Supervisor::new(on_kill),
            startup: Arc::new(startup),
        }
    }

    /// The configuration of the scheduler.
    pub(crate) fn config(&self) -> &Config {
        &self.spec.config
    }

    /// How far the start of the programs is, for callers that wait for it.
    pub(crate) fn subscribe_to_startup(&self) -> watch::Receiver<Startup> {
        self.startup.subscribe()
    }

    /// Starts the programs, unless they are running.
    pub(super) fn start(&mut self) {
        if self.supervisor.is_alive() {
            return;
        }
        let (spec, startup) = (Arc::clone(&self.spec), Arc::clone(&self.startup));
        startup.send_replace(Startup::Starting("its start".to_owned()));
        self.supervisor.start(move |crash_point| {
            let (spec, startup) = (Arc::clone(&spec), Arc::clone(&startup));
            async move {
                Some(
                    spec.run_until_exit(&crash_point, &startup)
                        .await
                        .unwrap_or_else(|error| format!("{error:#}")),
                )
            }
        });
    }
}

impl SchedulerProcessSpec {
    /// Runs one instance until one of its programs ends or it reaches its crash point. Returns how
    /// the instance ended.
    async fn run_until_exit(
        &self,
        crash_point: &Arc<CrashPoint>,
        startup: &watch::Sender<Startup>,
    ) -> anyhow::Result<String> {
        startup.send_replace(Startup::Starting("its first program".to_owned()));
        let mut proxy = ApiProxy::start((self.connector.connect)(Arc::clone(crash_point))).await?;
        let folder = self.run.temp_folder(&self.folder)?;
        let placeholders = self.placeholder_values(&folder)?;
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
                _ => placeholders.fill(text),
            };
            write(name, &text)?;
        }
        let api = Api::new((self.connector.connect)(Arc::default()));
        let mut instance = Instance { programs: BTreeMap::new(), folder, placeholders, api };
        loop {
            self.start_due_programs(&mut instance, &mut proxy)?;
            if let Some(ended) = instance.ended_program() {
                return Ok(ended);
            }
            if crash_point.has_fired() {
                return Ok("it was killed".to_owned());
            }
            if *startup.borrow() != Startup::Up {
                startup.send_replace(instance.startup(&self.target.programs).await);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts the programs that wait for no other program any more.
    fn start_due_programs(
        &self,
        instance: &mut Instance,
        proxy: &mut ApiProxy,
    ) -> anyhow::Result<()> {
        for program in &self.target.programs {
            if instance.can_start(program) {
                let running = self.start_program(program, instance, proxy)?;
                instance.programs.insert(program.name.clone(), running);
            }
        }
        Ok(())
    }

    fn start_program(
        &self,
        program: &TargetProgram,
        instance: &Instance,
        proxy: &mut ApiProxy,
    ) -> anyhow::Result<RunningProgram> {
        let command = instance.placeholders.fill(&program.command);
        let words = ["-c".to_owned(), format!("exec {command}")];
        let log = instance.folder.join(format!("{}.log", program.name));
        let kubeconfig = instance.folder.join(KUBECONFIG_FILE_NAME).display().to_string();
        let path = self.path_with_program_folder();
        let path = path.iter().map(|path| ("PATH", path.as_str()));
        let environment: Vec<_> = path.chain([("KUBECONFIG", &*kubeconfig)]).collect();
        let shell = Path::new("/bin/sh");
        let start =
            || ChildProcess::start_with_watchdog(shell, &words, &environment, &log, &self.run);
        let in_own_network = if program.own_network {
            in_own_network(proxy.port, start)
                .with_context(|| format!("program {}", program.name))?
        } else {
            None
        };
        let child = match in_own_network {
            Some((child, listener)) => {
                let listener = TcpListener::from_std(listener).context("cannot use a socket")?;
                proxy.serve(listener);
                child
            }
            None => start().with_context(|| format!("program {}", program.name))?,
        };
        let ready = program.ready.as_ref().map(|ready| instance.placeholders.fill_readiness(ready));
        Ok(RunningProgram { child, log, ready, is_up: false })
    }

    /// The `PATH` for the scheduler's command, with `program_folder` behind the user's own folders;
    /// `None` if there is no such folder.
    fn path_with_program_folder(&self) -> Option<String> {
        let programs = self.program_folder.as_ref()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain([programs.clone()]);
        std::env::join_paths(folders).ok()?.into_string().ok()
    }

    /// The values of the placeholders in the texts of the target.
    fn placeholder_values(&self, folder: &Path) -> anyhow::Result<PlaceholderValues> {
        let profile = match self.config.flavor {
            Flavor::Kai => "kai",
            Flavor::Kube => "kube",
        };
        let built = self.target.folder.as_ref();
        let own = SelfSignedCertificate::generate()?;
        Ok(PlaceholderValues::new([
            ("{kubeconfig}", folder.join(KUBECONFIG_FILE_NAME).display().to_string()),
            ("{scheduler-name}", self.config.scheduler_name.clone()),
            ("{profile}", profile.to_owned()),
            ("{feature-gates}", self.feature_gates.clone()),
            ("{dir}", folder.display().to_string()),
            (
                TARGET_FOLDER_PLACEHOLDER,
                built.map_or_else(String::new, |p| p.display().to_string()),
            ),
            (CERTIFICATE_PLACEHOLDER, own.certificate),
            (CERTIFICATE_KEY_PLACEHOLDER, own.key),
        ]))
    }
}

/// The running programs of one instance of a scheduler.
struct Instance {
    programs: BTreeMap<String, RunningProgram>,
    /// The folder with the files and logs of the programs.
    folder: PathBuf,
    placeholders: PlaceholderValues,
    /// A client that sees what the programs see.
    api: Api,
}

struct RunningProgram {
    child: ChildProcess,
    log: PathBuf,
    ready: Option<Readiness>,
    is_up: bool,
}

impl Instance {
    /// Whether a program is not started yet, and those that must be up before it are.
    fn can_start(&self, program: &TargetProgram) -> bool {
        let is_up = |name: &String| self.programs.get(name).is_some_and(|program| program.is_up);
        !self.programs.contains_key(&program.name) && program.after.iter().all(is_up)
    }

    /// A message about a program that has ended, with the end of its log.
    fn ended_program(&mut self) -> Option<String> {
        self.programs.iter_mut().find_map(|(name, program)| {
            let how = program.child.exit_status()?;
            Some(format!("program {name} ended ({how}); {}", log_tail(&program.log)))
        })
    }

    /// Checks the programs that are not up yet. Returns what the instance waits for.
    async fn startup(&mut self, programs: &[TargetProgram]) -> Startup {
        for program in self.programs.values_mut().filter(|program| !program.is_up) {
            program.is_up = match &program.ready {
                None => true,
                Some(ready) => is_ready(ready, &program.log, &self.api).await,
            };
        }
        let is_down = |program: &&TargetProgram| {
            self.programs.get(&program.name).is_none_or(|running| !running.is_up)
        };
        match programs.iter().find(is_down) {
            None => Startup::Up,
            Some(waiting) => {
                let log = self.programs.get(&waiting.name).map(|program| log_tail(&program.log));
                let log = log.unwrap_or_else(|| "it is not started".to_owned());
                Startup::Starting(format!("{}: {log}", waiting.name))
            }
        }
    }
}

/// How far the start of a scheduler process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    /// Waits for a program, which the text names with the end of its log.
    Starting(String),
    /// All programs are up.
    Up,
}

/// The last lines of a log.
fn log_tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(LOG_TAIL_LINES);
    format!("last lines of its log: {}", lines[last..].join(" | "))
}

impl std::fmt::Debug for SchedulerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SchedulerProcess")
            .field("target", &self.spec.target.name)
            .finish_non_exhaustive()
    }
}
