//! Arguments of `conform`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use schedlab_conformance::conform::RequiredLevel;

use super::{EnvironmentArgs, ExecutionArgs};

/// Arguments of `schedlab conform`.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Conform {
    /// The profile: gpu-core-v1, or a file of the same format.
    #[arg(long, default_value = "gpu-core-v1", value_name = "NAME|FILE", help_heading = "Profile")]
    pub profile: String,
    /// Only the behaviour with this id, such as `gang.waits-whole`; any of them, if repeated. Such a
    /// report is no verdict on the profile.
    #[arg(long, value_name = "ID", help_heading = "Profile")]
    pub only: Vec<String>,
    /// Print the ids of the profile's behaviours and what they say, and end.
    #[arg(long, help_heading = "Profile")]
    pub list: bool,
    /// Folder with features that have the profile's scenarios, instead of the suite of this
    /// version of schedlab.
    #[arg(long, value_name = "DIR", help_heading = "Profile")]
    pub features: Option<String>,
    /// Version of the scheduler under test, for the report [default: `version` of the target file].
    #[arg(long, value_name = "VERSION", help_heading = "Report")]
    pub implementation_version: Option<String>,
    /// Folder for conformance.yaml, conformance.json and evidence [default:
    /// `results/conformance/NAME`, NAME that of the target; with `--only`, its folder `only`].
    #[arg(long, value_name = "DIR", help_heading = "Report")]
    pub report: Option<PathBuf>,
    /// Test our scheduler and each scheduler that `make targets` and `make control-plane` have
    /// built, and write the matrix of behaviours by scheduler, with a report for each in the matrix's
    /// folder. A scheduler whose report is there already is not tested again.
    #[arg(long, help_heading = "Matrix", conflicts_with_all = ["target", "scheduler", "report"])]
    pub all_targets: bool,
    /// File for the matrix.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "docs/conformance/matrix.md",
        help_heading = "Matrix"
    )]
    pub matrix: PathBuf,
    /// Print the JSON Schema of reports and end.
    #[arg(long, help_heading = "Report")]
    pub schema: bool,
    /// Also write evidence in the form that a programme asks for.
    #[arg(long, value_enum, value_name = "PROGRAMME", help_heading = "Report")]
    pub evidence: Vec<EvidenceProgramme>,
    /// Where `gang_scheduling.md` will be published, for the row of `PRODUCT.yaml`.
    #[arg(long, value_name = "URL", requires = "evidence", help_heading = "Report")]
    pub evidence_url: Option<String>,
    /// Exit with 1 unless every behaviour of this area passed, such as `gang` or `gang:extended`.
    /// Without this option and `--baseline-report` the exit code is 1 if the verdict is "not conformant".
    #[arg(long, value_name = "AREA[:LEVEL]", help_heading = "Verdict")]
    pub require: Vec<RequiredLevel>,
    /// Exit with 1 if more than N behaviours were skipped.
    #[arg(long, value_name = "N", help_heading = "Verdict")]
    pub max_skipped: Option<usize>,
    /// Exit with 1 if a behaviour that passed in this report does not pass now; which others fail
    /// does not matter then. Behaviours that one of both reports lacks are not compared.
    #[arg(long, value_name = "REPORT", help_heading = "Verdict")]
    pub baseline_report: Option<PathBuf>,
    /// Print each scenario, and all lines of failure messages.
    #[arg(short, long, help_heading = "Report")]
    pub verbose: bool,
    /// Take defaults from this profile of schedlab.toml, before those of its `[run]`.
    #[arg(long, value_name = "NAME", help_heading = "Settings")]
    pub settings_profile: Option<String>,
    /// Execution options.
    #[command(flatten)]
    pub execution: ExecutionArgs,
    /// Cluster and scheduler options.
    #[command(flatten)]
    pub environment: EnvironmentArgs,
}

/// A programme that asks for evidence of conformance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EvidenceProgramme {
    /// The CNCF AI conformance programme: its requirement `gang_scheduling` (KAR-0053).
    CncfAi,
}
