//! The arguments of `schedlab lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use schedlab_conformance::text::parse_duration;

use super::Format;

/// Examples for the help text.
pub(super) const EXAMPLES: &str = "\
Examples:
  schedlab lab list
  schedlab lab start b-borrow                  # in one terminal, until Ctrl-C
  schedlab lab verify                          # in another, in the same folder
  schedlab lab check my-lesson.md
  schedlab lab grade class/*.zip";

/// Verbs of `schedlab lab`.
#[derive(Debug, Subcommand)]
pub enum LabVerb {
    /// List the lessons of this program.
    List(LabList),
    /// Start a lesson: its cluster for kubectl, until Ctrl-C.
    Start(LabStart),
    /// Print the text of the running lesson again.
    Show(LabFolderArgs),
    /// Check the tasks on the running cluster: what is right so far, and the first thing that is
    /// not.
    Verify(LabFolderArgs),
    /// Print the next of three hints.
    Hint(LabFolderArgs),
    /// Print the solution.
    Solution(LabFolderArgs),
    /// Print the questions; their answers are computed from the running cluster.
    Quiz(LabFolderArgs),
    /// Answer a question, once its task is solved.
    Answer(LabAnswer),
    /// Let time of the cluster pass at once.
    Wait(LabWait),
    /// Start the lesson again on a new cluster.
    Reset(LabReset),
    /// Write what was done as a zip for the teacher.
    Evidence(LabEvidence),
    /// Run a kubectl command on the lesson's cluster where kubectl is missing: get, describe, apply,
    /// delete, scale, patch, cordon and uncordon.
    Kubectl(LabKubectl),
    /// Apply manifests where kubectl is missing.
    Apply(LabApply),
    /// Check the evidence of a class and print a table of learners and tasks.
    Grade(LabGrade),
    /// Check lessons of your own, and play them by their own solution.
    Check(LabCheck),
}

/// The folder of a running lesson.
#[derive(Clone, Debug, Default, Args)]
pub struct LabFolderArgs {
    /// Folder of the lesson [default: the current folder or the one above if a lesson runs there,
    /// else schedlab-lab].
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Arguments of `schedlab lab list`.
#[derive(Debug, Args)]
pub struct LabList {
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `schedlab lab start`.
#[derive(Debug, Args)]
pub struct LabStart {
    /// Id of a lesson (`schedlab lab list`), its letter, or a Markdown file.
    pub lesson: String,
    /// Folder for kubeconfig and manifests.
    #[command(flatten)]
    pub folder: LabFolderArgs,
    /// Name of the learner, for the evidence [default: `$USER`].
    #[arg(long, value_name = "NAME")]
    pub learner: Option<String>,
    /// Port of the API server on the loopback interface; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
}

/// Arguments of `schedlab lab answer`.
#[derive(Debug, Args)]
pub struct LabAnswer {
    /// Number of the question, from 1.
    pub number: usize,
    /// The answer.
    pub answer: String,
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
}

/// Arguments of `schedlab lab wait`.
#[derive(Debug, Args)]
pub struct LabWait {
    /// How much time passes, such as `10m` or `2h`.
    #[arg(value_parser = parse_duration, value_name = "TIME")]
    pub time: Duration,
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
}

/// Arguments of `schedlab lab reset`.
#[derive(Debug, Args)]
pub struct LabReset {
    /// Create nodes and queues of the lesson that were deleted, and keep everything else.
    #[arg(long)]
    pub missing: bool,
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
}

/// Arguments of `schedlab lab evidence`.
#[derive(Debug, Args)]
pub struct LabEvidence {
    /// The file [default: LESSON-LEARNER.zip in the folder of the lesson].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
}

/// Arguments of `schedlab lab kubectl`.
#[derive(Debug, Args)]
pub struct LabKubectl {
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
    /// The words behind `kubectl`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub words: Vec<String>,
}

/// Arguments of `schedlab lab apply`.
#[derive(Debug, Args)]
pub struct LabApply {
    /// Manifest; repeatable.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<String>,
    /// The running lesson.
    #[command(flatten)]
    pub folder: LabFolderArgs,
}

/// Arguments of `schedlab lab grade`.
#[derive(Debug, Args)]
pub struct LabGrade {
    /// Evidence of learners.
    #[arg(required = true, value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// Lesson of your own that the evidence may be of; repeatable.
    #[arg(long, value_name = "FILE")]
    pub lesson: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `schedlab lab check`.
#[derive(Debug, Args)]
pub struct LabCheck {
    /// Lessons: Markdown files.
    #[arg(required = true, value_name = "FILES")]
    pub files: Vec<PathBuf>,
    /// Only read the lessons, without playing them.
    #[arg(long)]
    pub text_only: bool,
}
