//! Arguments of `schedlab whatif`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use schedlab_apps::whatif::{NamedAmount, NewNodes, PriorityChange};
use schedlab_conformance::text::parse_duration;

use super::{CaseScheduler, Format, SearchLimit};

/// Arguments of `schedlab whatif`.
#[derive(Debug, Args)]
pub struct WhatIf {
    /// A case file, a snapshot of KAI, output of `kubectl get -o yaml|json`, a `kubectl
    /// cluster-info dump`, or folders of these [default: the cluster of the kubeconfig, which is only
    /// read].
    #[arg(value_name = "CASE")]
    pub files: Vec<PathBuf>,
    /// Kubeconfig of the cluster to read [default: as kubectl, else the service account of the pod].
    #[arg(long, value_name = "FILE", conflicts_with = "files", help_heading = "Input")]
    pub kubeconfig: Option<PathBuf>,
    /// Maximum size of one file after decompression, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, help_heading = "Input")]
    pub max_size: u64,
    /// Submit the objects of this file: pods, jobs and other workloads, in YAML or JSON.
    #[arg(long, value_name = "FILE", help_heading = "Changes")]
    pub submit: Vec<PathBuf>,
    /// Add nodes like those of the fleet: `+COUNTxGPUSxMODEL` such as `+4x8xH100`, `+4x8`, or `+4`.
    #[arg(long, value_name = "NODES", help_heading = "Changes")]
    pub nodes: Vec<NewNodes>,
    /// Remove nodes, as when they break: names, separated by commas; `*` stands for any text.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Changes")]
    pub remove_nodes: Vec<String>,
    /// Change the GPU quota of a queue: team-a=16, team-a=+16, team-a=-4 or team-a=unlimited.
    #[arg(long, value_name = "QUEUE=GPUS", help_heading = "Changes")]
    pub quota: Vec<NamedAmount>,
    /// Change the over-quota weight of a queue: team-a=2.
    #[arg(long, value_name = "QUEUE=WEIGHT", help_heading = "Changes")]
    pub weight: Vec<NamedAmount>,
    /// Change the GPU limit of a queue: team-a=32 or team-a=unlimited.
    #[arg(long, value_name = "QUEUE=GPUS", help_heading = "Changes")]
    pub limit: Vec<NamedAmount>,
    /// Change the priority of a queue (team-a=200), or the priority class of a pod group
    /// (work/train=build).
    #[arg(long, value_name = "NAME=PRIORITY", help_heading = "Changes")]
    pub priority: Vec<PriorityChange>,
    /// Play on for so long in virtual time, such as `8h`: pods with a known run time end [default:
    /// until the cluster is at rest; no pod ends].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Forecast")]
    pub horizon: Option<Duration>,
    /// Maximum number of scheduling cycles; 1 is the decision alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Forecast")]
    pub cycles: Option<u32>,
    /// The limit of the simulated evictions.
    #[command(flatten, next_help_heading = "Forecast")]
    pub search: SearchLimit,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub output: Format,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab whatif case.zip --submit job.yaml
  schedlab whatif case.zip --nodes +4x8xH100 --quota team-a=+16
  schedlab whatif --remove-nodes 'rack-7-*' --output json
  schedlab whatif case.zip --submit job.yaml --horizon 8h";
