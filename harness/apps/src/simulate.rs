//! Replays a workload trace through the emulator and the scheduler in virtual time, and reports
//! utilisation, waiting times, fragmentation and evictions as a table or JSON.
//!
//! GPU fractions are KAI's; profile `kube` allocates whole GPUs instead. Evicted jobs start over.
//! Nothing runs while nothing changes, so the cost depends on the number of events, not on the
//! simulated time.

mod case_fleet;
mod driver;
mod metrics;
mod objects;
mod report;
mod submission;
mod trace;
mod transform;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    str::FromStr,
};

use schedlab_api::object_names;
use schedlab_scheduler::{Config, ConfigSource, ConfigSourceError};

use schedlab_conformance::text::counted_noun;
use schedlab_traces::{ReadOptions, TraceFormat, limits::SECS_RANGE, read_jobs};

pub use report::{NeverStartedReason, Report, WaitingTimes};
pub use schedlab_traces::TraceError;
pub use submission::submitted_objects;
pub(crate) use trace::{Trace, TraceJob, TraceNode, TraceQueue};

/// Arguments of `schedlab simulate`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Nodes: CSV with the columns of openb, JSON lines, or a captured cluster (a case file, or
    /// output of kubectl in YAML), whose queues are used unless `--queues` is given.
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
    /// Print JSON instead of a table.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// The profile of the simulated scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Queues, gangs, fair share and reclaim, as in KAI.
    Kai,
    /// As the default kube-scheduler.
    Kube,
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
}

/// Loads the trace, transforms it and replays it.
///
/// # Errors
/// [`TraceError`] for an invalid file. Any other error is a request that the cluster rejected,
/// which is a bug.
pub fn simulate(args: &Args) -> anyhow::Result<Simulation> {
    let LoadedTrace { mut trace, notes: mut warnings } = load_trace(args)?;
    let config = scheduler_config(args)?;
    transform_trace(args, &mut trace)?;
    assign_queues(&mut trace);
    if args.profile == Profile::Kube {
        let (gangs, jobs) = (transform::split_gangs(&mut trace), trace.jobs.len());
        if gangs > 0 {
            warnings.push(format!(
                "kube-scheduler does not support the {} of the trace: each pod becomes a \
                 job of its own, {} in total",
                counted_noun(gangs, "gang"),
                counted_noun(jobs, "job")
            ));
        }
    }
    trace.jobs.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
    let result = driver::run_trace(&trace, config)?;
    let report = report::build_report(&trace, &result);
    if report.shares_rounded_up > 0 {
        warnings.push(format!(
            "kube-scheduler does not support the GPU fractions of {} of {}: they get whole GPUs",
            report.shares_rounded_up,
            counted_noun(report.jobs, "job")
        ));
    }
    Ok(Simulation { warnings, report })
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
    if trace.jobs.iter().all(|job| SECS_RANGE.contains_fraction(job.arrives_secs)) {
        return Ok(());
    }
    anyhow::bail!(
        "--compress: got {:?}, which moves arrivals beyond a hundred years, expected a larger \
         factor",
        args.compress
    )
}

fn scheduler_config(args: &Args) -> Result<Config, ConfigSourceError> {
    let mut config = match args.profile {
        Profile::Kai => Config::kai(),
        Profile::Kube => Config::kube(),
    };
    ConfigSource::read(args.config.as_deref())?.apply(&mut config, |_| {})?;
    Ok(Config { seed: args.seed, ..config })
}

/// A trace, with notes of its reader.
struct LoadedTrace {
    trace: Trace,
    notes: Vec<String>,
}

