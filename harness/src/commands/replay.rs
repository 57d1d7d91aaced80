//! `schedlab replay`: a captured cluster in, plans and reasons out.

use std::fs::File;
use std::path::PathBuf;

use schedlab_scheduler::{GivenFile, captured::Wanted, replay};

use super::{Output, UsageError};
use crate::exit::Exit;

/// What is replayed, and how.
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// The zip.
    pub file: PathBuf,
    /// Most cycles; fewer if one decides nothing.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: u32,
    /// Whose pods are scheduled [default: what the snapshot says, else kai-scheduler].
    #[arg(long)]
    pub scheduler_name: Option<String>,
    /// A configuration file; what it says wins over what the snapshot says of its scheduler.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Decides cycles over a snapshot in KAI's layout, as `schedlab-scheduler replay` does.
pub fn replay(args: &Replay) -> anyhow::Result<Exit> {
    let given = GivenFile::read(args.config.as_deref());
    let file = given.map_err(|error| UsageError(error.to_string()))?;
    let wanted = Wanted { file, scheduler_name: args.scheduler_name.clone() };
    let shown = args.file.display();
    let file = File::open(&args.file)
        .map_err(|error| UsageError(format!("cannot read {shown}: {error}")))?;
    let told = replay::replay(file, &wanted, args.cycles)
        .map_err(|error| UsageError(error.in_zip(&shown.to_string())))?;
    Output::detect().data(&told);
    Ok(Exit::Passed)
}
