//! openb: pods of Alibaba's cluster-trace-gpu-v2023, each a job.

use smol_str::SmolStr;

use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    format::TraceFormat,
    job::{JobEnd, TraceJob},
    limits::{
        CPU_MILLI_RANGE, GPU_MILLI_RANGE, GPUS_RANGE, JOB_NAME_LIMIT, MEMORY_MIB_RANGE, SECS_RANGE,
    },
    lines::Lines,
    numbers::to_f64,
    recorded::Recorder,
};

/// Reads pods, each as a job. A job's run time is its deletion time minus its start time; a pod
/// that was never scheduled is removed at its deletion time. Without times (in a list of pods, not
/// a trace) all pods arrive at once and stay.
pub(crate) fn read(lines: Lines, recorder: &mut Recorder<'_>) -> Result<(), TraceError> {
    let columns = TraceFormat::Openb.columns().expect("the format has columns");
    let source = CsvSource::open(lines, columns)?;
    recorder.rows(source, |recorder, row| recorder.take(parse_job(&row)))
}

fn parse_job(row: &CsvRow<'_>) -> Result<TraceJob, TraceError> {
    let gpus = row.count("num_gpu", GPUS_RANGE)?;
    let share = row.count("gpu_milli", GPU_MILLI_RANGE)?;
    let allowed = match (gpus, share) {
        (0, 0) | (1, 1..) | (2.., 1000) => None,
        (0, _) => Some("0, as it has no GPU"),
        (1, _) => Some("a whole number from 1 to 1000, a whole GPU"),
        (2.., _) => Some("1000, as it has several GPUs"),
    };
    if let Some(allowed) = allowed {
        return Err(row.error("gpu_milli", allowed));
    }
    let arrives = row.optional_count("creation_time", SECS_RANGE)?.unwrap_or(0);
    Ok(TraceJob {
        line: row.line,
        pods: 1,
        end: parse_end(row, arrives)?,
        name: row.name("name", JOB_NAME_LIMIT)?.into(),
        cpu_milli: row.count("cpu_milli", CPU_MILLI_RANGE)?,
        memory_mib: row.count("memory_mib", MEMORY_MIB_RANGE)?,
        gpus,
        gpu_milli: if gpus == 1 { share } else { gpus.saturating_mul(1000) },
        gpu_memory_mib: 0,
        models: row.models("gpu_spec", Some('|'))?,
        queue: row.text("queue").into(),
        user: SmolStr::default(),
        kind: SmolStr::default(),
        priority_class: row.text("priority_class").into(),
        arrives_secs: to_f64(arrives),
    })
}

/// How a job ends.
fn parse_end(row: &CsvRow<'_>, created: u64) -> Result<JobEnd, TraceError> {
    let scheduled = row.optional_count("scheduled_time", SECS_RANGE)?;
    let deleted = row.optional_count("deletion_time", SECS_RANGE)?;
    if scheduled.is_some_and(|scheduled| scheduled < created) {
        return Err(row.error("scheduled_time", "a time that is not before creation_time"));
    }
    let since = |start: u64, end: u64| {
        let allowed = "a time that is not before creation_time and scheduled_time";
        let secs = end.checked_sub(start).map(to_f64);
        secs.ok_or_else(|| row.error("deletion_time", allowed))
    };
    Ok(match (scheduled, deleted) {
        (Some(start), Some(end)) => JobEnd::RunsSecs(since(start, end)?),
        (None, Some(end)) => JobEnd::LeavesAfterSecs(since(created, end)?),
        (Some(_) | None, None) => JobEnd::Never,
    })
}
