//! Philly: `cluster_job_log`, a JSON list of jobs, read one job at a time. A job's pods are the
//! servers of its largest attempt, and it runs as long as all its attempts together.

use std::{cell::RefCell, fmt};

use serde::{
    Deserialize, Deserializer as _,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::{
    csv_source::{ALLOWED_TIME, is_no_time, parse_time},
    error::TraceError,
    job::JobEnd,
    lines::Lines,
    recorded::{RecordedJob, Recorder, TimeBase},
};

#[derive(Deserialize)]
struct PhillyJob {
    jobid: String,
    vc: Option<String>,
    user: Option<String>,
    submitted_time: Option<String>,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Server>,
}

#[derive(Deserialize)]
struct Server {
    #[serde(default)]
    gpus: Vec<String>,
}

/// What is wrong with a job.
struct Problem {
    field: &'static str,
    found: String,
    allowed: &'static str,
}

/// Visits the jobs of the list.
struct Jobs<'r, 'o> {
    recorder: &'r mut Recorder<'o>,
    file: &'r str,
    problem: &'r RefCell<Option<Problem>>,
}

/// Reads the jobs.
pub(crate) fn read(lines: Lines, recorder: &mut Recorder<'_>) -> Result<(), TraceError> {
    recorder.set_base(TimeBase::Unix);
    let file = lines.file.clone();
    let problem = RefCell::new(None);
    let mut input = serde_json::Deserializer::from_reader(lines.into_bytes());
    let jobs = Jobs { recorder, file: &file, problem: &problem };
    let read = input.deserialize_seq(jobs).and_then(|()| input.end());
    read.map_err(|error| {
        let line = u64::try_from(error.line()).unwrap_or_default();
        if let Some(Problem { field, found, allowed }) = problem.take() {
            let column = field.to_owned();
            return TraceError { column, ..TraceError::in_line(&file, line, found, allowed) };
        }
        if error.is_eof() {
            let found = "a truncated file".to_owned();
            return TraceError::in_line(&file, line, found, "a JSON list of Philly's jobs");
        }
        let text = schedlab_api::plain_type_names(&error.to_string());
        let found = text.split(" at line").next().unwrap_or_default();
        let (found, allowed) =
            found.split_once(", expected ").unwrap_or((found, "a JSON list of Philly's jobs"));
        TraceError {
            column: format!("column {}", error.column()),
            ..TraceError::in_line(&file, line, found.to_owned(), allowed)
        }
    })
}

impl<'de> Visitor<'de> for Jobs<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON list of Philly's jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut number = 0;
        while let Some(job) = list.next_element::<PhillyJob>()? {
            number += 1;
            let Err(problem) = record(&job, number, self.recorder) else { continue };
            let found = format!("{} in job {number}, {}", problem.found, job.jobid);
            let error = TraceError {
                column: problem.field.to_owned(),
                ..TraceError::in_line(self.file, 0, found.clone(), problem.allowed)
            };
            if self.recorder.skip(error).is_err() {
                self.problem.replace(Some(Problem { found, ..problem }));
                return Err(A::Error::custom("an invalid job"));
            }
        }
        Ok(())
    }
}

fn record(job: &PhillyJob, number: u64, recorder: &mut Recorder<'_>) -> Result<(), Problem> {
    let Some(submitted) = time("submitted_time", job.submitted_time.as_deref())? else {
        recorder.count("skipped: no submitted_time");
        return Ok(());
    };
    let mut runs_secs = 0.0;
    let mut ended = false;
    for attempt in &job.attempts {
        let start = time("start_time", attempt.start_time.as_deref())?;
        let end = time("end_time", attempt.end_time.as_deref())?;
        ended = end.is_some();
        let (Some(start), Some(end)) = (start, end) else { continue };
        if end < start {
            let found = format!("{:?}", attempt.end_time.as_deref().unwrap_or_default());
            let allowed = "a time that is not before start_time";
            return Err(Problem { field: "end_time", found, allowed });
        }
        runs_secs += end - start;
    }
    let gpus = |attempt: &Attempt| attempt.detail.iter().map(|at| at.gpus.len()).sum::<usize>();
    let Some(largest) = job.attempts.iter().max_by_key(|attempt| gpus(attempt)) else {
        recorder.count("skipped: no attempt, so their size is not known");
        return Ok(());
    };
    let pods = largest.detail.len().max(1);
    if !gpus(largest).is_multiple_of(pods) {
        recorder.count("rounded up: their GPUs are no multiple of their nodes");
    }
    if !ended {
        recorder.count("without an end: no end_time in the last attempt");
    }
    let each = gpus(largest).div_ceil(pods);
    let recorded = RecordedJob {
        line: number,
        name: &job.jobid,
        pods: u64::try_from(pods).unwrap_or(1),
        gpu_milli: u64::try_from(each).unwrap_or_default() * 1000,
        queue: job.vc.as_deref().unwrap_or_default(),
        user: job.user.as_deref().unwrap_or_default(),
        arrives_secs: submitted,
        end: if ended { JobEnd::RunsSecs(runs_secs) } else { JobEnd::Never },
        ..RecordedJob::default()
    };
    // A job whose names are made valid is never rejected.
    let _ = recorder.record(&recorded);
    Ok(())
}

fn time(field: &'static str, text: Option<&str>) -> Result<Option<f64>, Problem> {
    let Some(text) = text.filter(|text| !is_no_time(text)) else { return Ok(None) };
    let problem = || Problem { field, found: format!("{text:?}"), allowed: ALLOWED_TIME };
    parse_time(text).map(Some).ok_or_else(problem)
}
