//! Acme: `trace_seren.csv` and `trace_kalos.csv`. Kalos has the memory of a pod, and the time of a
//! failure or a stop beside the end.

use super::{RecordedSize, RecordedTimes};
use crate::{
    csv_source::CsvRow,
    error::TraceError,
    limits::MEMORY_MIB_RANGE,
    numbers::to_count,
    recorded::{RecordedJob, Recorder},
};

/// MiB of a GB.
pub(super) const MIB_PER_GB: f64 = 1e9 / 1_048_576.0;

/// Records the job of a row; a job's pods are its nodes.
pub(crate) fn record(recorder: &mut Recorder<'_>, row: CsvRow<'_>) -> Result<(), TraceError> {
    let size = RecordedSize::of_row(&row)?;
    let ended = [row.time("end_time")?, row.time("stop_time")?, row.time("fail_time")?];
    let times = RecordedTimes {
        submitted: row.time("submit_time")?,
        started: row.time("start_time")?,
        ended: ended.into_iter().flatten().next(),
    };
    let Some(lifetime) = times.lifetime(&row, recorder)? else { return Ok(()) };
    let job = RecordedJob {
        line: row.line,
        name: row.text("job_id"),
        pods: size.nodes,
        cpu_milli: size.cpu_milli_of_node(),
        memory_mib: to_count(row.amount("mem_per_pod_GB", MEMORY_MIB_RANGE)? * MIB_PER_GB),
        gpu_milli: size.gpu_milli_of_node(recorder),
        user: row.text("user"),
        kind: row.text("type"),
        arrives_secs: lifetime.arrives_secs,
        end: lifetime.end,
        ..RecordedJob::default()
    };
    recorder.record(&job)
}
