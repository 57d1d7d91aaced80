//! Alibaba PAI: `pai_task_table.csv`, with users and submission times of `pai_job_table.csv` in the
//! same folder, if it is there. Each task is a job, and each of its instances a pod.

use std::{collections::HashMap, path::Path};

use smol_str::SmolStr;

use super::acme::MIB_PER_GB;
use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    format::{Columns, OtherColumns, PAI_COLUMNS, TraceFormat},
    job::JobEnd,
    limits::{CPU_MILLI_RANGE, GPUS_OF_JOB_RANGE, MEMORY_MIB_RANGE, PODS_RANGE},
    lines::{self, Lines},
    numbers::to_count,
    recorded::{RecordedJob, Recorder, TimeBase},
};

/// The table of jobs beside the table of tasks.
const JOB_TABLE: &str = "pai_job_table.csv";
const JOB_COLUMNS: [&str; 6] = ["job_name", "inst_id", "user", "status", "start_time", "end_time"];
/// PAI's times are those of the zone UTC+8 if they are read as seconds since 1970.
const ZONE_SECS: f64 = 8.0 * 3600.0;
/// The GPU type of several old models.
const MISCELLANEOUS: &str = "MISC";

/// What the table of jobs knows about a job.
#[derive(Debug)]
struct PaiJob {
    user: SmolStr,
    submitted: Option<f64>,
}

/// Reads tasks.
pub(crate) fn read(
    path: &Path,
    lines: Lines,
    first: &str,
    recorder: &mut Recorder<'_>,
) -> Result<(), TraceError> {
    let jobs = read_job_table(path)?;
    let columns = TraceFormat::Pai.columns().expect("the format has columns");
    recorder.set_base(TimeBase::Unix);
    let source = table(lines, first, columns, &PAI_COLUMNS)?;
    recorder.rows(source, |recorder, row| parse_task(recorder, &row, &jobs))
}

/// A table with or without a header; the published tables have none.
fn table(
    lines: Lines,
    first: &str,
    columns: Columns,
    names: &[&str],
) -> Result<CsvSource, TraceError> {
    if first.starts_with("job_name") {
        return CsvSource::open(lines, columns);
    }
    Ok(CsvSource::without_header(lines, names))
}

fn read_job_table(path: &Path) -> Result<HashMap<SmolStr, PaiJob>, TraceError> {
    let path = path.with_file_name(JOB_TABLE);
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let opened = lines::open(&path, "a table of jobs")?;
    let columns = Columns { required: &JOB_COLUMNS, optional: &[], others: OtherColumns::Ignored };
    let mut source = table(opened.lines, &opened.first, columns, &JOB_COLUMNS)?;
    let mut jobs = HashMap::new();
    while let Some(row) = source.next_row()? {
        let job = PaiJob { user: row.text("user").into(), submitted: row.seconds("start_time")? };
        jobs.insert(row.text("job_name").into(), job);
    }
    Ok(jobs)
}

fn parse_task(
    recorder: &mut Recorder<'_>,
    row: &CsvRow<'_>,
    jobs: &HashMap<SmolStr, PaiJob>,
) -> Result<(), TraceError> {
    let pods = row.loose_count("inst_num", PODS_RANGE.or_zero())?.max(1);
    let (cpu, gpu) =
        (row.amount("plan_cpu", CPU_MILLI_RANGE)?, row.amount("plan_gpu", GPUS_OF_JOB_RANGE)?);
    let memory = row.amount("plan_mem", MEMORY_MIB_RANGE)?;
    let (started, ended) = (row.seconds("start_time")?, row.seconds("end_time")?);
    let job = jobs.get(row.text("job_name"));
    let Some(started) = started else {
        recorder.count("skipped: no start_time");
        return Ok(());
    };
    let end = match ended {
        Some(ended) if ended < started => {
            return Err(row.error("end_time", "a time that is not before start_time"));
        }
        Some(ended) => JobEnd::RunsSecs(ended - started),
        None => {
            recorder.count("without an end: start_time without end_time");
            JobEnd::Never
        }
    };
    let submitted = job.and_then(|job| job.submitted).filter(|submitted| *submitted <= started);
    let model = row.text("gpu_type");
    let task = RecordedJob {
        line: row.line,
        name: &format!("{}-{}", row.text("job_name"), row.text("task_name")),
        pods,
        cpu_milli: to_count(cpu * 10.0),
        memory_mib: to_count(memory * MIB_PER_GB),
        gpu_milli: to_count(gpu * 10.0),
        model: if model == MISCELLANEOUS { "" } else { model },
        user: job.map_or("", |job| job.user.as_str()),
        kind: row.text("task_name"),
        arrives_secs: submitted.unwrap_or(started) + ZONE_SECS,
        end,
        ..RecordedJob::default()
    };
    recorder.record(&task)
}
