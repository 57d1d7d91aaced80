//! The command line. Parsing only; the subcommands are implemented in [`crate::commands`].

mod case;
mod compare;
mod conform;
mod demo;
mod examples;
mod lab;
mod policies;
pub mod settings;
mod shards;
mod show;
mod top;
mod trace;
mod ui;
mod whatif;

use examples::{
    BISECT_EXAMPLES, CONFORM_EXAMPLES, INIT_EXAMPLE, RUN_EXAMPLES, SCHEDULER_EXAMPLES,
    SIMULATE_EXAMPLES, UP_EXAMPLE, UPGRADE_EXAMPLES,
};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use schedlab_emulator::KubernetesVersion;
use schedlab_scheduler::logging::LogFormat;

use schedlab_clusters::real_cluster::Kubelets;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::features::TagExpression;
use schedlab_conformance::report::{Reporter, Shard};
use schedlab_conformance::runner::{CrashWrites, FlakyOutcome};
use schedlab_conformance::text::parse_duration;

pub use case::{
    Capture, CaseCommand, CaseFiles, CaseScheduler, Explain, Feature, Minimise, Redact, Replay,
    SearchLimit,
};
pub use demo::Demo;
pub use policies::Compare;

pub use lab::{
    LabAnswer, LabApply, LabCheck, LabEvidence, LabFolderArgs, LabGrade, LabKubectl, LabList,
    LabReset, LabStart, LabVerb, LabWait,
};
pub use shards::{Merge, RunPlace, ShardPod, ShardPods};
pub use show::Show;
pub use top::Top;
pub use trace::{
    RecordedObjects, TraceCut, TraceGenerate, TraceImport, TraceInput, TraceMerge, TraceQueues,
    TraceScale, TraceStats, TraceTime, TraceVerb,
};
pub use ui::Ui;
pub use whatif::WhatIf;

pub use compare::{Bisect, DiffRuns, SchedulerVersion, Upgrade, UpgradeCluster, UpgradeStrategy};
pub use conform::{Conform, EvidenceProgramme};

/// Tests Kubernetes GPU schedulers with Gherkin features, on emulated and real clusters.
#[derive(Debug, Parser)]
#[command(name = "schedlab", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// Format of the log on standard error. Nothing is logged unless the variable `RUST_LOG`
    /// selects it, such as `RUST_LOG=debug`.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = LogFormat::Text,
        value_name = "FORMAT",
        help_heading = "Logging"
    )]
    pub log_format: LogFormat,
    /// When the output is colored.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t = ColorChoice::Auto,
        value_name = "WHEN",
        help_heading = "Output"
    )]
    pub color: ColorChoice,
    /// Print results, failures and errors only: no progress, no notes, no passed scenarios.
    #[arg(short, long, global = true, help_heading = "Output")]
    pub quiet: bool,
    /// The subcommand of schedlab.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 passed, 1 failed, 2 invalid command line, 3 harness or \
target could not start, 4 nothing selected, 5 snapshots pending or only flaky failures, \
130 interrupted.";

