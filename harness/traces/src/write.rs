//! Writes traces and queues in the native format.

use std::io::{self, Write};

use serde::Serialize;

use crate::{
    fleet::TraceQueue,
    job::{JobEnd, JobTrace, TraceJob},
    json_lines::{FORMAT, HeaderLine, JobLine},
};

/// Writes a trace, one job a line.
///
/// # Errors
/// The output cannot be written.
pub fn write_jobs(out: &mut impl Write, trace: &JobTrace) -> io::Result<()> {
    if let Some(start) = trace.start {
        serde_json::to_writer(&mut *out, &HeaderLine { format: FORMAT.to_owned(), start })?;
        out.write_all(b"\n")?;
    }
    for job in &trace.jobs {
        serde_json::to_writer(&mut *out, &job_line(job))?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn job_line(job: &TraceJob) -> JobLine {
    let (runs_secs, leaves_after_secs) = match job.end {
        JobEnd::RunsSecs(secs) => (Some(rounded(secs)), None),
        JobEnd::LeavesAfterSecs(secs) => (None, Some(rounded(secs))),
        JobEnd::Never => (None, None),
    };
    JobLine {
        name: job.name.clone(),
        pods: job.pods,
        cpu_milli: job.cpu_milli,
        memory_mib: job.memory_mib,
        gpus: job.gpus,
        gpu_milli: (job.gpu_milli != job.gpus * 1000).then_some(job.gpu_milli),
        gpu_memory_mib: (job.gpu_memory_mib > 0).then_some(job.gpu_memory_mib),
        models: job.models.clone(),
        queue: job.queue.clone(),
        user: job.user.clone(),
        kind: job.kind.clone(),
        priority_class: job.priority_class.clone(),
        arrives_secs: rounded(job.arrives_secs),
        runs_secs,
        leaves_after_secs,
    }
}

/// Seconds without digits beyond milliseconds.
fn rounded(secs: f64) -> f64 {
    (secs * 1000.0).round() / 1000.0
}

/// Writes queues, one a line.
///
/// # Errors
/// The output cannot be written.
pub fn write_queues(out: &mut impl Write, queues: &[TraceQueue]) -> io::Result<()> {
    #[derive(Serialize)]
    struct Line<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        parent: &'a str,
        quota: f64,
        weight: f64,
        limit: f64,
        priority: i64,
    }
    for queue in queues {
        let TraceQueue { name, parent, quota, weight, limit, priority, .. } = queue;
        let line = Line {
            name,
            parent,
            quota: *quota,
            weight: *weight,
            limit: *limit,
            priority: *priority,
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
