//! Helios: `cluster_log.csv` of a cluster.

use super::{RecordedSize, RecordedTimes};
use crate::{
    csv_source::CsvRow,
    error::TraceError,
    recorded::{RecordedJob, Recorder},
};

/// Records the job of a row; a job's pods are its nodes.
pub(crate) fn record(recorder: &mut Recorder<'_>, row: CsvRow<'_>) -> Result<(), TraceError> {
    let size = RecordedSize::of_row(&row)?;
    let times = RecordedTimes {
        submitted: row.time("submit_time")?,
        started: row.time("start_time")?,
        ended: row.time("end_time")?,
    };
    let Some(lifetime) = times.lifetime(&row, recorder)? else { return Ok(()) };
    let job = RecordedJob {
        line: row.line,
        name: row.text("job_id"),
        pods: size.nodes,
        cpu_milli: size.cpu_milli_of_node(),
        gpu_milli: size.gpu_milli_of_node(recorder),
        queue: row.text("vc"),
        user: row.text("user"),
        arrives_secs: lifetime.arrives_secs,
        end: lifetime.end,
        ..RecordedJob::default()
    };
    recorder.record(&job)
}
