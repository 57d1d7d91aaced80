//! The arguments of `schedlab show`.

use std::path::PathBuf;

use clap::Args;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab show latest
  schedlab show latest --filter reclaim
  schedlab show latest --plain | less";

/// Arguments of `schedlab show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The run: its folder, its name in the results folder, or `latest`.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Show scenarios with this text in their name, file or steps.
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    pub filter: String,
    /// Show failed scenarios only.
    #[arg(long)]
    pub failed: bool,
    /// Print text, as if standard output were no terminal.
    #[arg(long)]
    pub plain: bool,
    /// Folder with the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub results: PathBuf,
}
