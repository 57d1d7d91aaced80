//! Replays a workload trace through the emulator and the scheduler in virtual time, and reports
//! utilisation, waiting times, fragmentation and evictions as a table or JSON.
//!
//! GPU fractions are KAI's; profile `kube` allocates whole GPUs instead. Evicted jobs start over.
//! Nothing runs while nothing changes, so the cost depends on the number of events, not on the
//! simulated time.

mod page;
mod report;

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_scheduler::{Config, ConfigSource, ConfigSourceError, Flavor};

use schedlab_conformance::text::{counted_noun, parse_duration};
use schedlab_traces::{TraceFormat, TraceNode};

use crate::experiment::{
    Experiment, Measurement, Monitor, ProcessArgs, ProcessScheduler, SimulatedScheduler,
    count_rounded_shares, run_experiment,
};
use crate::inputs::{self, InputFiles, LoadedTrace, Trace, transform};

pub use report::{GroupReport, Report};
pub use schedlab_traces::TraceError;

/// Interval of the figures over time in the page.
const PAGE_INTERVAL: Duration = Duration::from_mins(30);

/// Arguments of `schedlab simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("series_output").multiple(true))]
pub struct Args {
    /// Nodes: CSV with the columns of openb, JSON lines, a fleet file, or a captured cluster (a case
    /// file, or output of kubectl in YAML), whose queues are used unless `--queues` is given.
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub nodes: PathBuf,
    /// Jobs: JSON lines, CSV, or a public trace (openb, Acme, Philly, Helios, PAI); the first line
    /// tells the format.
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub pods: PathBuf,
    /// Format of the jobs: json-lines, columns, openb, acme, philly, helios or pai [default: what
    /// the first line tells].
    #[arg(long, value_name = "FORMAT", help_heading = "Trace")]
    pub format: Option<TraceFormat>,
    /// Queues: CSV or JSON lines; pods without a queue are assigned to the leaf queues in turn.
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub queues: Option<PathBuf>,
    /// Make arrivals N times as dense.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1.0,
        value_parser = parse_positive,
        help_heading = "Transformations"
    )]
    pub compress: f64,
    /// Keep this fraction of the nodes of each kind (0.1: a tenth).
    #[arg(
        long,
        value_name = "F",
        default_value_t = 1.0,
        value_parser = parse_fraction,
        help_heading = "Transformations"
    )]
    pub scale_fleet: f64,
    /// Packing experiment: draw pods until their GPUs are this percentage of the fleet's; they
    /// never end.
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = parse_percentage,
        conflicts_with = "compress",
        help_heading = "Transformations"
    )]
    pub inflate: Option<u64>,
    /// Seed of drawn pods and generated names.
    #[arg(long, default_value_t = 0, help_heading = "Transformations")]
    pub seed: u64,
    /// Profile of the scheduler: `kai` or `kube`.
    #[arg(long, default_value = "kai", help_heading = "Scheduler")]
    pub profile: Profile,
    /// Configuration file of the scheduler, as for `schedlab-scheduler run --config`.
    #[arg(long, value_name = "FILE", help_heading = "Scheduler")]
    pub config: Option<PathBuf>,
    /// Another scheduler: `process:COMMAND` with the placeholders {kubeconfig}, {scheduler-name} and
    /// {dir}, such as `process:kube-scheduler`. It runs in real time, faster than the trace by
    /// --speed [default: ours, in virtual time].
    #[arg(
        long,
        value_name = "process:COMMAND",
        conflicts_with_all = ["profile", "config", "inflate"],
        help_heading = "Scheduler"
    )]
    pub scheduler: Option<SchedulerSource>,
    /// How that scheduler is simulated.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output", group = "series_output")]
    pub json: bool,
    /// Also write a page with the table and plots over time: utilisation, use and waiting GPUs by
    /// queue, fragmentation.
    #[arg(long, value_name = "FILE", help_heading = "Output", group = "series_output")]
    pub html: Option<PathBuf>,
    /// Add figures over time to the JSON, as means over intervals of this length: use by queue,
    /// pending work, fragmentation. It is also the interval of the page [there 30m].
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = parse_interval,
        requires = "series_output",
        help_heading = "Output"
    )]
    pub series: Option<Duration>,
    /// Show the progress on standard error, also if that is no terminal: a line every ten seconds.
    #[arg(long, help_heading = "Output")]
    pub progress: bool,
}

/// The profile of the simulated scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Queues, gangs, fair share and reclaim, as in KAI.
    Kai,
    /// As the default kube-scheduler.
    Kube,
}

impl Profile {
    /// The configuration of the profile.
    pub(crate) fn config(self) -> Config {
        match self {
            Self::Kai => Config::kai(),
            Self::Kube => Config::kube(),
        }
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "kai" => Ok(Self::Kai),
            "kube" => Ok(Self::Kube),
            other => Err(format!("got profile {other:?}, expected kai or kube")),
        }
    }
}

fn parse_positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn parse_fraction(text: &str) -> Result<f64, String> {
    parse_positive(text)
        .ok()
        .filter(|part| *part <= 1.0)
        .ok_or_else(|| "expected a number above 0 and up to 1".to_owned())
}

/// Parses the interval of a series.
///
/// # Errors
/// The text is no duration, or shorter than a minute.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).ok();
    interval
        .filter(|interval| *interval >= Duration::from_mins(1))
        .ok_or_else(|| "expected a duration of at least a minute, such as 30m".to_owned())
}