/// The subcommands of schedlab.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a project of one's own: settings, an example feature and a workflow for CI.
    #[command(after_help = INIT_EXAMPLE)]
    Init(Init),
    /// Run scenarios and compare their snapshots.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Merge the results of the shards of a run into the results of one run.
    #[command(after_help = shards::MERGE_EXAMPLES)]
    Merge(Merge),
    /// Run a shard in a pod of `run --on kubernetes`, and print its results to the log.
    #[command(hide = true)]
    ShardPod(Box<ShardPod>),
    /// Run the scenarios of a conformance profile and report whether the scheduler conforms.
    #[command(after_help = CONFORM_EXAMPLES)]
    Conform(Box<Conform>),
    /// List the scenarios that a selection matches, without running them.
    #[command(after_help = "Example:\n  schedlab list features --tags @gang --format json")]
    List(List),
    /// Find without a cluster what a run would reject: syntax, steps, tables, names, tags.
    #[command(after_help = "Example:\n  schedlab check features/quota")]
    Check(Check),
    /// Print the step catalogue: every step with its meaning and an example.
    #[command(after_help = "Example:\n  schedlab steps evicted")]
    Steps(Steps),
    /// Serve an emulated cluster with schedulers for kubectl until Ctrl-C.
    #[command(after_help = UP_EXAMPLE)]
    Up(Up),
    /// Show an emulated cluster as a page in the browser: GPUs, queues, pending work, events, on a
    /// clock that can be stopped, stepped and turned back.
    #[command(after_help = ui::EXAMPLES)]
    Ui(Ui),
    /// Show a recorded run in the terminal: its scenarios, their steps and failures, and the cluster
    /// after every write. Prints text if standard output is no terminal.
    #[command(after_help = show::EXAMPLES)]
    Show(Show),
    /// Show the GPUs of the nodes, the use of the queues and pending work of a cluster.
    #[command(after_help = top::EXAMPLES)]
    Top(Top),
    /// Tell one story in ten seconds: a team borrows GPUs, the owner reclaims them, a gang starts
    /// whole.
    #[command(after_help = "Example:\n  schedlab demo")]
    Demo(Demo),
    /// Guided exercises on an emulated cluster, verified while you work, with hints, questions and
    /// evidence for a teacher.
    #[command(subcommand, after_help = lab::EXAMPLES)]
    Lab(LabVerb),
    /// Review, accept or reject pending snapshots.
    #[command(subcommand, after_help = "Example:\n  schedlab snapshot review snapshots/gang")]
    Snapshot(SnapshotVerb),
    /// Run a program for as long as standard input is open.
    #[command(hide = true)]
    Keep(Keep),
    /// Replay a workload trace in virtual time and report utilisation, waiting times and evictions.
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<schedlab_apps::simulate::Args>),
    /// Traces of jobs: import, describe, generate, cut, merge and scale them.
    #[command(subcommand, after_help = trace::EXAMPLES)]
    Trace(Box<TraceVerb>),
    /// Compare two policies, schedulers or fleets on a trace: simulated weeks of both, with only
    /// what is beyond chance marked.
    #[command(after_help = policies::EXAMPLES)]
    Compare(Box<Compare>),
    /// Run recorded scheduling cases and decisions on the scheduler's core and compare the
    /// outcomes; cases with rounds also run end to end on an emulated cluster.
    #[command(after_help = "Example:\n  schedlab cases cases --filter reclaim")]
    Cases(Cases),
    /// Case files: a captured cluster, replayed, explained, redacted, minimised.
    #[command(flatten)]
    Case(CaseCommand),
    /// Tell what a change of a captured or live cluster would do: who starts, who is evicted, what
    /// stays pending. Nothing is written to the cluster.
    #[command(after_help = whatif::EXAMPLES)]
    Whatif(Box<WhatIf>),
    /// Compare placements and events of two runs, scenario by scenario.
    #[command(after_help = "Example:\n  schedlab diff 20261121T160318Z-seed1 latest --common")]
    Diff(DiffRuns),
    /// Find the first version of a scheduler that fails a feature: git revisions, programs or images.
    #[command(after_help = BISECT_EXAMPLES)]
    Bisect(Box<Bisect>),
    /// Replace one version of a scheduler by another under load, and back, and check invariants.
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(Upgrade),
    /// Run schedlab's scheduler, or print what it needs: the verbs of `schedlab-scheduler`.
    #[command(subcommand, after_help = SCHEDULER_EXAMPLES)]
    Scheduler(schedlab_scheduler::cli::Command),
    /// Show which clusters this machine can run, and what to install for the others.
    #[command(after_help = "Example:\n  schedlab doctor kind")]
    Doctor(Doctor),
    /// Remove what crashed runs left behind: processes, containers, networks, namespaces, folders.
    #[command(after_help = "Example:\n  schedlab clean --dry-run")]
    Clean(Clean),
    /// Print the completions of schedlab for a shell.
    #[command(
        after_help = "Example:\n  schedlab completions bash > ~/.local/share/bash-completion/completions/schedlab"
    )]
    Completions(Completions),
    /// Write the manual pages of schedlab and its subcommands.
    #[command(after_help = "Example:\n  schedlab man ~/.local/share/man/man1")]
    Man(Man),
}

