//! What people type. Parsing only; each verb's work is in [`crate::commands`].

mod compare;

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::exit::Exit;
use crate::features::{Shard, TagExpression};
use crate::ground::Kubelets;
use crate::report::Reporter;
use crate::runner::Crashes;
use crate::target::Which;
use crate::text::duration;

pub use compare::{DiffRuns, Upgrade, UpgradeCluster, UpgradeWay};

/// Runs GPU-scheduling features on emulated clusters.
#[derive(Debug, Parser)]
#[command(name = "schedlab", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 passed, 1 failed, 2 usage, 3 harness or target could \
not start, 4 nothing selected, 5 snapshots pending or flaky as failure, 130 interrupted.";

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenarios and compare their snapshots.
    Run(Box<Run>),
    /// Show which scenarios a selection means, without running them.
    List(List),
    /// Parse features and match their steps, without a cluster.
    Check(Check),
    /// Show the vocabulary: every step, what it means and an example.
    Steps(Steps),
    /// Boot a cluster to play in: emulator in real time, scheduler, kubeconfig. Ctrl-C ends it.
    Up(Up),
    /// Look at pending snapshots and take or drop them.
    #[command(subcommand)]
    Snapshot(SnapshotVerb),
    /// Runs a program for as long as standard input is open.
    #[command(hide = true)]
    Keep(Keep),
    /// Play a whole trace in virtual time and report what came of it.
    Simulate(Box<crate::simulate::Args>),
    /// Run recorded scheduling cases and decisions on the scheduler's core and compare; those that
    /// go on for rounds also by the whole scheduler on an emulated cluster.
    Cases(Cases),
    /// Decide cycles over a captured cluster: a zip of schedlab-scheduler snapshot, or of KAI's
    /// /get-snapshot. Prints plans and why pods wait.
    Replay(commands::Replay),
    /// Show what differs between two runs: placements and what happened, scenario by scenario.
    Diff(DiffRuns),
    /// Replace one version of a scheduler by another under load, and back, and judge what came of it.
    Upgrade(Upgrade),
    /// Say what this machine can run, and what to install for the rest.
    Doctor(Doctor),
    /// Take away what a crash left: processes, containers, networks, namespaces, folders.
    Clean(Clean),
}

/// How data is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// `schedlab doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Look at this alone, and end with 3 if it cannot run.
    #[arg(value_enum)]
    pub target: Option<crate::doctor::Target>,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `schedlab clean`.
