//! The arguments of `schedlab ui`.

use std::path::PathBuf;

use clap::Args;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab ui
  schedlab ui latest
  schedlab ui features/reclaim/owner-returns.feature:32
  schedlab ui cluster.zip
  schedlab ui --fleet fixtures/fleets/lab.yaml --apply fixtures/lab/queues.yaml";

/// Arguments of `schedlab ui`.
#[derive(Debug, Args)]
pub struct Ui {
    /// What to show instead of a new cluster: a run (its folder, its name in the results folder, or
    /// `latest`), a feature file or folder, whose scenarios are run, or files of a case, whose
    /// objects are created.
    #[arg(value_name = "RUN|CASE|FEATURE", conflicts_with_all = ["fleet", "apply"])]
    pub what: Vec<PathBuf>,
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
    /// Folder with the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub results: PathBuf,
}