/// When the output is colored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set; and if `CLICOLOR_FORCE` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Arguments of `schedlab init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The folder of the project, which is created if it does not exist.
    #[arg(default_value = ".", value_name = "DIR")]
    pub folder: PathBuf,
    /// Also write a scheduler of 50 lines in Python and its target file.
    #[arg(long)]
    pub with_scheduler: bool,
    /// Print the JSON Schema of schedlab.toml and end.
    #[arg(long)]
    pub schema: bool,
}

/// Arguments of `schedlab completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Arguments of `schedlab man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Folder for the pages [default: print the page of `schedlab` itself].
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// The profile of `schedlab.toml`.
#[derive(Clone, Debug, Default, Args)]
pub struct ProfileArgs {
    /// Take defaults from this profile of schedlab.toml, before those of its `[run]`.
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    pub profile: Option<String>,
}

/// Output format of a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Text,
    /// JSON for programs.
    Json,
}

/// Arguments of `schedlab doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Check only this kind of cluster, and exit with 3 if it cannot run.
    #[arg(value_enum)]
    pub target: Option<schedlab_clusters::doctor::DoctorCheck>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `schedlab clean`.
#[derive(Debug, Args)]
pub struct Clean {
    /// Print what would be removed, without removing it.
    #[arg(long)]
    pub dry_run: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `schedlab run`.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Selection of scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// Execution options.
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// Cluster and scheduler options.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
    /// Where the shards of the run are processes.
    #[command(flatten)]
    pub shard_pods: ShardPods,
    /// The profile of the settings.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Reports to write, separated by commas: `pretty`, `github`, `junit=PATH`, `json=PATH`,
    /// `svg=PATH`, `html=PATH` (a page with the cluster after every write); the path `-` is standard
    /// output. `github`, the default in GitHub Actions, writes annotations and the summary of the
    /// step. `pretty` is added if standard output is free.
    #[arg(long, value_delimiter = ',', default_value = "pretty", help_heading = "Results")]
    pub reporter: Vec<Reporter>,
    /// File with the scenarios in quarantine, whose failures do not fail the run: a YAML list of
    /// `scenario` (an id, a file or a folder), `reason` and, if wanted, `until` (a date).
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub quarantine: Option<PathBuf>,
    /// An earlier run, by its folder or its name in the results folder. A scenario that passes but
    /// differs from it in placements or events fails, and is retried like any other.
    #[arg(long, alias = "like", value_name = "RUN", help_heading = "Results")]
    pub baseline: Option<String>,
    /// File that lists the scenarios that may differ from the baseline, and why: a line "- `file:
    /// name`" for each.
    #[arg(
        long,
        alias = "known",
        value_name = "FILE",
        requires = "baseline",
        help_heading = "Results"
    )]
    pub expected_differences: Option<PathBuf>,
    /// The expected verdict. With `fail`, the exit code is 0 if a scenario failed and 1 if none did:
    /// a feature that reproduces a fault.
    #[arg(long, value_enum, default_value_t = ExpectedVerdict::Pass, help_heading = "Results")]
    pub expect: ExpectedVerdict,
    /// Run the scenarios on this scheduler, too, and print those whose verdict, placements or events
    /// differ. The exit code is 0 if none does and 1 if one does.
    #[arg(long, value_name = "WHICH", conflicts_with_all = ["baseline", "expect"], help_heading = "Results")]
    pub and: Option<SchedulerSource>,
    /// Declaration of the capabilities of the scheduler of `--and`, as `--target` for the first one.
    #[arg(long, value_name = "FILE", requires = "and", help_heading = "Results")]
    pub and_target: Option<PathBuf>,
    /// Print all lines of a failure message, not only the first 20.
    #[arg(short, long, help_heading = "Results")]
    pub verbose: bool,
    /// Folder for the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR", help_heading = "Results")]
    pub results: PathBuf,
}

