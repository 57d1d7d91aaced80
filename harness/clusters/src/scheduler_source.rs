//! Where the scheduler under test comes from.

use std::str::FromStr;
use std::time::Duration;

use crate::external_tools::check_command_starts_with_program;

/// Where the scheduler under test comes from: the value of `--scheduler`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerSource {
    /// Our scheduler, in this process.
    Ours,
    /// No scheduler: nothing is ever scheduled.
    NoScheduler,
    /// A shell command, with placeholders, that starts a scheduler as a process.
    Process(String),
    /// The scheduler with this name, which already runs on the cluster.
    Installed(String),
    /// Our scheduler, installed on the cluster from this image.
    Deployment(String),
}

/// The image that `kind-configs/image scheduler` builds.
const LAST_BUILT_IMAGE: &str = "schedlab/scheduler:dev";

/// The time between two cycles of our scheduler as a Deployment. It is short, because scenarios
/// spend most of their time waiting for cycles.
pub const DEPLOYED_CYCLE_PERIOD: Duration = Duration::from_millis(500);

impl SchedulerSource {
    /// The name of the scheduler under test, if it was installed before the run.
    pub fn installed_scheduler_name(&self) -> Option<String> {
        match self {
            Self::Installed(name) => Some(name.clone()),
            Self::Ours | Self::NoScheduler | Self::Process(_) | Self::Deployment(_) => None,
        }
    }
}

impl FromStr for SchedulerSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "ours" => Ok(Self::Ours),
            None if text == "none" => Ok(Self::NoScheduler),
            Some(("process", command)) if !command.trim().is_empty() => {
                check_command_starts_with_program(command)?;
                Ok(Self::Process(command.trim().to_owned()))
            }
            Some(("installed", name)) if !name.is_empty() => Ok(Self::Installed(name.to_owned())),
            None if text == "deployment" => Ok(Self::Deployment(LAST_BUILT_IMAGE.to_owned())),
            Some(("deployment", image)) if !image.is_empty() => {
                Ok(Self::Deployment(image.to_owned()))
            }
            _ => Err("expected ours, none, process:COMMAND, installed:NAME or deployment[:IMAGE]"
                .to_owned()),
        }
    }
}
