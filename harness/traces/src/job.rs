//! Jobs of a trace.

use jiff::Timestamp;
use smol_str::SmolStr;

use crate::{format::TraceFormat, numbers::jobs_text};

/// The jobs of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTrace {
    /// The format of the file.
    pub format: TraceFormat,
    /// The time at which arrivals are 0; `None` if the trace has no dates.
    pub start: Option<Timestamp>,
    /// The jobs, in the order of the file.
    pub jobs: Vec<TraceJob>,
    /// What the reader skipped or rounded, one sentence each.
    pub notes: Vec<String>,
}

/// A job: one pod, or a gang of identical pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceJob {
    /// Line of the job in its file.
    pub line: u64,
    /// Name of the job.
    pub name: SmolStr,
    /// Number of pods, at least one. They run together or not at all.
    pub pods: u64,
    /// CPU request of each pod, in millicores.
    pub cpu_milli: u64,
    /// Memory request of each pod, in MiB.
    pub memory_mib: u64,
    /// GPU devices of each pod; a fraction counts as one.
    pub gpus: u64,
    /// GPU request of each pod, in thousandths.
    pub gpu_milli: u64,
    /// Memory request on each GPU, in MiB; 0 if the job requests GPUs or fractions of them.
    pub gpu_memory_mib: u64,
    /// Acceptable GPU models; empty: any.
    pub models: Vec<SmolStr>,
    /// Queue of the job. If empty, the job is assigned to one of the leaf queues in turn.
    pub queue: SmolStr,
    /// User of the job; may be empty.
    pub user: SmolStr,
    /// Kind of the work, such as `training`; may be empty.
    pub kind: SmolStr,
    /// Priority class of the job; empty means `train`.
    pub priority_class: SmolStr,
    /// Arrival of the job, in seconds from the start of the trace.
    pub arrives_secs: f64,
    /// How the job ends.
    pub end: JobEnd,
}

/// How a job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum JobEnd {
    /// The job ends this many seconds after it started.
    RunsSecs(f64),
    /// The job's owner removes it this many seconds after its arrival, started or not.
    LeavesAfterSecs(f64),
    /// The job never ends.
    #[default]
    Never,
}

impl TraceJob {
    /// GPU request of all pods of the job, in thousandths.
    pub fn total_gpu_milli(&self) -> u64 {
        self.gpu_milli.saturating_mul(self.pods)
    }

    /// The requested thousandths of each GPU, if the job requests fractions of GPUs.
    pub fn gpu_share_milli(&self) -> Option<u64> {
        let each = (self.gpus > 0).then(|| self.gpu_milli.div_ceil(self.gpus))?;
        (each < 1000).then_some(each)
    }

    /// How long the job runs, in seconds, if the trace knows.
    pub fn run_secs(&self) -> Option<f64> {
        match self.end {
            JobEnd::RunsSecs(secs) => Some(secs),
            JobEnd::LeavesAfterSecs(_) | JobEnd::Never => None,
        }
    }
}

impl JobTrace {
    /// Sorts the jobs by arrival; jobs of one arrival keep their order.
    pub fn sort_by_arrival(&mut self) {
        self.jobs.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
    }

    /// The GPU models of jobs that accept no model of `known`, with the number of these jobs, the
    /// most frequent one first.
    pub fn unknown_models(&self, known: &[&str]) -> Vec<UnknownModel> {
        let mut counts = std::collections::BTreeMap::<&SmolStr, usize>::new();
        let has_none = |job: &&TraceJob| {
            job.gpus > 0 && !job.models.iter().any(|model| known.contains(&model.as_str()))
        };
        for model in self.jobs.iter().filter(has_none).flat_map(|job| &job.models) {
            *counts.entry(model).or_default() += 1;
        }
        let named = |(model, jobs): (&SmolStr, usize)| UnknownModel { model: model.clone(), jobs };
        let mut unknown: Vec<UnknownModel> = counts.into_iter().map(named).collect();
        unknown.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.model.cmp(&b.model)));
        unknown
    }
}

/// A GPU model that jobs request and no node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownModel {
    /// The model.
    pub model: SmolStr,
    /// Number of jobs that request it.
    pub jobs: usize,
}

/// A note about models that no node has; none if every model is known.
pub fn unknown_models_note(unknown: &[UnknownModel]) -> Option<String> {
    const NAMED: usize = 5;
    let jobs: usize = unknown.iter().map(|model| model.jobs).sum();
    let named = unknown.iter().take(NAMED);
    let mut names: Vec<String> = named
        .map(|UnknownModel { model, jobs }| format!("{model} ({})", jobs_text(*jobs)))
        .collect();
    if unknown.len() > NAMED {
        names.push(format!("{} more", unknown.len() - NAMED));
    }
    (jobs > 0).then(|| format!("no node has these GPU models: {}", names.join(", ")))
}
