//! An experiment: a fleet, queues, jobs and a scheduler in, figures out.
//!
//! The jobs run on an emulated cluster in virtual time. Evicted jobs start over. Equal input gives
//! equal figures, so experiments can run in parallel, on several machines, and again. A scheduler
//! that is a program of its own cannot follow virtual time: its experiments run in scaled real time.

mod driver;
mod figures;
mod findings;
mod metrics;
mod monitor;
mod objects;
mod process;
mod series;
mod series_means;
mod submission;

use std::time::Duration;

use schedlab_scheduler::{Config, Flavor};

use crate::inputs::{Trace, to_f64};

pub use figures::{Figures, GroupFigures, NeverStartedReason, WaitFigures};
pub use findings::{Finding, duration_text, findings};
pub use monitor::{Monitor, Progress};
pub use objects::node_object;
pub(crate) use process::ProcessScheduler;
pub use process::{ProcessArgs, RealTime};
pub use series::{QueueSeries, Series, SeriesPoint};
pub(crate) use series_means::{QueueAmount, SeriesMeans};
pub use submission::submitted_objects;

/// What an experiment simulates.
#[derive(Debug)]
pub(crate) struct Experiment<'a> {
    /// Nodes, queues, and jobs in the order of their arrival. Every job has a queue.
    pub(crate) trace: &'a Trace,
    /// The scheduler.
    pub(crate) scheduler: SimulatedScheduler,
}

/// The scheduler of an experiment.
#[derive(Clone, Debug)]
pub(crate) enum SimulatedScheduler {
    /// Ours, in virtual time.
    Ours(Box<Config>),
    /// A program of its own, in scaled real time. The seed is that of generated names.
    Process {
        /// The program.
        scheduler: Box<ProcessScheduler>,
        /// Seed of generated names.
        seed: u64,
    },
}

impl SimulatedScheduler {
    /// The flavor whose objects describe jobs to the scheduler.
    pub(crate) fn flavor(&self) -> Flavor {
        match self {
            Self::Ours(config) => config.flavor,
            Self::Process { scheduler, .. } => scheduler.flavor(),
        }
    }

    /// What scaled real time makes of the figures; `None` in virtual time.
    pub(crate) fn real_time(&self) -> Option<RealTime> {
        match self {
            Self::Ours(_) => None,
            Self::Process { scheduler, .. } => Some(scheduler.real_time()),
        }
    }
}

/// How an experiment is measured.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Interval of the series; `None`: no series.
    pub series_every: Option<Duration>,
    /// Figures over time end this many seconds after the first arrival; `None`: with the last job.
    pub window_secs: Option<f64>,
    /// Waits are rounded to multiples of this many seconds; `None`: they are exact.
    pub resolution_secs: Option<f64>,
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
/// A request that the cluster rejected, which is a bug; or a scheduler that is a program of its own
/// did not start, or ended.
pub(crate) fn run_experiment(
    experiment: &Experiment<'_>,
    measurement: &Measurement,
) -> anyhow::Result<Outcome> {
    driver::run_experiment(experiment, measurement)
}

/// The number of jobs whose GPU fractions this scheduler rounds up to whole GPUs.
pub(crate) fn count_rounded_shares(trace: &Trace, flavor: Flavor) -> usize {
    match flavor {
        Flavor::Kai => 0,
        Flavor::Kube => trace.jobs.iter().filter(|job| job.gpu_share_milli().is_some()).count(),
    }
}
