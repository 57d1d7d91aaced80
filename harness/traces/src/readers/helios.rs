//! Helios: `cluster_log.csv` of a cluster.

use super::{RecordedTimes, each_of};
use crate::{
    csv_source::CsvRow,
    error::TraceError,
    limits::{CPU_MILLI_RANGE, GPUS_OF_JOB_RANGE, PODS_RANGE},
    recorded::{RecordedJob, Recorder},
};

/// Records the job of a row; a job's pods are its nodes.
pub(crate) fn record(recorder: &mut Recorder<'_>, row: CsvRow<'_>) -> Result<(), TraceError> {
    let pods = row.loose_count("node_num", PODS_RANGE.or_zero())?.max(1);
    let gpus = row.loose_count("gpu_num", GPUS_OF_JOB_RANGE)?;
    let cpus = row.loose_count("cpu_num", CPU_MILLI_RANGE)?;
    let times = RecordedTimes {
        submitted: row.time("submit_time")?,
        started: row.time("start_time")?,
        ended: row.time("end_time")?,
    };
    let Some(lifetime) = times.lifetime(&row, recorder)? else { return Ok(()) };
    let job = RecordedJob {
        line: row.line,
        name: row.text("job_id"),
        pods,
        cpu_milli: (cpus * 1000).div_ceil(pods),
        gpu_milli: each_of(gpus, pods, recorder) * 1000,
        queue: row.text("vc"),
        user: row.text("user"),
        arrives_secs: lifetime.arrives_secs,
        end: lifetime.end,
        ..RecordedJob::default()
    };
    recorder.record(&job)
}
