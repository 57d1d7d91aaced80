//! A whole trace through the emulator and the scheduler in virtual time: what would this
//! scheduler have made of that work? Ends in a report as table and JSON.
//!
//! Shares of GPUs are KAI's, where its rules are played; kube-scheduler gives whole ones. Evicted
//! work starts over. Nothing ticks while nothing changes, so months of a quiet fleet cost what
//! happens in them.

mod bend;
mod bounds;
mod csv_files;
mod json_lines;
mod objects;
mod play;
mod report;
mod tally;
mod trace;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    str::FromStr,
};

use schedlab_scheduler::{Config, GivenError, GivenFile};

pub use report::{Reason, Report, Waiting};
pub use trace::{End, Fault, Trace, TraceJob, TraceNode, TraceQueue};

/// `simulate`'s arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Nodes: CSV with the columns of openb, or JSON lines
    #[arg(long, value_name = "FILE")]
    pub nodes: PathBuf,
    /// Work: CSV with the columns of openb, or JSON lines
    #[arg(long, value_name = "FILE")]
    pub pods: PathBuf,
    /// Queues: CSV or JSON lines; work that names none is dealt out among the leaves in turn
    #[arg(long, value_name = "FILE")]
    pub queues: Option<PathBuf>,
    /// Arrivals this many times as dense
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = positive)]
    pub compress: f64,
    /// This part of the nodes of each kind (0.1: a tenth)
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = fraction)]
    pub scale_fleet: f64,
    /// Packing: draw pods until their GPUs are so many percent of the fleet's; they stay
    /// (not with --compress)
    #[arg(long, value_name = "PERCENT", value_parser = percentage, conflicts_with = "compress")]
    pub inflate: Option<u64>,
    /// Chance in drawing and in names
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Whose rules: `kai` or `kube`
    #[arg(long, default_value = "kai")]
    pub profile: Profile,
    /// How that scheduler is set up: a file as `schedlab-scheduler run --config` reads it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// JSON instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Which scheduler is played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Queues, gangs, reclaim.
    Kai,
    /// As default kube-scheduler.
    Kube,
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "kai" => Ok(Self::Kai),
            "kube" => Ok(Self::Kube),
            other => Err(format!("no profile is called {other:?}: kai or kube")),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "a number above 0 is allowed".to_owned())
}

fn fraction(text: &str) -> Result<f64, String> {
    positive(text)
        .ok()
        .filter(|part| *part <= 1.0)
        .ok_or_else(|| "a number above 0 and up to 1 is allowed".to_owned())
}

fn percentage(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (1..=10_000).contains(percent))
        .ok_or_else(|| "a percentage from 1% to 10000% is allowed".to_owned())
}

/// Warnings and outcome of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    /// What the reader should know about how the trace was taken.
    pub warnings: Vec<String>,
    /// What came out.
    pub report: Report,
}

/// Reads the trace, bends it as asked, plays it.
///
/// # Errors
/// [`Fault`] for a file that cannot be read as what it should be; else the cluster refused
/// something, which is a bug.
pub fn simulate(args: &Args) -> anyhow::Result<Simulation> {
    let mut trace = load(args)?;
    let config = config(args)?;
    bend(args, &mut trace)?;
    deal_out(&mut trace);
    let mut warnings = Vec::new();
    if args.profile == Profile::Kube {
        let (gangs, jobs) = (bend::split_gangs(&mut trace), trace.jobs.len());
        if gangs > 0 {
            warnings.push(format!(
                "{gangs} jobs are gangs, of which kube-scheduler knows nothing: each of their pods \
                 is a job of its own, {jobs} jobs in all"
            ));
        }
    }
    trace.jobs.sort_by(|a, b| a.arrives_secs.total_cmp(&b.arrives_secs));
    let played = play::play(&trace, config)?;
    let report = report::report(&trace, &played);
    if report.shares_rounded_up > 0 {
        warnings.push(format!(
            "{} of {} jobs ask for shares of GPUs, of which kube-scheduler knows nothing: they get \
             whole ones",
            report.shares_rounded_up, report.jobs
        ));
    }
    Ok(Simulation { warnings, report })
}