/// The expected verdict of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExpectedVerdict {
    /// All scenarios pass.
    Pass,
    /// At least one scenario fails.
    Fail,
}

/// Options that select scenarios.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct Selection {
    /// Feature files or folders; `FILE:LINE` selects the scenario or example row at that line.
    /// Without a folder `features` here, paths below it are those of the suite in the program.
    #[arg(default_value = "features")]
    pub paths: Vec<String>,
    /// Only scenarios whose tags match, such as `@gang and not @slow`.
    #[arg(short, long, value_name = "EXPR")]
    pub tags: Option<TagExpression>,
    /// Only scenarios whose name contains TEXT; any of them, if repeated.
    #[arg(short, long, value_name = "TEXT")]
    pub name: Vec<String>,
    /// Match `--name` against the whole name.
    #[arg(long, requires = "name")]
    pub exact: bool,
    /// Only scenarios that failed in the last run.
    #[arg(long)]
    pub last_failed: bool,
    /// Only part M of N of the selection, such as `1/4`; without `--timings`, the part of a scenario
    /// depends on its file and name alone.
    #[arg(long, value_name = "M/N")]
    pub shard: Option<Shard>,
    /// An earlier run, by its folder or its name in the results folder, or its file `times.json`:
    /// the parts of `--shard` take about the same time by the times of its scenarios.
    #[arg(long, value_name = "RUN|FILE")]
    pub timings: Option<String>,
}

/// Options for the execution of scenarios.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Execution")]
pub struct ExecutionArgs {
    /// Number of scenarios to run in parallel [default: the number of cores; more on a real
    /// cluster, where scenarios mostly wait].
    #[arg(short, long)]
    pub jobs: Option<NonZeroUsize>,
    /// Retry a failed scenario up to N times, with the same seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub retries: u32,
    /// Verdict of a scenario that passes only on a retry.
    #[arg(long, value_enum, default_value_t = FlakyOutcome::Pass)]
    pub flaky_result: FlakyOutcome,
    /// Start no scenario after the first failure.
    #[arg(long)]
    pub fail_fast: bool,
    /// Start no scenario after N failures.
    #[arg(long, value_name = "N", conflicts_with = "fail_fast")]
    pub max_fail: Option<NonZeroUsize>,
    /// Run every scenario N times; in virtual time fail if two runs differ in any write, in real
    /// time fail if one of them fails.
    #[arg(long, default_value = "1", value_name = "N")]
    pub repeat: NonZeroUsize,
    /// Run each passed scenario again with a scheduler that is killed before its Nth write and
    /// restarted; `each`: once for every write, `every:N`: for every Nth. Fails if an audit rule is
    /// broken; the scenario's own assertions need not hold. Emulator only.
    #[arg(long, value_name = "each|every:N|N")]
    pub crash_before: Option<CrashWrites>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Start scenarios in an order derived from the seed; reports keep the order of the files.
    #[arg(long)]
    pub shuffle: bool,
    /// Maximum time of one step on the cluster's clock, such as `90s` or `2h`.
    #[arg(long, value_parser = parse_duration, default_value = "30d", value_name = "TIME")]
    pub timeout: Duration,
}

/// Default value of `--timeout`.
pub(crate) const DEFAULT_STEP_TIMEOUT: Duration = Duration::from_hours(30 * 24);

/// Default value of `--min-wait`.
pub(crate) const DEFAULT_MIN_WAIT: Duration = Duration::from_mins(2);

