//! An experiment: a fleet, queues, jobs and a scheduler in, figures out.
//!
//! The jobs run on an emulated cluster in virtual time. Evicted jobs start over. Equal input gives
//! equal figures, so experiments can run in parallel, on several machines, and again.

mod driver;
mod figures;
mod findings;
mod metrics;
mod monitor;
mod objects;
mod series;
mod series_means;
mod submission;

use std::time::Duration;

use schedlab_scheduler::{Config, Flavor};

use crate::inputs::{Trace, to_f64};

pub use figures::{Figures, GroupFigures, NeverStartedReason, WaitFigures, size_order};
pub use findings::{Finding, duration_text, findings};
pub use monitor::{Monitor, Progress};
pub use series::{QueueSeries, Series, SeriesPoint};
pub(crate) use series_means::{QueueAmount, SeriesMeans};
pub use submission::submitted_objects;

/// What an experiment simulates.
#[derive(Debug)]
pub(crate) struct Experiment<'a> {
    /// Nodes, queues, and jobs in the order of their arrival. Every job has a queue.
    pub(crate) trace: &'a Trace,
    /// The scheduler.
    pub(crate) config: Config,
}

/// How an experiment is measured.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Interval of the series; `None`: no series.
    pub series_every: Option<Duration>,
    /// Figures over time end this many seconds after the first arrival; `None`: with the last job.
    pub window_secs: Option<f64>,
    /// Whether the audit checks every write.
    pub audit: AuditMode,
    /// Where progress is reported, and a stop is requested.
    pub monitor: Monitor,
}

/// Whether the audit checks the writes of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditMode {
    /// Every write is checked.
    #[default]
    On,
    /// No write is checked, which is faster.
    Off,
}

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// Audit rules that the scheduler broke, one message each.
    pub breaches: Vec<String>,
    /// Whether a stop was requested before the last job ended.
    pub is_partial: bool,
}

/// Runs an experiment.
///
/// # Errors
/// A request that the cluster rejected, which is a bug.
pub(crate) fn run_experiment(
    experiment: Experiment<'_>,
    measurement: &Measurement,
) -> anyhow::Result<Outcome> {
    let Experiment { trace, config } = experiment;
    driver::run_trace(trace, config, measurement)
}

/// The number of jobs whose GPU fractions this scheduler rounds up to whole GPUs.
pub(crate) fn count_rounded_shares(trace: &Trace, flavor: Flavor) -> usize {
    match flavor {
        Flavor::Kai => 0,
        Flavor::Kube => trace.jobs.iter().filter(|job| job.gpu_share_milli().is_some()).count(),
    }
}
