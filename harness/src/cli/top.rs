//! The arguments of `schedlab top`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse_duration;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab top --kubeconfig schedlab.kubeconfig
  schedlab top --watch --interval 5s";

/// Arguments of `schedlab top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Kubeconfig of the cluster [default: schedlab.kubeconfig if it exists, else the cluster that
    /// kubectl would use].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Print again at intervals until Ctrl-C.
    #[arg(long)]
    pub watch: bool,
    /// The interval of `--watch`.
    #[arg(long, value_parser = parse_duration, default_value = "2s", value_name = "TIME")]
    pub interval: Duration,
}