/// Options for the cluster and the scheduler.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct EnvironmentArgs {
    /// The cluster to run on.
    #[arg(long, value_enum, default_value_t = ClusterChoice::Emulator)]
    pub cluster: ClusterChoice,
    /// Folder with etcd, kube-apiserver and kube-controller-manager [default:
    /// `$KUBEBUILDER_ASSETS`,
    /// else the output of `make control-plane`].
    #[arg(long, value_name = "DIR")]
    pub assets: Option<PathBuf>,
    /// Version of Kubernetes that the emulator serves, or that `make control-plane` built for
    /// `--cluster control-plane`: 1.35 or 1.37 [default: 1.37].
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<KubernetesVersion>,
    /// Feature gates of Kubernetes, such as `GenericWorkload=true,DRADeviceTaints=false`. The
    /// emulator also enables those that a scenario has as tags; a control plane starts with them;
    /// of another cluster they say which ones it has.
    #[arg(long, default_value = "", value_name = "GATES", hide_default_value = true)]
    pub feature_gates: String,
    /// Kubeconfig of `--cluster kubeconfig` [default: `$KUBECONFIG`, else
    /// `~/.kube/config`].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig to use; requires `--confirm`.
    #[arg(long, value_name = "NAME", requires = "confirm")]
    pub context: Option<String>,
    /// Confirm that scenarios may create nodes and namespaces in the cluster of `--context`.
    #[arg(long, requires = "context")]
    pub confirm: bool,
    /// Old name of `--context NAME --confirm`.
    #[arg(long, value_name = "NAME", hide = true, conflicts_with_all = ["context", "confirm"])]
    pub yes_this_cluster: Option<String>,
    /// Image of `--cluster container`: `schedlab/cluster` (kind-configs/image cluster),
    /// `rancher/k3s` or `kwok/cluster`, of any registry and tag [default: schedlab/cluster:dev].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Use and keep the kind cluster of this name, and create it if it does not exist [default: a
    /// new cluster that is deleted after the run].
    #[arg(long, value_name = "NAME")]
    pub kind_cluster: Option<String>,
    /// Node image of a new kind cluster [default: `$SCHEDLAB_NODE_IMAGE`, else kind's own].
    #[arg(long, value_name = "IMAGE")]
    pub node_image: Option<String>,
    /// kind configuration of a new cluster, such as those in kind-configs [default: one node].
    #[arg(long, value_name = "FILE")]
    pub kind_config: Option<PathBuf>,
    /// What simulates kubelets on a real cluster. kwok starts pods at once and may finish those of
    /// Jobs; scenarios that need more are skipped.
    #[arg(long, value_enum, default_value_t = Kubelets::Auto, value_name = "WHO")]
    pub kubelets: Kubelets,
    /// The scheduler under test: `ours`; `none`, where a scenario that passes claims nothing of a
    /// scheduler; `process:COMMAND` with the placeholders {kubeconfig}, {scheduler-name}, {profile}
    /// and {dir}; `installed:NAME` for one that runs there already; or `deployment[:IMAGE]` for
    /// ours, installed on a kind cluster.
    #[arg(long, default_value = "ours", value_name = "WHICH", help_heading = "Scheduler")]
    pub scheduler: SchedulerSource,
    /// Declaration of the scheduler's capabilities: a file, or one of the names schedlab-scheduler,
    /// kai-scheduler, kube-scheduler and kueue.
    #[arg(long, value_name = "FILE", help_heading = "Scheduler")]
    pub target: Option<PathBuf>,
    /// Factor for durations on a real cluster [default: chosen per scenario so that its longest
    /// wait is a minute].
    #[arg(long, value_name = "FACTOR", value_parser = parse_factor)]
    pub time_scale: Option<f64>,
    /// Minimum wait of `eventually` assertions on a real cluster: more tolerates a busy machine,
    /// less fails earlier.
    #[arg(
        long,
        alias = "patience",
        value_parser = parse_duration,
        default_value = "2m",
        value_name = "TIME"
    )]
    pub min_wait: Duration,
    /// Also run scenarios whose requirements the cluster or the scheduler does not meet.
    #[arg(long)]
    pub force: bool,
}

impl EnvironmentArgs {
    /// The kubeconfig context in which scenarios may create objects.
    pub fn confirmed_context(&self) -> Option<&String> {
        self.context.as_ref().or(self.yes_this_cluster.as_ref())
    }
}

