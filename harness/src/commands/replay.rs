//! `schedlab replay`: schedules a captured cluster and prints plans and reasons.

use std::fs::File;

use schedlab_scheduler::{ConfigSource, replay, snapshot_file::Overrides};

use super::{CommandOutput, UsageError};
use crate::cli::Replay;
use crate::exit::ExitStatus;

/// Runs scheduling cycles over a snapshot in KAI's layout, like `schedlab-scheduler replay`.
pub fn run_replay_command(args: &Replay) -> anyhow::Result<ExitStatus> {
    let given = ConfigSource::read(args.config.as_deref());
    let file = given.map_err(|error| UsageError(error.to_string()))?;
    let overrides = Overrides { file, scheduler_name: args.scheduler_name.clone() };
    let shown = args.file.display();
    let file = File::open(&args.file)
        .map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    let output = replay::replay(file, &overrides, args.cycles)
        .map_err(|error| UsageError(error.message_for(&shown.to_string())))?;
    CommandOutput::for_this_process().print_result(&output);
    Ok(ExitStatus::Passed)
}
