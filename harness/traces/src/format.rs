//! Formats of traces, and how the first line of a file tells its format.

use std::{fmt, str::FromStr};

/// A format of a file of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceFormat {
    /// The native format: JSON lines.
    JsonLines,
    /// CSV with the fields of the native format as columns.
    Columns,
    /// CSV of Alibaba's openb trace (cluster-trace-gpu-v2023).
    Openb,
    /// CSV of Acme: `trace_seren.csv` and `trace_kalos.csv`.
    Acme,
    /// JSON of Philly: `cluster_job_log`.
    Philly,
    /// CSV of Helios: `cluster_log.csv`.
    Helios,
    /// CSV of Alibaba PAI (cluster-trace-gpu-v2020): `pai_task_table.csv`.
    Pai,
}

/// The error for a name that is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("got format {0:?}, expected one of {list}", list = TraceFormat::list())]
pub struct UnknownFormat(pub String);

/// The columns by which a header is known, and the others that it may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) required: &'static [&'static str],
    pub(crate) optional: &'static [&'static str],
    pub(crate) others: OtherColumns,
}

/// What happens to columns that are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherColumns {
    Ignored,
    Rejected,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::JsonLines,
        Self::Columns,
        Self::Openb,
        Self::Acme,
        Self::Philly,
        Self::Helios,
        Self::Pai,
    ];

    /// The name of the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonLines => "json-lines",
            Self::Columns => "columns",
            Self::Openb => "openb",
            Self::Acme => "acme",
            Self::Philly => "philly",
            Self::Helios => "helios",
            Self::Pai => "pai",
        }
    }

    fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The columns of a CSV format.
    pub(crate) fn columns(self) -> Option<Columns> {
        let ignored = |required, optional| {
            Some(Columns { required, optional, others: OtherColumns::Ignored })
        };
        let rejected = |required, optional| {
            Some(Columns { required, optional, others: OtherColumns::Rejected })
        };
        match self {
            Self::JsonLines | Self::Philly => None,
            Self::Columns => rejected(&["name", "arrives_secs"], COLUMNS_OPTIONAL),
            Self::Openb => rejected(OPENB_REQUIRED, OPENB_OPTIONAL),
            Self::Acme => ignored(ACME_REQUIRED, ACME_OPTIONAL),
            Self::Helios => ignored(HELIOS_REQUIRED, &["duration", "queue"]),
            Self::Pai => ignored(&PAI_COLUMNS, &[]),
        }
    }

    /// The format of a file that begins with this line.
    ///
    /// # Errors
    /// What was found, if no format begins so.
    pub(crate) fn of_first_line(line: &str) -> Result<Self, String> {
        let line = line.trim();
        if line.starts_with('[') {
            return Ok(Self::Philly);
        }
        if line.starts_with('{') {
            let is_philly = ["\"jobid\"", "\"attempts\""].iter().any(|key| line.contains(key));
            return Ok(if is_philly { Self::Philly } else { Self::JsonLines });
        }
        let header: Vec<&str> = line.split(',').map(str::trim).collect();
        if header.len() == PAI_COLUMNS.len() && is_pai_row(&header) {
            return Ok(Self::Pai);
        }
        let share = |format: &Self| {
            let columns = format.columns().map_or(&[][..], |columns| columns.required);
            let found = columns.iter().filter(|name| header.contains(name)).count();
            (found > 0).then(|| (found * 1000) / columns.len())
        };
        let best = Self::ALL.into_iter().filter_map(|format| Some((share(&format)?, format)));
        // Of formats with equal shares the first one of the list.
        match best.rev().max_by_key(|(share, _)| *share) {
            Some((_, format)) => Ok(format),
            None => Err(shortened(line)),
        }
    }
}

/// A message about an unknown first line lists what would have been known.
pub(crate) const ALLOWED_FIRST_LINE: &str = "JSON lines, a header with the columns of openb, acme, \
     helios, pai or name,arrives_secs,…, or Philly's JSON list; --format names the format of a \
     file without a header";

/// A line for a message: not longer than 80 characters.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(80) {
        Some((end, _)) => format!("{:?}…", line.split_at(end).0),
        None => format!("{line:?}"),
    }
}

/// Whether the cells are a row of PAI's tasks: the tables are published without a header.
fn is_pai_row(cells: &[&str]) -> bool {
    let is_number = |cell: &&str| cell.is_empty() || cell.parse::<f64>().is_ok();
    let numbers = [2, 4, 5, 6, 7, 8].map(|at| cells[at]);
    !cells[0].is_empty() && numbers.iter().all(is_number) && numbers.iter().any(|c| !c.is_empty())
}

impl FromStr for TraceFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let format = Self::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const COLUMNS_OPTIONAL: &[&str] = &[
    "pods",
    "gpus",
    "gpu_milli",
    "gpu_memory_mib",
    "cpu_milli",
    "memory_mib",
    "models",
    "queue",
    "user",
    "kind",
    "priority_class",
    "runs_secs",
    "leaves_after_secs",
];
const OPENB_REQUIRED: &[&str] = &["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
/// openb's `qos` and `pod_phase` are accepted and ignored; `queue` and `priority_class` are ours.
const OPENB_OPTIONAL: &[&str] = &[
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
    "queue",
    "priority_class",
];
const ACME_REQUIRED: &[&str] = &[
    "job_id",
    "user",
    "node_num",
    "gpu_num",
    "cpu_num",
    "type",
    "submit_time",
    "start_time",
    "end_time",
];
const ACME_OPTIONAL: &[&str] = &["state", "mem_per_pod_GB", "fail_time", "stop_time"];
const HELIOS_REQUIRED: &[&str] = &[
    "job_id",
    "user",
    "vc",
    "gpu_num",
    "cpu_num",
    "node_num",
    "state",
    "submit_time",
    "start_time",
    "end_time",
];
/// Columns of PAI's tasks, in the order of the published file, which has no header.
pub(crate) const PAI_COLUMNS: [&str; 10] = [
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
];