fn load_trace(args: &Args) -> Result<LoadedTrace, TraceError> {
    let case =
        case_fleet::is_case(&args.nodes).then(|| case_fleet::read(&args.nodes)).transpose()?;
    let nodes = match &case {
        Some(case) => case_fleet::nodes(case),
        None => read_fleet(&args.nodes)?,
    };
    let options = ReadOptions { format: args.format, ..ReadOptions::default() };
    let jobs = read_jobs(&args.pods, &options)?;
    let queues = match &args.queues {
        Some(path) if case_fleet::is_case(path) => case_fleet::queues(&case_fleet::read(path)?),
        Some(path) if is_csv(path) => schedlab_traces::read_csv_queues(path)?,
        Some(path) => schedlab_traces::read_json_queues(path)?,
        None => {
            let captured = case.as_ref().map(case_fleet::queues).unwrap_or_default();
            if captured.is_empty() { default_queues() } else { captured }
        }
    };
    let models: Vec<&str> = nodes.iter().map(|node| node.model.as_str()).collect();
    let mut notes = jobs.notes.clone();
    notes.extend(schedlab_traces::unknown_models_note(&jobs.unknown_models(&models)));
    let trace = Trace { nodes, queues, jobs: jobs.jobs };
    check_names(args, &trace)?;
    check_member_names(args, &trace)?;
    check_queues(args, &trace)?;
    check_priority_classes(args, &trace)?;
    check_not_empty(args, &trace)?;
    Ok(LoadedTrace { trace, notes })
}

/// The nodes of a fleet: openb's CSV, JSON lines, or a captured cluster.
///
/// # Errors
/// The file cannot be read, or a node is invalid.
pub fn read_fleet(path: &Path) -> Result<Vec<TraceNode>, TraceError> {
    if case_fleet::is_case(path) {
        return Ok(case_fleet::nodes(&case_fleet::read(path)?));
    }
    if is_csv(path) {
        schedlab_traces::read_csv_nodes(path)
    } else {
        schedlab_traces::read_json_nodes(path)
    }
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "csv")
}

/// The default queues: one queue without limits below one department.
fn default_queues() -> Vec<TraceQueue> {
    let all = |name: &str, parent: &str| TraceQueue {
        line: 0,
        name: name.to_owned(),
        parent: parent.to_owned(),
        quota: -1.0,
        weight: 1.0,
        limit: -1.0,
        priority: 100,
    };
    vec![all("trace", ""), all(object_names::DEFAULT_QUEUE, "trace")]
}

fn check_not_empty(args: &Args, trace: &Trace) -> Result<(), TraceError> {
    if trace.nodes.is_empty() {
        return Err(trace_error(&args.nodes, 0, "", "no node".to_owned(), "at least one"));
    }
    if trace.jobs.is_empty() {
        return Err(trace_error(&args.pods, 0, "", "no pod".to_owned(), "at least one pod"));
    }
    Ok(())
}

fn check_names(args: &Args, trace: &Trace) -> Result<(), TraceError> {
    let nodes: Vec<(&str, u64)> =
        trace.nodes.iter().map(|node| (node.name.as_str(), node.line)).collect();
    let jobs = trace.jobs.iter().map(|job| (job.name.as_str(), job.line)).collect();
    let queues = trace.queues.iter().map(|queue| (queue.name.as_str(), queue.line)).collect();
    for (file, names) in
        [(args.nodes.as_path(), nodes), (&args.pods, jobs), (queue_file(args), queues)]
    {
        let mut seen = BTreeSet::new();
        if let Some((twice, line)) = names.into_iter().find(|(name, _)| !seen.insert(*name)) {
            return Err(trace_error(
                file,
                line,
                "name",
                format!("the duplicate {twice}"),
                "unique names",
            ));
        }
    }
    Ok(())
}

