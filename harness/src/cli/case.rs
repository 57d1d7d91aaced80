//! Arguments of the subcommands for case files.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use schedlab_casefiles::predicate::Predicate;
use schedlab_conformance::text::parse_duration;

use super::Format;

/// What a case is read from.
#[derive(Clone, Debug, Args)]
pub struct CaseFiles {
    /// A case file, a snapshot of KAI, output of `kubectl get -o yaml|json`, a `kubectl
    /// cluster-info dump`, or folders of these.
    #[arg(required = true, value_name = "CASE")]
    pub files: Vec<PathBuf>,
    /// Maximum size of one file after decompression, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096, help_heading = "Input")]
    pub max_size: u64,
}

/// The scheduler whose decisions a case is about.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Scheduler")]
pub struct CaseScheduler {
    /// Name of the scheduler whose pods are scheduled [default: from the case, else kai-scheduler].
    #[arg(long, value_name = "NAME")]
    pub scheduler_name: Option<String>,
    /// Configuration file; overrides the configuration in the case.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Arguments of `schedlab replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// The case.
    #[command(flatten)]
    pub input: CaseFiles,
    /// Maximum number of cycles; stops earlier when a cycle decides nothing.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: u32,
    /// A claim that must hold after the last cycle, such as `gang train pending` or `queue team
    /// placed`; may be repeated. The exit code is 1 if one of them fails.
    #[arg(long, value_name = "CLAIM")]
    pub expect: Vec<Predicate>,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

/// Arguments of `schedlab explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The case.
    #[command(flatten)]
    pub input: CaseFiles,
    /// A pod group, a pod, or an owner of pods, as NAMESPACE/NAME [default: all that is pending, by
    /// reason and queue].
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub workload: Option<String>,
    /// A queue.
    #[arg(long, value_name = "NAME", conflicts_with = "workload")]
    pub queue: Option<String>,
    /// The limit of the simulated evictions.
    #[command(flatten)]
    pub search: SearchLimit,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

/// The limit of the searches for pods to evict.
#[derive(Clone, Copy, Debug, Args)]
pub struct SearchLimit {
    /// Maximum number of evictions that each action of a cycle simulates; a large, saturated cluster
    /// needs very many. 0: no limit, as the scheduler itself.
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub simulations: usize,
}

/// Arguments of `schedlab capture`.
#[derive(Debug, Args)]
pub struct Capture {
    /// Case file to write.
    #[arg(long, short, value_name = "CASE", required_unless_present = "print_rbac")]
    pub output: Option<PathBuf>,
    /// Read these files and folders instead of a cluster.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub from: Vec<PathBuf>,
    /// Kubeconfig of the cluster [default: as kubectl, else the service account of the pod].
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub kubeconfig: Option<PathBuf>,
    /// Record what changes for so long, such as `10m`: arrivals, bindings, evictions. The case has the
    /// objects at the end; `replay` prints the changes.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "from")]
    pub duration: Option<Duration>,
    /// Keep names, images, environment and annotations.
    #[arg(long)]
    pub no_redact: bool,
    /// Write the table that translates the replaced names back. It stays with you.
    #[arg(long, value_name = "FILE", conflicts_with = "no_redact")]
    pub table: Option<PathBuf>,
    /// Print the `ClusterRole` that a capture needs, and do nothing else.
    #[arg(long)]
    pub print_rbac: bool,
    /// Maximum size of one file of `--from` after decompression, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    pub max_size: u64,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

/// Arguments of `schedlab redact`.
#[derive(Debug, Args)]
pub struct Redact {
    /// The case to redact; with `--reveal`, texts to translate.
    #[arg(value_name = "CASE")]
    pub files: Vec<PathBuf>,
    /// Case file to write.
    #[arg(long, short, value_name = "CASE")]
    pub output: Option<PathBuf>,
    /// Write the table that translates the replaced names back. It stays with the customer.
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Translate text back with this table: that of the files, else of standard input.
    #[arg(long, value_name = "TABLE", conflicts_with_all = ["output", "table", "check"])]
    pub reveal: Option<PathBuf>,
    /// Prove that no word of this original is left in the case. The exit code is 1 if one is.
    #[arg(long, value_name = "ORIGINAL", num_args = 1..)]
    pub check: Vec<PathBuf>,
    /// Maximum size of one file after decompression, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    pub max_size: u64,
}

/// Arguments of `schedlab minimise`.
#[derive(Debug, Args)]
pub struct Minimise {
    /// The case.
    #[command(flatten)]
    pub input: CaseFiles,
    /// What the case must still show: a claim such as `gang train pending` (with the reason that it
    /// has now), `pod p evicted` or `queue team pending because OverLimit`; `audit RULE`, with the
    /// number or name of a rule of the audit that the replay breaks, such as `audit 5` or `audit quota
    /// and limit`; or `command: …` that exits with 0 when {case} shows it. If repeated, all of them.
    #[arg(long, value_name = "CLAIM", required = true)]
    pub keep: Vec<String>,
    /// What the case must show with the configuration of `--should-config`, such as `gang train
    /// placed`: the case then keeps the difference that the configuration makes. May be repeated.
    #[arg(long, value_name = "CLAIM", requires = "should_config")]
    pub should: Vec<Predicate>,
    /// Configuration file of the scheduler for `--should`.
    #[arg(long, value_name = "FILE", requires = "should")]
    pub should_config: Option<PathBuf>,
    /// Case file to write.
    #[arg(long, short, value_name = "CASE")]
    pub output: PathBuf,
    /// Number of cycles of each replay.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub cycles: u32,
    /// The limit of the simulated evictions.
    #[command(flatten)]
    pub search: SearchLimit,
    /// Stop after this time with what was reached.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5m")]
    pub budget: Duration,
    /// Number of cases to try in parallel [default: the number of cores].
    #[arg(long, short)]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

/// Arguments of `schedlab feature`.
#[derive(Debug, Args)]
pub struct Feature {
    /// The case.
    #[command(flatten)]
    pub input: CaseFiles,
    /// Feature file to write.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// What the feature claims, and the case shows [default: what the case was minimised for].
    #[arg(long, value_name = "CLAIM", conflicts_with = "should")]
    pub shows: Option<Predicate>,
    /// What should happen, and does not: the feature fails until the fault is fixed.
    #[arg(long, value_name = "CLAIM")]
    pub should: Option<Predicate>,
    /// Name of the feature.
    #[arg(long, value_name = "TEXT", default_value = "A captured case")]
    pub title: String,
    /// The scheduler.
    #[command(flatten)]
    pub scheduler: CaseScheduler,
}

/// The subcommands for case files.
#[derive(Debug, Subcommand)]
pub enum CaseCommand {
    /// Run scheduling cycles over a captured cluster and print plans and pending reasons.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Replay),
    /// Explain offline why workloads of a captured cluster are pending.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Read a cluster, or files of one, into a case file without names. Nothing is written to the
    /// cluster.
    #[command(after_help = CAPTURE_EXAMPLES)]
    Capture(Capture),
    /// Replace all names of a case, and drop what decisions do not depend on.
    #[command(after_help = REDACT_EXAMPLES)]
    Redact(Redact),
    /// Shrink a case to the smallest one that still shows something.
    #[command(
        after_help = "Examples:\n  schedlab minimise case.zip --keep 'gang train pending' -o small.zip\n  \
                      schedlab minimise case.zip --keep 'audit valid binding' -o small.zip"
    )]
    Minimise(Minimise),
    /// Write a case as a feature, and run it at once.
    #[command(after_help = "Example:\n  schedlab feature small.zip -o features/bugs/train.feature")]
    Feature(Feature),
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  schedlab replay snapshot.zip --cycles 5
  schedlab replay nodes.yaml queues.yaml pods.json --expect 'gang train pending because OverLimit'";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  schedlab explain case.zip
  schedlab explain case.zip --workload team-a/train";

const CAPTURE_EXAMPLES: &str = "\
Examples:
  schedlab capture --print-rbac | kubectl apply -f -
  schedlab capture -o case.zip --table names.json
  schedlab capture --duration 10m -o case.zip
  schedlab capture --from cluster-dump queues.yaml -o case.zip";

const REDACT_EXAMPLES: &str = "\
Examples:
  schedlab redact original.zip -o case.zip --table names.json
  schedlab redact case.zip --check original.zip
  schedlab redact --reveal names.json report.txt";