fn parse_percentage(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=10_000).contains(percent))
        .ok_or_else(|| "expected a percentage from 1% to 10000%".to_owned())
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// Notes on how the trace was interpreted where that may surprise.
    pub warnings: Vec<String>,
    /// The report on the replayed trace.
    pub report: Report,
    /// The page, if one was requested.
    pub html: Option<String>,
}

/// Loads the trace, transforms it and replays it. `monitor` shows the progress and can stop it.
///
/// # Errors
/// [`TraceError`] for an invalid file. Any other error is a request that the cluster rejected,
/// which is a bug.
pub fn simulate(args: &Args, monitor: &Monitor) -> anyhow::Result<Simulation> {
    let files = InputFiles {
        nodes: args.nodes.clone(),
        jobs: args.pods.clone(),
        format: args.format,
        queues: args.queues.clone(),
    };
    let LoadedTrace { mut trace, notes: mut warnings } = inputs::load(&files)?;
    let scheduler = simulated_scheduler(args)?;
    transform_trace(args, &mut trace)?;
    inputs::assign_queues(&mut trace);
    let flavor = scheduler.flavor();
    if flavor == Flavor::Kube {
        warnings.extend(split_gangs(&mut trace));
    }
    trace.jobs.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
    let rounded = count_rounded_shares(&trace, flavor);
    if rounded > 0 {
        warnings.push(format!(
            "kube-scheduler does not support the GPU fractions of {} of {}: they get whole GPUs",
            rounded,
            counted_noun(trace.jobs.len(), "job")
        ));
    }
    let real_time = scheduler.real_time();
    warnings.extend(real_time.iter().map(|real_time| real_time.warning.clone()));
    let measurement = Measurement {
        series_every: args.series.or(args.html.as_ref().map(|_| PAGE_INTERVAL)),
        resolution_secs: real_time.as_ref().map(|real_time| real_time.resolution_secs),
        monitor: monitor.clone(),
        ..Measurement::default()
    };
    let outcome = run_experiment(&Experiment { trace: &trace, scheduler }, &measurement)?;
    let mut report = Report::new(outcome, rounded, real_time);
    let html = args.html.as_ref().map(|_| page::page(&report));
    if args.series.is_none() {
        report.series = None;
    }
    Ok(Simulation { warnings, report, html })
}

/// The scheduler that the options name.
fn simulated_scheduler(args: &Args) -> anyhow::Result<SimulatedScheduler> {
    match &args.scheduler {
        None | Some(SchedulerSource::Ours) if args.process.target.is_none() => {
            Ok(SimulatedScheduler::Ours(Box::new(scheduler_config(args)?)))
        }
        source => {
            let source = source.as_ref().unwrap_or(&SchedulerSource::Ours);
            let scheduler = ProcessScheduler::load(source, &args.process)
                .map_err(|error| SchedulerRefused(format!("--scheduler: {error:#}")))?;
            Ok(SimulatedScheduler::Process { scheduler: Box::new(scheduler), seed: args.seed })
        }
    }
}

/// A scheduler that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchedulerRefused(String);

/// The nodes of a fleet: a fleet file, nodes of kubectl, a case file, openb's CSV or JSON lines.
///
/// # Errors
/// The file cannot be read, or a node is invalid.
pub fn read_fleet(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    Ok(inputs::read_fleet(path)?.nodes)
}

/// Splits gangs, which profile `kube` does not support; the warning says how many.
pub(crate) fn split_gangs(trace: &mut Trace) -> Option<String> {
    let (gangs, jobs) = (transform::split_gangs(trace), trace.jobs.len());
    (gangs > 0).then(|| {
        format!(
            "kube-scheduler does not support the {} of the trace: each pod becomes a job of its \
             own, {} in total",
            counted_noun(gangs, "gang"),
            counted_noun(jobs, "job")
        )
    })
}

/// Applies the transformations that the command line requests. Fails if nothing is left to replay.
fn transform_trace(args: &Args, trace: &mut Trace) -> anyhow::Result<()> {
    let nodes = trace.nodes.len();
    transform::scale_fleet(trace, args.scale_fleet);
    if trace.nodes.is_empty() {
        anyhow::bail!(
            "--scale-fleet: got {}, which leaves none of {}, expected a larger fraction",
            args.scale_fleet,
            counted_noun(nodes, "node")
        );
    }
    let is_bare = trace.gpus() == 0;
    match args.inflate {
        Some(_) if is_bare => {
            anyhow::bail!(
                "--inflate: got no GPU on {} of {}, expected a fleet with GPUs",
                counted_noun(trace.nodes.len(), "remaining node"),
                args.nodes.display()
            );
        }
        Some(_) if trace.jobs.iter().all(|job| job.gpus == 0) => {
            anyhow::bail!(
                "--inflate: got no pod that requests a GPU in {}, expected at least one",
                args.pods.display()
            );
        }
        Some(percent) => transform::draw_pods_to_fill(trace, percent, args.seed),
        None => transform::compress_arrivals(trace, args.compress),
    }
    if inputs::has_valid_arrivals(trace) {
        return Ok(());
    }
    anyhow::bail!(
        "--compress: got {:?}, which moves arrivals beyond a hundred years, expected a larger \
         factor",
        args.compress
    )
}

fn scheduler_config(args: &Args) -> Result<Config, ConfigSourceError> {
    let mut config = args.profile.config();
    ConfigSource::read(args.config.as_deref())?.apply(&mut config, |_| {})?;
    Ok(Config { seed: args.seed, ..config })
}
