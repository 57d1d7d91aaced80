//! A workload trace: nodes, queues and jobs with their arrival times. Parsed by
//! [`super::csv_files`] and [`super::json_lines`], transformed by [`super::transform`].

use std::fmt;
use std::path::Path;

use schedlab_conformance::text::TextFileError;

/// A trace of jobs, with the nodes and queues on which it is replayed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trace {
    /// Nodes of the fleet, in the order of the file.
    pub nodes: Vec<TraceNode>,
    /// Queues of the trace.
    pub queues: Vec<TraceQueue>,
    /// Jobs, in the order of their arrival.
    pub jobs: Vec<TraceJob>,
}

/// A node of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TraceNode {
    /// Line of the node in its file.
    pub line: u64,
    /// Name of the node.
    pub name: String,
    /// CPU of the node in millicores.
    pub cpu_milli: u64,
    /// Memory of the node in MiB.
    pub memory_mib: u64,
    /// Number of GPUs of the node.
    pub gpus: u64,
    /// GPU model; empty when unknown.
    pub model: String,
}

/// A queue with its GPU quota and limit; CPU and memory are unlimited.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TraceQueue {
    /// Line of the queue in its file.
    pub line: u64,
    /// Name of the queue.
    pub name: String,
    /// Name of the parent queue; empty for a root queue.
    pub parent: String,
    /// GPU quota of the queue; -1 means unlimited.
    pub quota: f64,
    /// Over-quota weight of the queue.
    pub weight: f64,
    /// GPU limit of the queue; -1 means unlimited.
    pub limit: f64,
    /// Queue priority; higher is served first.
    pub priority: i64,
}

/// A job: one pod, or a gang of identical pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TraceJob {
    /// Line of the job in its file.
    pub line: u64,
    /// Name of the job.
    pub name: String,
    /// Number of pods, at least one. They run together or not at all.
    pub pods: u64,
    /// CPU request of each pod, in millicores.
    pub cpu_milli: u64,
    /// Memory request of each pod, in MiB.
    pub memory_mib: u64,
    /// GPU devices of each pod; a fraction counts as one.
    pub gpus: u64,
    /// GPU request of each pod, in thousandths.
    pub gpu_milli: u64,
    /// Acceptable GPU models; empty: any.
    pub models: Vec<String>,
    /// Queue of the job. If empty, the job is assigned to one of the leaf queues in turn.
    pub queue: String,
    /// Priority class of the job; empty means `train`.
    pub priority_class: String,
    /// Arrival of the job, in seconds from the start of the trace.
    pub arrives_secs: f64,
    /// How the job ends.
    pub end: JobEnd,
}

/// How a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum JobEnd {
    /// The job ends this many seconds after it started.
    RunsSecs(f64),
    /// The job's owner removes it this many seconds after its arrival, started or not.
    LeavesAfterSecs(f64),
    /// The job never ends.
    #[default]
    Never,
}

impl TraceJob {
    /// GPU request of all pods of the job, in thousandths.
    pub(crate) fn total_gpu_milli(&self) -> u64 {
        self.gpu_milli.saturating_mul(self.pods)
    }

    /// The requested thousandths of each GPU, if the job requests fractions of GPUs.
    pub(crate) fn gpu_share_milli(&self) -> Option<u64> {
        let each = (self.gpus > 0).then(|| self.gpu_milli.div_ceil(self.gpus))?;
        (each < 1000).then_some(each)
    }
}

impl Trace {
    /// Number of GPUs of all nodes.
    pub(crate) fn gpus(&self) -> u64 {
        self.nodes.iter().map(|node| node.gpus).sum()
    }
}

/// An error in a trace file, printed as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TraceError {
    /// Display path of the file.
    pub file: String,
    /// Line in the file, counted from 1; 0 means the whole file.
    pub line: u64,
    /// Column or field with the error; may be empty.
    pub column: String,
    /// The invalid value that was found.
    pub found: String,
    /// A description of the allowed values.
    pub allowed: String,
}

impl TraceError {
    /// The error for a file that cannot be read or is not UTF-8.
    pub(super) fn from_unreadable_file(path: &Path, error: &TextFileError, allowed: &str) -> Self {
        let allowed = if error.line > 0 { "UTF-8 text" } else { allowed };
        Self {
            file: path.display().to_string(),
            line: u64::try_from(error.line).unwrap_or_default(),
            column: String::new(),
            found: error.found.clone(),
            allowed: allowed.to_owned(),
        }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, found, allowed } = self;
        f.write_str(file)?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        if !column.is_empty() {
            write!(f, ": {column}")?;
        }
        write!(f, ": got {found}, expected {allowed}")
    }
}
