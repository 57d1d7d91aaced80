//! A scheduler in processes of its own, on a cluster that belongs to no scenario.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schedlab_clusters::api::Api;
use schedlab_clusters::cleanup::Run;
use schedlab_emulator::clock::Clock;
use schedlab_scheduler::Config;

use super::process::{SchedulerProcess, SchedulerProcessSpec};
use super::target::Target;
use super::{SchedulerConnector, SchedulerControl as _, SchedulerUnderTest};

/// How long the programs of a scheduler may take to be up.
const STARTUP_LIMIT: Duration = Duration::from_mins(1);

/// What a standalone scheduler is started with.
pub struct StandaloneSetup {
    /// The scheduler.
    pub target: Target,
    /// Its configuration, as far as schedlab sets it.
    pub config: Config,
    /// Creates a client for the cluster.
    pub connect: Arc<dyn Fn() -> kube::Client + Send + Sync>,
    /// The clock of the cluster.
    pub clock: Clock,
    /// A folder that is searched for programs in addition to the `PATH`.
    pub program_folder: Option<PathBuf>,
    /// The run that registers files and processes.
    pub run: Run,
}

/// A running scheduler in processes of its own. Dropping it kills them.
pub struct StandaloneScheduler {
    name: String,
    scheduler: SchedulerUnderTest,
}

impl StandaloneScheduler {
    /// Creates what the scheduler needs on the cluster, starts its programs, and waits until they
    /// are up.
    ///
    /// # Errors
    /// The cluster rejects an object, or a program ends or is not up within a minute: the message
    /// has the end of its log.
    pub async fn start(setup: StandaloneSetup) -> anyhow::Result<Self> {
        let StandaloneSetup { target, config, connect, clock, program_folder, run } = setup;
        let mut api = Api::new(connect());
        let (definitions, classes) = target.cluster_objects()?;
        for object in definitions.iter().chain(&classes).chain(&target.scenario_objects()?) {
            api.create_if_absent(object).await?;
        }
        let connector = SchedulerConnector { connect: Arc::new(move |_| connect()), clock };
        let name = target.name.clone();
        let spec = SchedulerProcessSpec {
            connector,
            config,
            target,
            configuration_texts: Vec::new(),
            feature_gates: String::new(),
            program_folder,
            folder: "scheduler".to_owned(),
            run,
        };
        let process = SchedulerProcess::new(spec, Box::new(|| ()));
        let mut scheduler = SchedulerUnderTest::Process(Box::new(process));
        scheduler.start();
        let started = Self { name, scheduler };
        started.wait_until_up().await?;
        Ok(started)
    }

    async fn wait_until_up(&self) -> anyhow::Result<()> {
        self.scheduler.wait_until_up(&self.name, STARTUP_LIMIT).await?;
        self.exit_text().map_or(Ok(()), |ended| anyhow::bail!(ended))
    }

    /// How the scheduler ended by itself; `None` while it runs.
    pub fn exit_text(&self) -> Option<String> {
        let error = self.scheduler.exit_error()?;
        Some(format!("scheduler {} exited by itself: {error}", self.name))
    }
}

impl Drop for StandaloneScheduler {
    fn drop(&mut self) {
        self.scheduler.stop();
    }
}

impl fmt::Debug for StandaloneScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandaloneScheduler").field("name", &self.name).finish_non_exhaustive()
    }
}
