//! Acme: `trace_seren.csv` and `trace_kalos.csv`. Kalos has the memory of a pod, and the time of a
//! failure or a stop beside the end.

use super::{RecordedTimes, each_of};
use crate::{
    csv_source::CsvRow,
    error::TraceError,
    limits::{CPU_MILLI_RANGE, GPUS_OF_JOB_RANGE, MEMORY_MIB_RANGE, PODS_RANGE},
    numbers::to_count,
    recorded::{RecordedJob, Recorder},
};

/// MiB of a GB.
pub(super) const MIB_PER_GB: f64 = 1e9 / 1_048_576.0;

/// Records the job of a row; a job's pods are its nodes.
pub(crate) fn record(recorder: &mut Recorder<'_>, row: CsvRow<'_>) -> Result<(), TraceError> {
    let pods = row.loose_count("node_num", PODS_RANGE.or_zero())?.max(1);
    let gpus = row.loose_count("gpu_num", GPUS_OF_JOB_RANGE)?;
    let cpus = row.loose_count("cpu_num", CPU_MILLI_RANGE)?;
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
        pods,
        cpu_milli: (cpus * 1000).div_ceil(pods),
        memory_mib: to_count(row.amount("mem_per_pod_GB", MEMORY_MIB_RANGE)? * MIB_PER_GB),
        gpu_milli: each_of(gpus, pods, recorder) * 1000,
        user: row.text("user"),
        kind: row.text("type"),
        arrives_secs: lifetime.arrives_secs,
        end: lifetime.end,
        ..RecordedJob::default()
    };
    recorder.record(&job)
}
