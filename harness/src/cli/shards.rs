//! Arguments for runs in shards: `merge`, and `run --on kubernetes`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use schedlab_conformance::report::Reporter;

use super::{ProfileArgs, Run};

/// Examples of `schedlab merge`.
pub(super) const MERGE_EXAMPLES: &str = "\
Examples:
  schedlab merge shard-*/results
  schedlab merge results/*-shard?of4 --reporter github,junit=junit.xml";

/// Arguments of `schedlab merge`.
#[derive(Debug, Args)]
pub struct Merge {
    /// The shards: folders of runs, their names in the results folder, or results folders, whose
    /// latest run counts.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// The profile of the settings.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Reports to write, as for `schedlab run`.
    #[arg(long, value_delimiter = ',', default_value = "pretty", help_heading = "Results")]
    pub reporter: Vec<Reporter>,
    /// Print all lines of a failure message, not only the first 20.
    #[arg(short, long, help_heading = "Results")]
    pub verbose: bool,
    /// Folder for the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR", help_heading = "Results")]
    pub results: PathBuf,
}

/// Where the processes of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunPlace {
    /// On this machine.
    Local,
    /// In pods of an Indexed Job, one for each shard.
    Kubernetes,
}

/// Options for a run whose shards are pods.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run on Kubernetes")]
pub struct ShardPods {
    /// Where the run's processes are: `local`, or `kubernetes` for an Indexed Job with one pod for
    /// each shard, whose results are merged.
    #[arg(long, value_enum, default_value_t = RunPlace::Local, value_name = "WHERE")]
    pub on: RunPlace,
    /// Number of shards of `--on kubernetes`.
    #[arg(long, default_value = "4", value_name = "N")]
    pub shards: NonZeroUsize,
    /// Image with schedlab for the pods (kind-configs/image schedlab builds one).
    #[arg(long, default_value = "schedlab/schedlab:dev", value_name = "IMAGE")]
    pub pod_image: String,
    /// When nodes pull that image: `Always`, `IfNotPresent` or `Never`.
    #[arg(
        long,
        default_value = "IfNotPresent",
        value_parser = ["Always", "IfNotPresent", "Never"],
        value_name = "POLICY"
    )]
    pub pod_pull_policy: String,
    /// Namespace for the pods [default: that of the context].
    #[arg(long, value_name = "NAMESPACE")]
    pub pod_namespace: Option<String>,
    /// Kubeconfig of the cluster for the pods [default: `$KUBECONFIG`, else `~/.kube/config`].
    #[arg(long, value_name = "FILE")]
    pub pod_kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current context].
    #[arg(long, value_name = "NAME")]
    pub pod_context: Option<String>,
    /// CPU that a pod requests, and the number of scenarios that it runs in parallel, rounded up.
    #[arg(long, default_value = "1", value_name = "QUANTITY")]
    pub pod_cpu: String,
    /// Memory that a pod requests.
    #[arg(long, default_value = "512Mi", value_name = "QUANTITY")]
    pub pod_memory: String,
}

impl ShardPods {
    /// A run on this machine.
    pub fn local() -> Self {
        Self {
            on: RunPlace::Local,
            shards: NonZeroUsize::MIN,
            pod_image: String::new(),
            pod_pull_policy: String::new(),
            pod_namespace: None,
            pod_kubeconfig: None,
            pod_context: None,
            pod_cpu: String::new(),
            pod_memory: String::new(),
        }
    }
}

/// Arguments of `schedlab shard-pod`.
#[derive(Debug, Args)]
pub struct ShardPod {
    /// Index of the pod in its Job, from 0.
    #[arg(long)]
    pub index: usize,
    /// Number of shards of the run.
    #[arg(long)]
    pub of: NonZeroUsize,
    /// The run.
    #[command(flatten)]
    pub run: Run,
}
