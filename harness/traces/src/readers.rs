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

/// A share of `total` for each of `parts`, rounded up and counted if it is no whole number.
fn each_of(total: u64, parts: u64, recorder: &mut Recorder<'_>) -> u64 {
    if !total.is_multiple_of(parts) {
        recorder.count("rounded up: their GPUs are no multiple of their nodes");
    }
    total.div_ceil(parts)
}