/// Bends the trace as asked, as far as something is left to play.
fn bend(args: &Args, trace: &mut Trace) -> anyhow::Result<()> {
    let nodes = trace.nodes.len();
    bend::scale_fleet(trace, args.scale_fleet);
    if trace.nodes.is_empty() {
        anyhow::bail!(
            "--scale-fleet: found {}, which leaves none of {nodes} nodes, allowed is more",
            args.scale_fleet
        );
    }
    let is_bare = trace.gpus() == 0;
    match args.inflate {
        Some(_) if is_bare => {
            anyhow::bail!(
                "--inflate: found no GPU on the {} nodes of {} that are left, allowed is a fleet \
                 with some",
                trace.nodes.len(),
                args.nodes.display()
            );
        }
        Some(_) if trace.jobs.iter().all(|job| job.gpus == 0) => {
            anyhow::bail!(
                "--inflate: found no work that asks for a GPU in {}, allowed is work of which \
                 some does",
                args.pods.display()
            );
        }
        Some(percent) => bend::inflate(trace, percent, args.seed),
        None => bend::compress(trace, args.compress),
    }
    if trace.jobs.iter().all(|job| bounds::SECS.holds_part(job.arrives_secs)) {
        return Ok(());
    }
    anyhow::bail!(
        "--compress: found {:?}, with which work comes later than in a hundred years, allowed is \
         more",
        args.compress
    )
}

fn config(args: &Args) -> Result<Config, GivenError> {
    let mut config = match args.profile {
        Profile::Kai => Config::kai(),
        Profile::Kube => Config::kube(),
    };
    GivenFile::read(args.config.as_deref())?.apply(&mut config, |_| {})?;
    Ok(Config { seed: args.seed, ..config })
}

fn load(args: &Args) -> Result<Trace, Fault> {
    let json = |path: &PathBuf| path.extension().is_some_and(|end| end != "csv");
    let nodes = if json(&args.nodes) {
        json_lines::nodes(&args.nodes)?
    } else {
        csv_files::nodes(&args.nodes)?
    };
    let jobs =
        if json(&args.pods) { json_lines::jobs(&args.pods)? } else { csv_files::jobs(&args.pods)? };
    let queues = match &args.queues {
        Some(path) if json(path) => json_lines::queues(path)?,
        Some(path) => csv_files::queues(path)?,
        None => one_queue(),
    };
    let trace = Trace { nodes, queues, jobs };
    check_names(args, &trace)?;
    check_members(args, &trace)?;
    check_queues(args, &trace)?;
    check_classes(args, &trace)?;
    check_something(args, &trace)?;
    Ok(trace)
}

/// Without queues all work is in one that may use everything, in one department.
fn one_queue() -> Vec<TraceQueue> {
    let all = |name: &str, parent: &str| TraceQueue {
        line: 0,
        name: name.to_owned(),
        parent: parent.to_owned(),
        quota: -1.0,
        weight: 1.0,
        limit: -1.0,
        priority: 100,
    };
    vec![all("trace", ""), all("default-queue", "trace")]
}

fn check_something(args: &Args, trace: &Trace) -> Result<(), Fault> {
    if trace.nodes.is_empty() {
        return Err(fault((&args.nodes, 0, ""), "no node".to_owned(), "at least one"));
    }
    if trace.jobs.is_empty() {
        return Err(fault((&args.pods, 0, ""), "no work".to_owned(), "at least one pod"));
    }
    Ok(())
}

