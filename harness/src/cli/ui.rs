//! The arguments of `schedlab ui`.

use std::path::PathBuf;

use clap::Args;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab ui
  schedlab ui --fleet fixtures/fleets/lab.yaml --apply fixtures/lab/queues.yaml";

/// Arguments of `schedlab ui`.
#[derive(Debug, Args)]
pub struct Ui {
    /// Fleet file with the nodes [default: the 4 nodes with 8 GPUs each of the operations lab].
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Manifest that is applied before the clock starts; repeatable [default: two teams with a
    /// quota of 16 GPUs each].
    #[arg(long, value_name = "FILE")]
    pub apply: Vec<PathBuf>,
    /// Port of the page on the loopback interface; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}
