//! A trace: the nodes of a fleet, its queues, and what was asked of it when. How it is read from
//! files stands in [`super::csv_files`] and [`super::json_lines`], how it is bent in
//! [`super::bend`].

use std::fmt;
use std::path::Path;

use crate::text::Unreadable;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Nodes, in the order of the file.
    pub nodes: Vec<TraceNode>,
    /// Queues, parents before their children.
    pub queues: Vec<TraceQueue>,
    /// Work, by arrival.
    pub jobs: Vec<TraceJob>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceNode {
    /// Line of its file.
    pub line: u64,
    /// Its name.
    pub name: String,
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Whole GPUs.
    pub gpus: u64,
    /// GPU model, empty when there is none.
    pub model: String,
}

/// A queue, in GPUs; cores and memory are not bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceQueue {
    /// Line of its file.
    pub line: u64,
    /// Its name.
    pub name: String,
    /// The queue above it; empty for a top queue.
    pub parent: String,
    /// GPUs it deserves; -1: all.
    pub quota: f64,
    /// Its part of what is left over.
    pub weight: f64,
    /// Most GPUs it may use; -1: no limit.
    pub limit: f64,
    /// Higher is served first.
    pub priority: i64,
}

/// A piece of work: one pod, or a gang of equal pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceJob {
    /// Line of its file.
    pub line: u64,
    /// Its name.
    pub name: String,
    /// How many pods; at least one. They run together or not at all.
    pub pods: u64,
    /// What each pod asks for.
    pub cpu_milli: u64,
    /// As above.
    pub memory_mib: u64,
    /// GPUs of each pod, a share of one as one.
    pub gpus: u64,
    /// Thousandths of GPUs that each pod uses.
    pub gpu_milli: u64,
    /// GPU models that will do; none: every model.
    pub models: Vec<String>,
    /// Its queue; empty: dealt out among the leaf queues in turn.
    pub queue: String,
    /// Its priority class; empty: `train`.
    pub priority_class: String,
    /// When it comes, in seconds from the start.
    pub arrives_secs: f64,
    /// How it ends.
    pub end: End,
}

/// How a piece of work ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum End {
    /// So many seconds after it started.
    RunsSecs(f64),
    /// So many seconds after it came, started or not: somebody took it away.
    LeavesAfterSecs(f64),
    /// Never.
    #[default]
    Never,
}

impl TraceJob {
    /// Thousandths of GPUs of all its pods.
    pub fn gpu_milli_in_all(&self) -> u64 {
        self.gpu_milli.saturating_mul(self.pods)
    }

    /// Thousandths of each of its GPUs, where it does not ask for whole ones.
    pub fn share(&self) -> Option<u64> {
        let each = (self.gpus > 0).then(|| self.gpu_milli.div_ceil(self.gpus))?;
        (each < 1000).then_some(each)
    }
}

impl Trace {
    /// GPUs of the fleet.
    pub fn gpus(&self) -> u64 {
        self.nodes.iter().map(|node| node.gpus).sum()
    }
}

/// What is wrong with a file, and where: one line for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 when the file as a whole is wrong.
    pub line: u64,
    /// The column or field.
    pub column: String,
    /// What stands there.
    pub found: String,
    /// What may stand there.
    pub allowed: String,
}

impl Fault {
    /// A file that cannot be read, or is no text.
    pub(super) fn unreadable(path: &Path, error: &Unreadable, allowed: &str) -> Self {
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, found, allowed } = self;
        f.write_str(file)?;
        if *line > 0 {
            write!(f, ":{line}")?;
        }
        if !column.is_empty() {
            write!(f, ": {column}")?;
        }
        write!(f, ": found {found}, allowed is {allowed}")
    }
}