fn check_names(args: &Args, trace: &Trace) -> Result<(), Fault> {
    let nodes: Vec<(&str, u64)> =
        trace.nodes.iter().map(|node| (node.name.as_str(), node.line)).collect();
    let jobs = trace.jobs.iter().map(|job| (job.name.as_str(), job.line)).collect();
    let queues = trace.queues.iter().map(|queue| (queue.name.as_str(), queue.line)).collect();
    for (file, names) in
        [(args.nodes.as_path(), nodes), (&args.pods, jobs), (queue_file(args), queues)]
    {
        let mut seen = BTreeSet::new();
        if let Some((twice, line)) = names.into_iter().find(|(name, _)| !seen.insert(*name)) {
            return Err(fault((file, line, "name"), format!("{twice} again"), "each name once"));
        }
    }
    Ok(())
}

/// No pod has the name of a member of a gang.
fn check_members(args: &Args, trace: &Trace) -> Result<(), Fault> {
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
            return Err(fault((&args.pods, pod.line, "name"), found, "each name once"));
        }
    }
    Ok(())
}

/// There is one at least, parents exist and stand above, and work names leaves.
fn check_queues(args: &Args, trace: &Trace) -> Result<(), Fault> {
    let file = queue_file(args);
    if trace.queues.is_empty() {
        return Err(fault((file, 0, ""), "no queue".to_owned(), "at least one"));
    }
    let by_name: BTreeMap<&str, &TraceQueue> =
        trace.queues.iter().map(|queue| (queue.name.as_str(), queue)).collect();
    for queue in &trace.queues {
        let (mut above, mut steps) = (queue.parent.as_str(), 0);
        while !above.is_empty() {
            steps += 1;
            let here = (file, queue.line, "parent");
            let Some(next) = by_name.get(above) else {
                return Err(fault(here, above.to_owned(), "the name of another queue"));
            };
            if steps > trace.queues.len() {
                let found = format!("a circle above {}", queue.name);
                return Err(fault(here, found, "a tree"));
            }
            above = &next.parent;
        }
    }
    let leaves = leaves(trace);
    let astray = |job: &&TraceJob| !job.queue.is_empty() && !leaves.contains(&job.queue);
    match trace.jobs.iter().find(astray) {
        Some(job) => {
            let allowed = format!("a leaf queue: {}", leaves.join(", "));
            Err(fault((&args.pods, job.line, "queue"), job.queue.clone(), &allowed))
        }
        None => Ok(()),
    }
}

/// Work names priority classes that there are.
fn check_classes(args: &Args, trace: &Trace) -> Result<(), Fault> {
    let known: Vec<String> = schedlab_scheduler::crds::priority_classes()
        .iter()
        .filter_map(|class| class["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    let strange =
        |job: &&TraceJob| !job.priority_class.is_empty() && !known.contains(&job.priority_class);
    match trace.jobs.iter().find(strange) {
        Some(job) => {
            let here = (args.pods.as_path(), job.line, "priority_class");
            Err(fault(here, format!("{:?}", job.priority_class), &known.join(", ")))
        }
        None => Ok(()),
    }
}

fn queue_file(args: &Args) -> &Path {
    args.queues.as_deref().unwrap_or(Path::new(""))
}

fn fault((file, line, column): (&Path, u64, &str), found: String, allowed: &str) -> Fault {
    Fault {
        file: file.display().to_string(),
        line,
        column: column.to_owned(),
        found,
        allowed: allowed.to_owned(),
    }
}

fn leaves(trace: &Trace) -> Vec<String> {
    let parent = |name: &str| trace.queues.iter().any(|queue| queue.parent == name);
    let leaves = trace.queues.iter().filter(|queue| !parent(&queue.name));
    leaves.map(|queue| queue.name.clone()).collect()
}

/// Work that names no queue goes to the leaves in turn.
fn deal_out(trace: &mut Trace) {
    let leaves = leaves(trace);
    let homeless = trace.jobs.iter_mut().filter(|job| job.queue.is_empty());
    for (job, leaf) in homeless.zip(leaves.iter().cycle()) {
        job.queue.clone_from(leaf);
    }
}