/// Rejects a trace in which a pod has the name of a gang's member.
fn check_member_names(args: &Args, trace: &Trace) -> Result<(), TraceError> {
    let gangs = trace.jobs.iter().filter(|job| job.pods > 1);
    let gangs: BTreeMap<&str, &TraceJob> = gangs.map(|gang| (gang.name.as_str(), gang)).collect();
    let gang_of = |name: &str| {
        let (gang, number) = name.rsplit_once('-')?;
        let gang = gangs.get(gang)?;
        let at: u64 = number.parse().ok().filter(|at: &u64| at.to_string() == number)?;
        (at < gang.pods).then_some(gang)
    };
    for pod in trace.jobs.iter().filter(|job| job.pods == 1) {
        if let Some(gang) = gang_of(&pod.name) {
            let (name, gang, line) = (&pod.name, &gang.name, gang.line);
            let found = format!("{name}, a pod of {gang} in line {line}");
            return Err(trace_error(&args.pods, pod.line, "name", found, "unique names"));
        }
    }
    Ok(())
}

/// Checks that there is a queue, that parents exist without a cycle, and that jobs name leaf
/// queues.
fn check_queues(args: &Args, trace: &Trace) -> Result<(), TraceError> {
    let file = queue_file(args);
    if trace.queues.is_empty() {
        return Err(trace_error(file, 0, "", "no queue".to_owned(), "at least one"));
    }
    let by_name: BTreeMap<&str, &TraceQueue> =
        trace.queues.iter().map(|queue| (queue.name.as_str(), queue)).collect();
    for queue in &trace.queues {
        let (mut above, mut steps) = (queue.parent.as_str(), 0);
        while !above.is_empty() {
            steps += 1;
            let error = |found: String, allowed: &str| {
                trace_error(file, queue.line, "parent", found, allowed)
            };
            let Some(next) = by_name.get(above) else {
                return Err(error(above.to_owned(), "the name of another queue"));
            };
            if steps > trace.queues.len() {
                let found = format!("a cycle above {}", queue.name);
                return Err(error(found, "a tree"));
            }
            above = &next.parent;
        }
    }
    let leaves = leaf_queue_names(trace);
    let names_no_leaf =
        |job: &&TraceJob| !job.queue.is_empty() && !leaves.iter().any(|leaf| *leaf == job.queue);
    match trace.jobs.iter().find(names_no_leaf) {
        Some(job) => {
            let allowed = format!("a leaf queue: {}", leaves.join(", "));
            Err(trace_error(&args.pods, job.line, "queue", job.queue.to_string(), &allowed))
        }
        None => Ok(()),
    }
}

/// Checks that jobs name existing priority classes.
fn check_priority_classes(args: &Args, trace: &Trace) -> Result<(), TraceError> {
    let known: Vec<String> = schedlab_api::crds::priority_classes()
        .iter()
        .filter_map(|class| class["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let has_unknown_class = |job: &&TraceJob| {
        !job.priority_class.is_empty() && !known.iter().any(|class| *class == job.priority_class)
    };
    match trace.jobs.iter().find(has_unknown_class) {
        Some(job) => {
            let found = format!("{:?}", job.priority_class);
            let allowed = known.join(", ");
            Err(trace_error(&args.pods, job.line, "priority_class", found, &allowed))
        }
        None => Ok(()),
    }
}

fn queue_file(args: &Args) -> &Path {
    args.queues.as_deref().unwrap_or(&args.nodes)
}

fn trace_error(file: &Path, line: u64, column: &str, found: String, allowed: &str) -> TraceError {
    TraceError {
        file: file.display().to_string(),
        line,
        column: column.to_owned(),
        found,
        allowed: allowed.to_owned(),
    }
}

fn leaf_queue_names(trace: &Trace) -> Vec<String> {
    let parent = |name: &str| trace.queues.iter().any(|queue| queue.parent == name);
    let leaves = trace.queues.iter().filter(|queue| !parent(&queue.name));
    leaves.map(|queue| queue.name.clone()).collect()
}

/// Assigns jobs without a queue to the leaf queues in turn.
fn assign_queues(trace: &mut Trace) {
    let leaves = leaf_queue_names(trace);
    let without_queue = trace.jobs.iter_mut().filter(|job| job.queue.is_empty());
    for (job, leaf) in without_queue.zip(leaves.iter().cycle()) {
        job.queue = leaf.as_str().into();
    }
}
