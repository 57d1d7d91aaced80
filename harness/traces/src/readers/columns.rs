//! CSV with the fields of the native format as columns.

use smol_str::SmolStr;

use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    format::TraceFormat,
    job::{JobEnd, TraceJob},
    limits::{
        self, CPU_MILLI_RANGE, GPUS_RANGE, IntRange, JOB_NAME_LIMIT, MEMORY_MIB_RANGE, PODS_RANGE,
    },
    lines::Lines,
    recorded::Recorder,
};

/// Reads jobs, one a row.
pub(crate) fn read(lines: Lines, recorder: &mut Recorder<'_>) -> Result<(), TraceError> {
    let columns = TraceFormat::Columns.columns().expect("the format has columns");
    let source = CsvSource::open(lines, columns)?;
    recorder.rows(source, |recorder, row| recorder.take(parse_job(&row)))
}

fn parse_job(row: &CsvRow<'_>) -> Result<TraceJob, TraceError> {
    let count = |column: &str, bound: IntRange, otherwise: u64| {
        row.optional_count(column, bound).map(|count| count.unwrap_or(otherwise))
    };
    let gpus = count("gpus", GPUS_RANGE, 0)?;
    let share = row.optional("gpu_milli", "1 to 1000 for each of its GPUs", |share: &u64| {
        (1..=gpus * 1000).contains(share)
    })?;
    let memory = row.optional_count("gpu_memory_mib", MEMORY_MIB_RANGE.at_least_one())?;
    match memory {
        Some(_) if gpus == 0 => {
            return Err(row.error("gpu_memory_mib", "nothing, as the job has no GPU"));
        }
        Some(_) if share.is_some() => {
            return Err(row.error("gpu_memory_mib", "nothing, as the row has gpu_milli"));
        }
        Some(_) | None => {}
    }
    let arrives_secs = row.seconds("arrives_secs")?;
    let end = match (row.seconds("runs_secs")?, row.seconds("leaves_after_secs")?) {
        (Some(_), Some(_)) => {
            return Err(row.error("leaves_after_secs", "nothing, as the row has runs_secs"));
        }
        (Some(secs), None) => JobEnd::RunsSecs(secs),
        (None, Some(secs)) => JobEnd::LeavesAfterSecs(secs),
        (None, None) => JobEnd::Never,
    };
    let text = |column: &str| SmolStr::from(row.text(column));
    Ok(TraceJob {
        line: row.line,
        name: row.name("name", JOB_NAME_LIMIT)?.into(),
        pods: count("pods", PODS_RANGE, 1)?,
        cpu_milli: count("cpu_milli", CPU_MILLI_RANGE, 0)?,
        memory_mib: count("memory_mib", MEMORY_MIB_RANGE, 0)?,
        gpus,
        gpu_milli: share.unwrap_or(gpus * 1000),
        gpu_memory_mib: memory.unwrap_or_default(),
        models: row.models("models", Some('|'))?,
        queue: text("queue"),
        user: text("user"),
        kind: text("kind"),
        priority_class: text("priority_class"),
        arrives_secs: arrives_secs
            .ok_or_else(|| row.error("arrives_secs", limits::ALLOWED_SECS))?,
        end,
    })
}