/// The kind of cluster on which scenarios run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusterChoice {
    /// An emulated cluster in this process, in virtual time.
    Emulator,
    /// etcd, kube-apiserver and kube-controller-manager as processes on this machine.
    ControlPlane,
    /// An existing cluster, by its kubeconfig.
    Kubeconfig,
    /// A cluster in one container: our own image, k3s or kwok.
    Container,
    /// A kind cluster.
    Kind,
}

impl ClusterChoice {
    /// The value of `--cluster` on the command line.
    pub fn option_value(self) -> &'static str {
        match self {
            Self::Emulator => "emulator",
            Self::ControlPlane => "control-plane",
            Self::Kubeconfig => "kubeconfig",
            Self::Container => "container",
            Self::Kind => "kind",
        }
    }
}

/// The clusters that have a use for an option; `None` if all have.
pub(crate) fn clusters_of_option(long: &str) -> Option<&'static [ClusterChoice]> {
    use ClusterChoice::{Container, ControlPlane, Emulator, Kind, Kubeconfig};
    Some(match long {
        "assets" => &[ControlPlane],
        "kubernetes" => &[Emulator, ControlPlane],
        "kubeconfig" | "context" | "confirm" => &[Kubeconfig],
        "image" => &[Container],
        "kind-cluster" | "node-image" | "kind-config" => &[Kind],
        "time-scale" | "kubelets" => &[ControlPlane, Kubeconfig, Container, Kind],
        "crash-before" => &[Emulator],
        _ => return None,
    })
}

/// Arguments of `schedlab list`.
#[derive(Debug, Args)]
pub struct List {
    /// Selection of scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// The profile of the settings.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t = ListFormat::Terse, help_heading = "Output")]
    pub format: ListFormat,
    /// Folder for the results of runs (for `--last-failed`).
    #[arg(long, default_value = "results", value_name = "DIR", help_heading = "Output")]
    pub results: PathBuf,
}

/// Output formats of `schedlab list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// `path:line: name`, one per line.
    Terse,
    /// A JSON array.
    Json,
}

/// Arguments of `schedlab check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Feature files or folders. Without a folder `features` here, paths below it are those of the
    /// suite in the program.
    #[arg(default_value = "features")]
    pub paths: Vec<String>,
    /// The profile of the settings.
    #[command(flatten)]
    pub profile: ProfileArgs,
}

/// Arguments of `schedlab steps`.
#[derive(Debug, Args)]
pub struct Steps {
    /// Only steps whose pattern, meaning, example or area contains this text.
    pub containing: Option<String>,
}

/// Arguments of `schedlab up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Fleet file in YAML, or the name of a fleet of schedlab, such as `mig` [default: the lab's 4 nodes with 8 GPUs each].
    #[arg(long, value_name = "FILE", help_heading = "Fleet")]
    pub fleet: Option<PathBuf>,
    /// Profile of the scheduler. With `kai`, `kube` runs too, for pods without a schedulerName, as
    /// on a real cluster.
    #[arg(long, value_enum, default_value_t = ProfileName::Kai, help_heading = "Scheduler")]
    pub profile: ProfileName,
    /// Run no scheduler.
    #[arg(long, conflicts_with = "profile", help_heading = "Scheduler")]
    pub no_scheduler: bool,
    /// Start without nodes.
    #[arg(long, conflicts_with = "fleet", help_heading = "Fleet")]
    pub empty: bool,
    /// Create the objects of a case (a case file, a snapshot, or output of kubectl) instead of a
    /// fleet. Pods that had a node are bound to it; with `--no-scheduler` the others stay pending.
    #[arg(long, value_name = "CASE", conflicts_with_all = ["fleet", "empty"], help_heading = "Fleet")]
    pub case: Vec<PathBuf>,
    /// Write what is done with kubectl as a feature, at the end: what is submitted, deleted, scaled,
    /// cordoned and changed, with the time between.
    #[arg(long, value_name = "FILE", help_heading = "Recording")]
    pub record: Option<PathBuf>,
    /// Version of Kubernetes: 1.35 or 1.37.
    #[arg(long, default_value_t, value_name = "VERSION", help_heading = "Server")]
    pub kubernetes: KubernetesVersion,
    /// Feature gates, such as `GenericWorkload=true,DRADeviceTaints=false`.
    #[arg(
        long,
        default_value = "",
        value_name = "GATES",
        hide_default_value = true,
        help_heading = "Server"
    )]
    pub feature_gates: String,
    /// Address to listen on. Outside of the loopback interface, every holder of the kubeconfig is
    /// an administrator.
    #[arg(
        long,
        default_value_t = IpAddr::from(Ipv4Addr::LOCALHOST),
        value_name = "ADDRESS",
        help_heading = "Server"
    )]
    pub address: IpAddr,
    /// Port to listen on; 0 chooses a free one.
    #[arg(long, default_value_t = 0, help_heading = "Server")]
    pub port: u16,
    /// Kubeconfig to write, deleted at the end; `-` prints it to standard output.
    #[arg(
        long,
        default_value = "schedlab.kubeconfig",
        value_name = "FILE",
        help_heading = "Server"
    )]
    pub kubeconfig: PathBuf,
    /// Also serve a page that shows the cluster, and print its link.
    #[arg(long, help_heading = "Page")]
    pub ui: bool,
    /// Port of the page on the loopback interface; 0 chooses a free one.
    #[arg(long, default_value_t = 0, requires = "ui", help_heading = "Page")]
    pub ui_port: u16,
    /// Serve the metrics of the KAI profile at `/metrics` of this port of the loopback interface, for
    /// Prometheus; 0 chooses a free one.
    #[arg(long, value_name = "PORT", conflicts_with = "no_scheduler", help_heading = "Server")]
    pub metrics_port: Option<u16>,
}