#[derive(Debug, Args)]
pub struct Clean {
    /// Only say what would be removed.
    #[arg(long)]
    pub dry_run: bool,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `schedlab run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Which scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// How they run.
    #[command(flatten)]
    pub flow: Flow,
    /// Where they run.
    #[command(flatten)]
    pub stage: Stage,
    /// What is written about them: `pretty`, `junit=PATH`, `json=PATH`, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "pretty")]
    pub reporter: Vec<Reporter>,
    /// An earlier run, by its folder or its name in the results folder: a scenario that passes
    /// but shows other placements or events than there fails, and is tried again as any other.
    #[arg(long, value_name = "RUN")]
    pub like: Option<String>,
    /// A text that says which scenarios may differ from it, and why: a line "- `file: name`" for
    /// each.
    #[arg(long, value_name = "FILE", requires = "like")]
    pub known: Option<PathBuf>,
    /// Folder for the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub results: PathBuf,
}

/// Which scenarios.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Feature files or folders; `FILE:LINE` means the scenario (or example row) at that line.
    #[arg(default_value = "features")]
    pub paths: Vec<String>,
    /// Only scenarios whose tags match, as `@gang and not @slow`.
    #[arg(short, long, value_name = "EXPR")]
    pub tags: Option<TagExpression>,
    /// Only scenarios whose name contains this (any of these, when given more than once).
    #[arg(short, long, value_name = "TEXT")]
    pub name: Vec<String>,
    /// `--name` means the whole name.
    #[arg(long, requires = "name")]
    pub exact: bool,
    /// Only what failed in the last run.
    #[arg(long)]
    pub last_failed: bool,
    /// Only part M of N of the selection, as `1/4`; which part a scenario is in depends on its
    /// file and name alone.
    #[arg(long, value_name = "M/N")]
    pub shard: Option<Shard>,
}

/// How scenarios run.
#[derive(Clone, Debug, Args)]
pub struct Flow {
    /// Scenarios at a time. When absent as many as there are cores; on a real cluster, where they
    /// wait more than they work, several times as many.
    #[arg(short, long)]
    pub jobs: Option<NonZeroUsize>,
    /// Try a failed scenario again so many times, with the same seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub retries: u32,
    /// Whether a scenario that passes only on a retry counts as passed.
    #[arg(long, value_enum, default_value_t = FlakyResult::Pass)]
    pub flaky_result: FlakyResult,
    /// Start no further scenario after the first failure.
    #[arg(long)]
    pub fail_fast: bool,
    /// Run everything so many times and fail where two runs differ in a byte; in real time, where
    /// no two do not, fail where one of them fails.
    #[arg(long, default_value = "1", value_name = "N")]
    pub repeat: NonZeroUsize,
    /// Play each scenario that passes again with a scheduler that dies before its Nth write and
    /// starts anew; `each`: once for every write, `every:N`: for every Nth. No rule may be broken;
    /// what the scenario claims need not hold then. On the emulator only.
    #[arg(long, value_name = "each|every:N|N")]
    pub crash_before: Option<Crashes>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run in an order that the seed decides (reports keep the files' order).
    #[arg(long)]
    pub shuffle: bool,
    /// How much virtual time one step may take, as `90s` or `2h`.
    #[arg(long, value_parser = duration, default_value = "30d", value_name = "TIME")]
    pub timeout: Duration,
}

/// What `--timeout` is when nobody says it.
pub(crate) const TIMEOUT: Duration = Duration::from_hours(30 * 24);

/// What `--patience` is when nobody says it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Where scenarios run.
#[derive(Clone, Debug, Args)]
pub struct Stage {
    /// The cluster.
    #[arg(long, value_enum, default_value_t = ClusterName::Emulator)]
    pub cluster: ClusterName,
    /// Folder with etcd, kube-apiserver and kube-controller-manager; `KUBEBUILDER_ASSETS`, else
    /// what `make control-plane` built, when absent.
    #[arg(long, value_name = "DIR")]
    pub assets: Option<PathBuf>,
    /// The kubeconfig of `--cluster kubeconfig`; KUBECONFIG, else ~/.kube/config, when absent.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context in that kubeconfig: yes, this is the cluster in which scenarios may make
    /// nodes and namespaces.
    #[arg(long, value_name = "NAME")]
    pub yes_this_cluster: Option<String>,
    /// The image of `--cluster container`: `schedlab/cluster` (kind-configs/image cluster),
    /// `rancher/k3s` or `kwok/cluster`, of any registry and tag; `schedlab/cluster:dev` when absent.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// The kind cluster of this name is used and kept, and made if it is not there; without a
    /// name one is made for the run and deleted.
    #[arg(long, value_name = "NAME")]
    pub kind_cluster: Option<String>,
    /// What the nodes of a new kind cluster are; `SCHEDLAB_NODE_IMAGE`, else kind's own choice,
    /// when absent.
    #[arg(long, value_name = "IMAGE")]
    pub node_image: Option<String>,
    /// kind's configuration of a new cluster, as those in kind-configs; one node when absent.
    #[arg(long, value_name = "FILE")]
    pub kind_config: Option<PathBuf>,
    /// Who plays the kubelets of simulated nodes on a real cluster. kwok starts pods at once and
    /// may end those of Jobs; scenarios that need more are skipped.
    #[arg(long, value_enum, default_value_t = Kubelets::Auto, value_name = "WHO")]
    pub kubelets: Kubelets,
    /// The scheduler: `ours`, `process:COMMAND` with the placeholders {kubeconfig},
    /// {scheduler-name}, {profile} and {dir}, `installed:NAME` for one that runs there, or
    /// `deployment[:IMAGE]` for ours, installed on a kind cluster as people install it.
    #[arg(long, default_value = "ours", value_name = "WHICH")]
    pub scheduler: Which,
    /// What that scheduler is and can do; known by name are
    /// schedlab-scheduler, kai-scheduler, kube-scheduler and kueue.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// What durations are multiplied with on a real cluster; a scenario that speaks of more than
    /// a minute is shortened to it when absent.
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub time_scale: Option<f64>,
    /// How long what shall happen is waited for at least on a real cluster: a busy machine needs
    /// a while, and what never happens is known the later.
    #[arg(long, value_parser = duration, default_value = "2m", value_name = "TIME")]
    pub patience: Duration,
    /// Also run scenarios that need what the cluster or the scheduler lacks.
    #[arg(long)]
    pub force: bool,
}

/// The kinds of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusterName {
    /// In this process, in virtual time.
    Emulator,
    /// etcd, kube-apiserver and kube-controller-manager as processes on this machine.
    ControlPlane,
    /// The cluster that a kubeconfig names.
    Kubeconfig,
    /// A container: our own image, k3s or kwok's.
    Container,
    /// A kind cluster.
    Kind,
}

impl ClusterName {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Emulator => "emulator",
            Self::ControlPlane => "control-plane",
            Self::Kubeconfig => "kubeconfig",
            Self::Container => "container",
            Self::Kind => "kind",
        }
    }
}

/// What a flaky scenario counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlakyResult {
    /// As passed, and reported as flaky.
    Pass,
    /// As a failure, in every report (exit code 5).
    Fail,
}

/// `schedlab list`.
#[derive(Debug, Args)]
pub struct List {
    /// Which scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// How to show them.
    #[arg(long, value_enum, default_value_t = ListFormat::Terse)]
    pub format: ListFormat,
    /// Folder for the results of runs (for `--last-failed`).
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub results: PathBuf,
}

/// Formats of `schedlab list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// `path:line: name`, one a line.
    Terse,
    /// A JSON array.
    Json,
}

