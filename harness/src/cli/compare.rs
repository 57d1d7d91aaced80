//! Arguments of `diff` and `upgrade`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_scheduler::config::names;

use super::{Format, ProfileArgs};

/// Arguments of `schedlab diff`.
#[derive(Debug, Args)]
pub struct DiffRuns {
    /// The first run: its folder, its name in the results folder, or `latest`.
    pub run_a: String,
    /// The second run.
    pub run_b: String,
    /// Ignore the order of events, and so which pods share a node; always ignored for runs on a
    /// real cluster.
    #[arg(long, help_heading = "Comparison")]
    pub any_order: bool,
    /// File that lists the scenarios that may differ, and why: a line "- `file: name`" for each.
    #[arg(long, alias = "known", value_name = "FILE", help_heading = "Comparison")]
    pub expected_differences: Option<PathBuf>,
    /// Compare only scenarios that both runs have.
    #[arg(long, help_heading = "Comparison")]
    pub common: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
    /// File for a page that shows both runs side by side, with the cluster after every write if the
    /// runs were made with --reporter html=FILE.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Folder for the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR", help_heading = "Output")]
    pub results: PathBuf,
    /// The profile of the settings.
    #[command(flatten)]
    pub profile: ProfileArgs,
}

/// Arguments of `schedlab upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The old version: `process:COMMAND`, with the placeholders {kubeconfig} and {scheduler-name};
    /// `image:REFERENCE` for our manifests with that image; or `chart:CHART` with arguments for
    /// helm.
    #[arg(long, value_name = "SPEC", help_heading = "Versions")]
    pub from: schedlab_apps::upgrade::SchedulerSpec,
    /// The new version, of the same kind.
    #[arg(long, value_name = "SPEC", help_heading = "Versions")]
    pub to: schedlab_apps::upgrade::SchedulerSpec,
    /// Nodes instead of 4 with 8 GPUs: a fleet file, output of kubectl, CSV with the columns of
    /// openb, or JSON lines.
    #[arg(long, value_name = "FILE", conflicts_with = "case", help_heading = "Fleet and work")]
    pub fleet: Option<PathBuf>,
    /// A captured cluster: its nodes, queues and work are used, and what both versions decide about it
    /// is compared.
    #[arg(long, value_name = "CASE", num_args = 1.., help_heading = "Fleet and work")]
    pub case: Vec<PathBuf>,
    /// A trace of jobs, as for `simulate --pods`: its jobs are submitted all at once in the order of
    /// their arrival, and what both versions decide about them is compared.
    #[arg(long, value_name = "FILE", help_heading = "Fleet and work")]
    pub trace: Option<PathBuf>,
    /// Take only the first jobs of the trace.
    #[arg(long, value_name = "N", requires = "trace", help_heading = "Fleet and work")]
    pub jobs: Option<usize>,
    /// How the new version replaces the old one.
    #[arg(
        long,
        value_enum,
        default_value_t = UpgradeStrategy::Both,
        help_heading = "Versions"
    )]
    pub way: UpgradeStrategy,
    /// The cluster [default: emulator for processes, kind for images and charts].
    #[arg(long, value_enum, help_heading = "Cluster")]
    pub cluster: Option<UpgradeCluster>,
    /// Folder with etcd, kube-apiserver and kube-controller-manager [default:
    /// `$KUBEBUILDER_ASSETS`,
    /// else the output of `make control-plane`].
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub assets: Option<PathBuf>,
    /// Image of kind's nodes [default: `$SCHEDLAB_NODE_IMAGE`, else kind's own].
    #[arg(long, value_name = "IMAGE", help_heading = "Cluster")]
    pub node_image: Option<String>,
    /// The scheduler's name in `spec.schedulerName`.
    #[arg(
        long,
        default_value = "kai-scheduler",
        value_name = "NAME",
        value_parser = names::parse_scheduler_name,
        help_heading = "Versions"
    )]
    pub scheduler_name: String,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub format: Format,
}

/// Clusters for upgrades; each replacement gets a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpgradeCluster {
    /// An emulated cluster in this process, in real time.
    Emulator,
    /// etcd, kube-apiserver and kube-controller-manager as processes on this machine.
    ControlPlane,
    /// A kind cluster, for images and charts.
    Kind,
}

/// How the new version replaces the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpgradeStrategy {
    /// The new one starts while the old one still runs.
    Rolling,
    /// The old one stops first.
    StopAndStart,
    /// Both, each on its own cluster.
    Both,
}

/// A version of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulerVersion {
    /// A git revision of schedlab.
    Revision(String),
    /// A value of `--scheduler`, such as `process:COMMAND` or `deployment:IMAGE`.
    Source(String),
}

impl FromStr for SchedulerVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("git", revision)) if !revision.is_empty() => {
                Ok(Self::Revision(revision.to_owned()))
            }
            _ => match text.parse::<SchedulerSource>() {
                Ok(_) => Ok(Self::Source(text.to_owned())),
                Err(_) => Err("expected git:REVISION, process:COMMAND, installed:NAME or \
                               deployment:IMAGE"
                    .to_owned()),
            },
        }
    }
}

impl fmt::Display for SchedulerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revision(revision) => write!(f, "git:{revision}"),
            Self::Source(source) => f.write_str(source),
        }
    }
}

/// Arguments of `schedlab bisect`.
#[derive(Debug, Args)]
pub struct Bisect {
    /// Feature files that pass on the good version and fail on the bad one.
    #[arg(value_name = "FILE")]
    pub paths: Vec<String>,
    /// A version that passes: `git:REVISION` of schedlab, or a value of `--scheduler` such as
    /// `process:COMMAND` or `deployment:IMAGE`.
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub good: SchedulerVersion,
    /// A later version that fails.
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub bad: SchedulerVersion,
    /// A version between them; repeated, in their order. Git revisions are listed by git.
    #[arg(long, value_name = "VERSION", help_heading = "Versions")]
    pub between: Vec<SchedulerVersion>,
    /// Repository of the revisions.
    #[arg(long, value_name = "DIR", default_value = ".", help_heading = "Revisions")]
    pub repository: PathBuf,
    /// Command that builds a revision, in its folder. A revision that it fails for is skipped.
    #[arg(
        long,
        value_name = "COMMAND",
        default_value = "cargo build --release --package schedlab",
        help_heading = "Revisions"
    )]
    pub build: String,
    /// The program that the build makes, relative to the folder.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/release/schedlab",
        help_heading = "Revisions"
    )]
    pub program: PathBuf,
    /// Command to judge a version with, instead of running features: it exits with 0 if the version
    /// is good, 125 if it cannot be tested, else with another code below 128. {scheduler} is the
    /// version, {program} the built program.
    #[arg(long, value_name = "COMMAND", conflicts_with = "paths", help_heading = "Judging")]
    pub command: Option<String>,
    /// Options for `schedlab run`, such as `--cluster control-plane --target FILE`.
    #[arg(last = true, value_name = "OPTION", help_heading = "Judging")]
    pub run_options: Vec<String>,
}
