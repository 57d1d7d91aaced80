//! Readers of the formats in CSV and of Philly's JSON. Column names are those of the published
//! traces; `docs/reference/traces.md` says how each column is used.

pub(crate) mod acme;
pub(crate) mod columns;
pub(crate) mod helios;
pub(crate) mod openb;
pub(crate) mod pai;
pub(crate) mod philly;

use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    format::TraceFormat,
    job::JobEnd,
    limits::{CPU_MILLI_RANGE, GPUS_OF_JOB_RANGE, PODS_RANGE},
    lines::Lines,
    recorded::{Recorder, TimeBase},
};

/// Reads jobs, one a row, with times since 1970. `record` records the job of a row.
pub(crate) fn read_dated_rows(
    format: TraceFormat,
    lines: Lines,
    recorder: &mut Recorder<'_>,
    record: impl Fn(&mut Recorder<'_>, CsvRow<'_>) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let columns = format.columns().expect("the format has columns");
    recorder.set_base(TimeBase::Unix);
    recorder.rows(CsvSource::open(lines, columns)?, record)
}

/// The nodes of a job, and the GPUs and CPU cores of all of them together.
#[derive(Clone, Copy, Debug)]
struct RecordedSize {
    /// At least one.
    nodes: u64,
    gpus: u64,
    cpus: u64,
}

impl RecordedSize {
    fn of_row(row: &CsvRow<'_>) -> Result<Self, TraceError> {
        Ok(Self {
            nodes: row.loose_count("node_num", PODS_RANGE.or_zero())?.max(1),
            gpus: row.loose_count("gpu_num", GPUS_OF_JOB_RANGE)?,
            cpus: row.loose_count("cpu_num", CPU_MILLI_RANGE)?,
        })
    }

    /// CPU of a node in thousandths of a core, rounded up.
    fn cpu_milli_of_node(self) -> u64 {
        (self.cpus * 1000).div_ceil(self.nodes)
    }

    /// GPUs of a node in thousandths: whole GPUs, rounded up and counted if they are no whole number.
    fn gpu_milli_of_node(self, recorder: &mut Recorder<'_>) -> u64 {
        if !self.gpus.is_multiple_of(self.nodes) {
            recorder.count("rounded up: their GPUs are no multiple of their nodes");
        }
        self.gpus.div_ceil(self.nodes) * 1000
    }
}

/// What the times of a job say, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
struct RecordedTimes {
    submitted: Option<f64>,
    started: Option<f64>,
    ended: Option<f64>,
}

/// When a job arrived, and how it ended.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    arrives_secs: f64,
    end: JobEnd,
}

impl RecordedTimes {
    /// The lifetime; `None`, counted, if the times tell none.
    fn lifetime(
        self,
        row: &CsvRow<'_>,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Lifetime>, TraceError> {
        let Some(arrives_secs) = self.submitted.or(self.started) else {
            recorder.count("skipped: no submit_time and no start_time");
            return Ok(None);
        };
        if self.started.is_some_and(|started| started < arrives_secs) {
            return Err(row.error("start_time", "a time that is not before submit_time"));
        }
        let since = |start: f64, ended: f64| {
            let allowed = "a time that is not before submit_time and start_time";
            if ended < start { Err(row.error("end_time", allowed)) } else { Ok(ended - start) }
        };
        let end = match (self.started, self.ended) {
            (Some(started), Some(ended)) => JobEnd::RunsSecs(since(started, ended)?),
            (None, Some(ended)) => JobEnd::LeavesAfterSecs(since(arrives_secs, ended)?),
            (Some(_), None) => {
                recorder.count("without an end: start_time without end_time");
                JobEnd::Never
            }
            (None, None) => {
                recorder.count("skipped: no start_time and no end_time");
                return Ok(None);
            }
        };
        Ok(Some(Lifetime { arrives_secs, end }))
    }
}