/// Built-in scheduling profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Queues, gangs and fair share, as in KAI.
    Kai,
    /// The behaviour of the default kube-scheduler.
    Kube,
}

/// Arguments of `schedlab cases`.
#[derive(Debug, Args)]
pub struct Cases {
    /// Folder of JSON files with `cases` or `entries`; other JSON files in it are ignored.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Only cases whose id or file name contains TEXT.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub filter: String,
    /// Output format.
    #[arg(long, value_enum, default_value_t = CasesFormat::Terse)]
    pub format: CasesFormat,
}

/// Output formats of `schedlab cases`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CasesFormat {
    /// A table by file, the failures, and a line with totals.
    Terse,
    /// One JSON object with every verdict.
    Json,
}

/// Arguments of `schedlab keep`.
#[derive(Debug, Args)]
pub struct Keep {
    /// Log file for its output.
    #[arg(long)]
    pub log: PathBuf,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub words: Vec<String>,
}

/// The subcommands of `schedlab snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Show each pending snapshot and ask: (a)ccept, (r)eject or (s)kip.
    #[command(after_help = "Example:\n  schedlab snapshot review snapshots/gang")]
    Review(SnapshotFolder),
    /// Accept every pending snapshot.
    #[command(after_help = "Example:\n  schedlab snapshot accept snapshots/gang")]
    Accept(SnapshotFolder),
    /// Reject every pending snapshot.
    #[command(after_help = "Example:\n  schedlab snapshot reject snapshots/gang")]
    Reject(SnapshotFolder),
}

/// Arguments of the snapshot subcommands.
#[derive(Debug, Args)]
pub struct SnapshotFolder {
    /// Pending snapshots, or folders with them [default: snapshots].
    pub paths: Vec<PathBuf>,
}

/// Parses a number above 0.
fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| *factor > 0.0 && f64::is_finite(*factor));
    factor.ok_or_else(|| "expected a number above 0, such as 0.1 or 1".to_owned())
}

/// The command line of the program. The examples of the scheduler's verbs name this program.
pub fn command() -> clap::Command {
    let renamed = |verb: clap::Command| {
        let example = verb.get_after_help().map(ToString::to_string);
        match example {
            Some(text) => verb.after_help(text.replace("schedlab-scheduler", "schedlab scheduler")),
            None => verb,
        }
    };
    Cli::command().mut_subcommand("scheduler", |scheduler| scheduler.mut_subcommands(renamed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
