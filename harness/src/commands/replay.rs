//! `schedlab replay`: schedules a captured cluster and prints plans and reasons.

use std::fs::File;
use std::path::PathBuf;

use schedlab_scheduler::{ConfigSource, replay, snapshot_file::Overrides};

use super::{Output, UsageError};
use crate::exit::ExitStatus;

/// Arguments of `schedlab replay`.
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// Zip file of the captured cluster.
    pub file: PathBuf,
    /// Maximum number of cycles; stops earlier when a cycle decides nothing.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: u32,
    /// Name of the scheduler whose pods are scheduled [default: from the snapshot, else
    /// kai-scheduler].
    #[arg(long, help_heading = "Scheduler")]
    pub scheduler_name: Option<String>,
    /// Configuration file; overrides the configuration in the snapshot.
    #[arg(long, value_name = "FILE", help_heading = "Scheduler")]
    pub config: Option<PathBuf>,
}

/// Runs scheduling cycles over a snapshot in KAI's layout, like `schedlab-scheduler replay`.
pub fn replay(args: &Replay) -> anyhow::Result<ExitStatus> {
    let given = ConfigSource::read(args.config.as_deref());
    let file = given.map_err(|error| UsageError(error.to_string()))?;
    let overrides = Overrides { file, scheduler_name: args.scheduler_name.clone() };
    let shown = args.file.display();
    let file = File::open(&args.file)
        .map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    let output = replay::replay(file, &overrides, args.cycles)
        .map_err(|error| UsageError(error.message_for(&shown.to_string())))?;
    Output::detect().data(&output);
    Ok(ExitStatus::Passed)
}
