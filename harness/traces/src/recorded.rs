//! Jobs as traces record them: names become those that Kubernetes accepts, rows without a run are
//! counted, and invalid rows are skipped if the user wants that.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use smol_str::SmolStr;

use crate::{
    csv_source::{CsvRow, CsvSource},
    error::TraceError,
    job::{JobEnd, TraceJob},
    limits,
    numbers::{jobs_text, to_count},
    options::{QueueBy, ReadOptions},
};

/// What the times of a trace count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeBase {
    /// The start of the trace.
    #[default]
    Start,
    /// 1 January 1970, UTC.
    Unix,
}

/// Collects the jobs of a trace.
#[derive(Debug)]
pub(crate) struct Recorder<'o> {
    options: &'o ReadOptions,
    jobs: Vec<TraceJob>,
    /// How often something was skipped or rounded.
    counts: BTreeMap<&'static str, usize>,
    invalid: usize,
    first_invalid: Option<TraceError>,
    base: TimeBase,
    job_names: HashSet<SmolStr>,
    queue_names: NameMap,
}

/// A job as a public trace records it.
#[derive(Debug, Default)]
pub(crate) struct RecordedJob<'a> {
    pub(crate) line: u64,
    pub(crate) name: &'a str,
    pub(crate) pods: u64,
    /// CPU request of a pod.
    pub(crate) cpu_milli: u64,
    /// Memory request of a pod.
    pub(crate) memory_mib: u64,
    /// GPU request of a pod.
    pub(crate) gpu_milli: u64,
    pub(crate) model: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) user: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) arrives_secs: f64,
    pub(crate) end: JobEnd,
}

/// Names of a trace, and what Kubernetes accepts in their place.
#[derive(Debug, Default)]
pub(crate) struct NameMap {
    by_name: HashMap<SmolStr, SmolStr>,
    used: HashSet<SmolStr>,
}

impl<'o> Recorder<'o> {
    pub(crate) fn new(options: &'o ReadOptions) -> Self {
        Self {
            options,
            jobs: Vec::new(),
            counts: BTreeMap::new(),
            invalid: 0,
            first_invalid: None,
            base: TimeBase::Start,
            job_names: HashSet::new(),
            queue_names: NameMap::default(),
        }
    }

    /// Counts something that the reader skipped or rounded.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Sets what times count from.
    pub(crate) fn set_base(&mut self, base: TimeBase) {
        self.base = base;
    }

    /// Takes a job whose names are valid already.
    pub(crate) fn take(&mut self, job: Result<TraceJob, TraceError>) -> Result<(), TraceError> {
        match job {
            Ok(mut job) => {
                match self.options.queue_by {
                    QueueBy::Queue => {}
                    QueueBy::User => job.queue = self.queue_names.valid(&job.user),
                    QueueBy::Kind => job.queue = self.queue_names.valid(&job.kind),
                    QueueBy::None => job.queue = SmolStr::default(),
                }
                self.jobs.push(job);
                Ok(())
            }
            Err(error) => self.skip(error),
        }
    }

    /// Takes a job of a public trace.
    pub(crate) fn record(&mut self, job: &RecordedJob<'_>) -> Result<(), TraceError> {
        let gpus = job.gpu_milli.div_ceil(1000);
        let model = valid_model(job.model);
        let read = TraceJob {
            line: job.line,
            name: self.unique_job_name(job.name),
            pods: job.pods.max(1),
            cpu_milli: job.cpu_milli,
            memory_mib: job.memory_mib,
            gpus,
            gpu_milli: job.gpu_milli,
            gpu_memory_mib: 0,
            models: if model.is_empty() || gpus == 0 { Vec::new() } else { vec![model] },
            queue: self.queue_names.valid(job.queue),
            user: job.user.into(),
            kind: job.kind.into(),
            priority_class: SmolStr::default(),
            arrives_secs: job.arrives_secs,
            end: job.end,
        };
        self.take(Ok(read))
    }

    /// Skips an invalid row if the user wants that.
    pub(crate) fn skip(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.options.skip_invalid {
            return Err(error);
        }
        self.invalid += 1;
        self.first_invalid.get_or_insert(error);
        Ok(())
    }

    /// Reads all rows of a source.
    pub(crate) fn rows(
        &mut self,
        mut source: CsvSource,
        parse: impl Fn(&mut Self, CsvRow<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        loop {
            let done = match source.next_row() {
                Ok(Some(row)) => parse(self, row),
                Ok(None) => return Ok(()),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                self.skip(error)?;
            }
        }
    }

    fn unique_job_name(&mut self, name: &str) -> SmolStr {
        let base = valid_name(name, 200);
        let mut unique = base.clone();
        let mut number = 2_u64;
        while !self.job_names.insert(unique.clone()) {
            unique = smol_str::format_smolstr!("{base}-{number}");
            number += 1;
        }
        unique
    }

    /// The jobs, what was skipped or rounded, and what times count from.
    pub(crate) fn finish(self) -> (Vec<TraceJob>, Vec<String>, TimeBase) {
        let mut notes: Vec<String> = self
            .counts
            .iter()
            .map(|(what, count)| format!("{} {what}", jobs_text(*count)))
            .collect();
        if let Some(first) = &self.first_invalid {
            notes.push(format!("invalid rows skipped: {}; the first one: {first}", self.invalid));
        }
        (self.jobs, notes, self.base)
    }
}

impl NameMap {
    /// The valid name in place of `name`; another name has another one.
    pub(crate) fn valid(&mut self, name: &str) -> SmolStr {
        if name.is_empty() {
            return SmolStr::default();
        }
        if let Some(valid) = self.by_name.get(name) {
            return valid.clone();
        }
        let base = valid_name(name, 55);
        let mut valid = base.clone();
        let mut number = 2_u64;
        while !self.used.insert(valid.clone()) {
            valid = smol_str::format_smolstr!("{base}-{number}");
            number += 1;
        }
        self.by_name.insert(name.into(), valid.clone());
        valid
    }
}

/// A name that Kubernetes accepts: lower-case letters, digits and hyphens.
pub(crate) fn valid_name(name: &str, max_length: usize) -> SmolStr {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let valid: String = name.chars().map(fits).take(max_length).collect();
    let valid = valid.trim_matches('-');
    if valid.is_empty() { SmolStr::new_static("unnamed") } else { valid.into() }
}

/// A GPU model that is a valid label value: other characters become hyphens.
pub(crate) fn valid_model(model: &str) -> SmolStr {
    if limits::is_valid_model(model) {
        return model.into();
    }
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let valid: String = model.chars().map(fits).take(63).collect();
    valid.trim_matches(|c: char| !c.is_ascii_alphanumeric()).into()
}

/// Turns times since 1970 into times since the first arrival, which is returned.
pub(crate) fn rebase(jobs: &mut [TraceJob]) -> Option<Timestamp> {
    let first = jobs.iter().map(|job| job.arrives_secs).min_by(f64::total_cmp)?.floor();
    for job in jobs.iter_mut() {
        job.arrives_secs -= first;
    }
    Timestamp::from_second(i64::try_from(to_count(first)).ok()?).ok()
}