/// `schedlab check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Feature files or folders.
    #[arg(default_value = "features")]
    pub paths: Vec<String>,
}

/// `schedlab steps`.
#[derive(Debug, Args)]
pub struct Steps {
    /// Only steps whose pattern or meaning contains this.
    pub containing: Option<String>,
}

/// `schedlab up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Fleet of nodes, a YAML file; the lab's 4 nodes with 8 GPUs each when absent.
    #[arg(long, value_name = "FILE")]
    pub fleet: Option<PathBuf>,
    /// Which scheduler runs beside it. Beside `kai`, as on a real cluster, `kube` runs too, for
    /// pods without a schedulerName.
    #[arg(long, value_enum, default_value_t = ProfileName::Kai)]
    pub profile: ProfileName,
    /// No scheduler beside it.
    #[arg(long, conflicts_with = "profile")]
    pub no_scheduler: bool,
    /// No nodes at all.
    #[arg(long, conflicts_with = "fleet")]
    pub empty: bool,
    /// Address to listen on; beyond the loopback interface whoever reaches it and has the
    /// kubeconfig is an administrator.
    #[arg(long, default_value_t = IpAddr::from(Ipv4Addr::LOCALHOST), value_name = "ADDRESS")]
    pub address: IpAddr,
    /// Port there; a free one when 0.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Where to write the kubeconfig, removed at the end; `-` means standard output.
    #[arg(long, default_value = "schedlab.kubeconfig", value_name = "FILE")]
    pub kubeconfig: PathBuf,
}

/// The built-in scheduling profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Queues, gangs, fair share: KAI's behaviour.
    Kai,
    /// What the default kube-scheduler does.
    Kube,
}

/// `schedlab cases`.
#[derive(Debug, Args)]
pub struct Cases {
    /// Folder of JSON files with `cases` or `entries`; other JSON files in it are left alone.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Only cases whose id, or whose file's name, contains this.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub filter: String,
    /// A table by file and the failures, or JSON with every verdict.
    #[arg(long, value_enum, default_value_t = CasesFormat::Terse)]
    pub format: CasesFormat,
}

/// Formats of `schedlab cases`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CasesFormat {
    /// A table, the failures, and a line with the sum.
    Terse,
    /// One JSON object.
    Json,
}

/// `schedlab keep`.
#[derive(Debug, Args)]
pub struct Keep {
    /// Where its output goes.
    #[arg(long)]
    pub log: PathBuf,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    pub words: Vec<String>,
}

/// `schedlab snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotVerb {
    /// Show each pending snapshot and ask: (a)ccept, (r)eject or (s)kip.
    Review(SnapshotFolder),
    /// Take every pending snapshot.
    Accept(SnapshotFolder),
    /// Drop every pending snapshot.
    Reject(SnapshotFolder),
}

/// Where snapshots are.
#[derive(Debug, Args)]
pub struct SnapshotFolder {
    /// Pending snapshots or folders with them; the folder `snapshots` when absent.
    pub paths: Vec<PathBuf>,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Passed }.into();
        }
    };
    let ended = match cli.command {
        Command::Run(args) => commands::run(&args),
        Command::List(args) => commands::list(&args),
        Command::Check(args) => commands::check(&args),
        Command::Steps(args) => commands::steps(&args),
        Command::Up(args) => commands::up(&args),
        Command::Keep(args) => {
            crate::processes::keep(&args.log, &args.words).map(|()| Exit::Passed)
        }
        Command::Snapshot(verb) => commands::snapshot(&verb),
        Command::Simulate(args) => commands::simulate(&args),
        Command::Cases(args) => commands::cases(&args),
        Command::Replay(args) => commands::replay(&args),
        Command::Diff(args) => commands::diff(&args),
        Command::Upgrade(args) => commands::upgrade(&args),
        Command::Doctor(args) => commands::doctor(&args),
        Command::Clean(args) => commands::clean(&args),
    };
    ended.unwrap_or_else(|error| commands::report_error(&error)).into()
}

/// A factor above 0.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| *factor > 0.0 && f64::is_finite(*factor));
    factor.ok_or_else(|| "allowed is a number above 0, as 0.1 or 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
