//! `schedlab replay`: a captured cluster in, plans and reasons out.

use std::fs::File;
use std::path::Path;

use schedlab_scheduler::{ConfigFile, captured::Wanted, replay};

use super::{Output, UsageError};
use crate::cli::Replay;
use crate::exit::Exit;

/// Decides cycles over a snapshot in KAI's layout, as `schedlab-scheduler replay` does.
pub fn replay(args: &Replay) -> anyhow::Result<Exit> {
    let wanted = Wanted {
        file: config(args.config.as_deref())?,
        scheduler_name: args.scheduler_name.clone(),
    };
    let shown = args.file.display();
    let file = File::open(&args.file)
        .map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    let told = replay::replay(file, &wanted, args.cycles)
        .map_err(|error| UsageError(format!("{shown}: {error}")))?;
    Output::detect().data(&told);
    Ok(Exit::Passed)
}

fn config(path: Option<&Path>) -> Result<ConfigFile, UsageError> {
    let Some(path) = path else { return Ok(ConfigFile::default()) };
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    ConfigFile::parse(&text).map_err(|error| UsageError(format!("{shown}: {error}")))
}
