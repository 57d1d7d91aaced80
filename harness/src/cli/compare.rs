//! What is compared: runs with runs, versions of a scheduler with each other.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use schedlab_scheduler::config::names;

use super::Format;

/// `schedlab diff`.
#[derive(Debug, Args)]
pub struct DiffRuns {
    /// The first run: its folder, its name in the results folder, or `latest`.
    pub run_a: String,
    /// The second run.
    pub run_b: String,
    /// In which order pods were served, and so who shares a node with whom, is no difference (it
    /// never is one when a run was on a real cluster).
    #[arg(long)]
    pub any_order: bool,
    /// A text that says which scenarios may differ, and why: a line "- `file: name`" for each.
    #[arg(long, value_name = "FILE")]
    pub known: Option<PathBuf>,
    /// Compare what both runs have, and do not mind what only one of them has.
    #[arg(long)]
    pub common: bool,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Folder for the results of runs.
    #[arg(long, default_value = "results", value_name = "DIR")]
    pub results: PathBuf,
}

/// `schedlab upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// The old version: `process:COMMAND`, with {kubeconfig} and {scheduler-name} in it;
    /// `image:REFERENCE` for our manifests with that image; `chart:CHART` with arguments for helm.
    #[arg(long, value_name = "SPEC")]
    pub from: crate::upgrade::Spec,
    /// The new version, of the same sort.
    #[arg(long, value_name = "SPEC")]
    pub to: crate::upgrade::Spec,
    /// How one follows the other.
    #[arg(long, value_enum, default_value_t = UpgradeWay::Both)]
    pub way: UpgradeWay,
    /// Where; when absent, processes on the emulator, images and charts on kind.
    #[arg(long, value_enum)]
    pub cluster: Option<UpgradeCluster>,
    /// Folder with etcd, kube-apiserver and kube-controller-manager; `KUBEBUILDER_ASSETS`, else
    /// what `make control-plane` built, when absent.
    #[arg(long, value_name = "DIR")]
    pub assets: Option<PathBuf>,
    /// Image of kind's nodes; `SCHEDLAB_NODE_IMAGE`, else kind's own choice, when absent.
    #[arg(long, value_name = "IMAGE")]
    pub node_image: Option<String>,
    /// The scheduler's name in `spec.schedulerName`.
    #[arg(long, default_value = "kai-scheduler", value_name = "NAME", value_parser = names::scheduler_name)]
    pub scheduler_name: String,
    /// How to tell it.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// On which cluster versions of a scheduler replace each other, each way on a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpgradeCluster {
    /// In this process, in real time.
    Emulator,
    /// etcd, kube-apiserver and kube-controller-manager as processes on this machine.
    ControlPlane,
    /// A kind cluster, for versions that are installed.
    Kind,
}

/// How one version follows the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UpgradeWay {
    /// The new one starts while the old one still runs.
    Rolling,
    /// The old one stops first.
    StopAndStart,
    /// One after the other, each on a cluster of its own.
    Both,
}
