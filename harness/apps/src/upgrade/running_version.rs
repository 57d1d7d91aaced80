//! A running version: a process, or installed on the cluster.

use anyhow::Context as _;

use super::process::SchedulerProcess;
use super::{SchedulerSpec, UpgradeCluster};
use schedlab_clusters::real_cluster::SchedulerInstaller;

/// A version that was started, successfully or not.
#[derive(Debug)]
pub(super) enum RunningVersion {
    /// A scheduler process on this machine, killed when dropped.
    Process(SchedulerProcess),
    /// A scheduler that runs on the cluster. It stays until it is stopped or replaced.
    Installed {
        installation: Box<SchedulerInstaller>,
        /// Why the installed version does not run; `None` if it runs.
        failed: Option<String>,
    },
}

impl RunningVersion {
    /// Starts a version. A version that is installed on the cluster replaces its predecessor; then
    /// this function returns when the replicas are ready or the version has failed.
    pub(super) async fn start(
        environment: &UpgradeCluster,
        spec: &SchedulerSpec,
        name: &str,
    ) -> anyhow::Result<Self> {
        let installation = || {
            environment
                .installation
                .clone()
                .context("no scheduler can be installed on this cluster")
        };
        let (installation, installed) = match spec {
            SchedulerSpec::Process(command) => {
                return Ok(Self::Process(SchedulerProcess::start(environment, command, name)?));
            }
            SchedulerSpec::Image(image) => {
                let installation = installation()?;
                let installed = installation.install_image(image).await;
                (installation, installed)
            }
            SchedulerSpec::Chart(chart) => {
                let installation = installation()?;
                let installed = installation.install_chart(chart).await;
                (installation, installed)
            }
        };
        let failed =
            installed.err().map(|error| format!("the scheduler could not be installed: {error:#}"));
        Ok(Self::Installed { installation: Box::new(installation), failed })
    }

    /// Whether installing another version replaces this one.
    pub(super) fn is_replaced(&self) -> bool {
        matches!(self, Self::Installed { .. })
    }

    /// Stops this version of the scheduler.
    pub(super) async fn terminate(self) -> anyhow::Result<()> {
        match self {
            Self::Process(process) => {
                process.terminate().await;
                Ok(())
            }
            Self::Installed { installation: place, .. } => place.uninstall().await,
        }
    }

    /// Why the version does not run; `None` if it runs.
    pub(super) fn exit_text(&mut self) -> Option<String> {
        match self {
            Self::Process(process) => {
                let ended = process.exit_text();
                ended.map(|status| format!("the scheduler exited by itself: {status}"))
            }
            Self::Installed { failed, .. } => failed.clone(),
        }
    }

    /// An excerpt of the version's log.
    pub(super) async fn log_excerpt(&self) -> String {
        match self {
            Self::Process(process) => process.log_excerpt(),
            Self::Installed { installation: place, .. } => place.diagnostics_text().await,
        }
    }
}
