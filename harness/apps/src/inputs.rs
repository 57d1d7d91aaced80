//! What an experiment is made of: the nodes of a fleet, queues and the jobs of a trace, read from
//! files, checked against each other, and transformed.

mod case_fleet;
mod trace;
pub(crate) mod transform;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use schedlab_api::object_names;
use schedlab_conformance::text::did_you_mean_suffix;
use schedlab_traces::{JobTrace, ReadOptions, TraceFormat, limits::SECS_RANGE};

pub(crate) use trace::{JobEnd, Trace, TraceError, TraceJob, TraceNode, TraceQueue};

/// The files of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct InputFiles {
    /// Nodes.
    pub(crate) nodes: PathBuf,
    /// Jobs.
    pub(crate) jobs: PathBuf,
    /// Format of the jobs; `None`: what their first line tells.
    pub(crate) format: Option<TraceFormat>,
    /// Queues; `None`: those of a captured cluster, else one queue without limits.
    pub(crate) queues: Option<PathBuf>,
}

impl InputFiles {
    fn queue_file(&self) -> &Path {
        self.queues.as_deref().unwrap_or(&self.nodes)
    }
}

/// Whether arrivals are within a hundred years.
pub(crate) fn has_valid_arrivals(trace: &Trace) -> bool {
    trace.jobs.iter().all(|job| SECS_RANGE.contains_fraction(job.arrives_secs))
}

/// Reads the files and checks them.
///
/// # Errors
/// A file is invalid, or contradicts another one.
pub(crate) fn load(files: &InputFiles) -> Result<LoadedTrace, TraceError> {
    let fleet = read_fleet(&files.nodes)?;
    let queues = match &files.queues {
        Some(path) => read_queues(path)?,
        None if fleet.queues.is_empty() => default_queues(),
        None => fleet.queues,
    };
    let jobs = read_jobs(files)?;
    let notes = notes_on_jobs(&jobs, &fleet.nodes);
    let trace = Trace { nodes: fleet.nodes, queues, jobs: jobs.jobs };
    check(files, &trace)?;
    Ok(LoadedTrace { trace, notes })
}

/// A trace, with notes of its reader.
#[derive(Clone, Debug)]
pub(crate) struct LoadedTrace {
    /// The trace.
    pub(crate) trace: Trace,
    /// What may surprise, one sentence each.
    pub(crate) notes: Vec<String>,
}

/// What the reader of a trace skipped or rounded, and the models that no node has.
pub(crate) fn notes_on_jobs(jobs: &JobTrace, nodes: &[TraceNode]) -> Vec<String> {
    let models: Vec<&str> = nodes.iter().map(|node| node.model.as_str()).collect();
    let unknown = schedlab_traces::unknown_models_note(&jobs.unknown_models(&models));
    jobs.notes.iter().cloned().chain(unknown).collect()
}

/// Nodes of a fleet, with queues if the file has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FleetFile {
    /// The nodes.
    pub(crate) nodes: Vec<TraceNode>,
    /// The queues; those of a captured cluster.
    pub(crate) queues: Vec<TraceQueue>,
}

/// Reads a fleet: a fleet file of schedlab, nodes of kubectl, a case file, CSV or JSON lines.
///
/// # Errors
/// The file is none of these.
pub(crate) fn read_fleet(path: &Path) -> Result<FleetFile, TraceError> {
    if is_csv(path) {
        return Ok(FleetFile { nodes: schedlab_traces::read_csv_nodes(path)?, queues: Vec::new() });
    }
    if case_fleet::is_pools(path) {
        return Ok(FleetFile { nodes: case_fleet::read_pools(path)?, queues: Vec::new() });
    }
    if case_fleet::is_case(path) {
        let case = case_fleet::read(path)?;
        let queues = case_fleet::queues(&case);
        return Ok(FleetFile { nodes: case_fleet::nodes(&case), queues });
    }
    Ok(FleetFile { nodes: schedlab_traces::read_json_nodes(path)?, queues: Vec::new() })
}

/// Reads queues: CSV, JSON lines, or objects of kubectl.
///
/// # Errors
/// The file is none of these.
pub(crate) fn read_queues(path: &Path) -> Result<Vec<TraceQueue>, TraceError> {
    if is_csv(path) {
        return schedlab_traces::read_csv_queues(path);
    }
    if case_fleet::is_case(path) {
        return Ok(case_fleet::queues(&case_fleet::read(path)?));
    }
    schedlab_traces::read_json_queues(path)
}

/// Reads the jobs of a trace.
///
/// # Errors
/// The file has no known format.
pub(crate) fn read_jobs(files: &InputFiles) -> Result<JobTrace, TraceError> {
    let options = ReadOptions { format: files.format, ..ReadOptions::default() };
    schedlab_traces::read_jobs(&files.jobs, &options)
}

fn is_csv(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "csv")
}

/// Checks nodes, queues and jobs against each other.
///
/// # Errors
/// What contradicts what.
pub(crate) fn check(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
    check_names(files, trace)?;
    check_member_names(files, trace)?;
    check_queues(files, trace)?;
    check_priority_classes(files, trace)?;
    check_not_empty(files, trace)
}

/// The default queues: one queue without limits below one department.
pub(crate) fn default_queues() -> Vec<TraceQueue> {
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

fn check_not_empty(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
    if trace.nodes.is_empty() {
        return Err(trace_error(&files.nodes, 0, "", "no node".to_owned(), "at least one"));
    }
    if trace.jobs.is_empty() {
        return Err(trace_error(&files.jobs, 0, "", "no pod".to_owned(), "at least one pod"));
    }
    Ok(())
}

fn check_names(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
    let nodes: Vec<(&str, u64)> =
        trace.nodes.iter().map(|node| (node.name.as_str(), node.line)).collect();
    let jobs = trace.jobs.iter().map(|job| (job.name.as_str(), job.line)).collect();
    let queues = trace.queues.iter().map(|queue| (queue.name.as_str(), queue.line)).collect();
    for (file, names) in
        [(files.nodes.as_path(), nodes), (&files.jobs, jobs), (files.queue_file(), queues)]
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
fn check_member_names(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
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
            return Err(trace_error(&files.jobs, pod.line, "name", found, "unique names"));
        }
    }
    Ok(())
}

/// Checks that there is a queue, that parents exist without a cycle, and that jobs name leaf
/// queues.
fn check_queues(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
    let file = files.queue_file();
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
                let near = did_you_mean_suffix(above, by_name.keys().copied());
                return Err(error(above.to_owned(), &format!("the name of another queue{near}")));
            };
            if steps > trace.queues.len() {
                let found = format!("a cycle above {}", queue.name);
                return Err(error(found, "a tree"));
            }
            above = &next.parent;
        }
    }
    let leaves = leaf_queue_names(&trace.queues);
    let names_no_leaf =
        |job: &&TraceJob| !job.queue.is_empty() && !leaves.iter().any(|leaf| *leaf == job.queue);
    match trace.jobs.iter().find(names_no_leaf) {
        Some(job) => {
            let near = did_you_mean_suffix(&job.queue, leaves.iter().map(String::as_str));
            let has_own = files.queues.is_some() || trace.queues != default_queues();
            let hint = if has_own { "" } else { "; --queues reads the queues of the jobs" };
            let allowed = format!("a leaf queue: {}{near}{hint}", leaves.join(", "));
            Err(trace_error(&files.jobs, job.line, "queue", job.queue.to_string(), &allowed))
        }
        None => Ok(()),
    }
}

/// Checks that jobs name existing priority classes.
fn check_priority_classes(files: &InputFiles, trace: &Trace) -> Result<(), TraceError> {
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
            let names = known.iter().map(String::as_str);
            let near = did_you_mean_suffix(&job.priority_class, names);
            let allowed = format!("{}{near}", known.join(", "));
            Err(trace_error(&files.jobs, job.line, "priority_class", found, &allowed))
        }
        None => Ok(()),
    }
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

/// The names of the queues that are no parents.
pub(crate) fn leaf_queue_names(queues: &[TraceQueue]) -> Vec<String> {
    let parent = |name: &str| queues.iter().any(|queue| queue.parent == name);
    let leaves = queues.iter().filter(|queue| !parent(&queue.name));
    leaves.map(|queue| queue.name.clone()).collect()
}

/// Assigns jobs without a queue to the leaf queues in turn.
pub(crate) fn assign_queues(trace: &mut Trace) {
    let leaves = leaf_queue_names(&trace.queues);
    let without_queue = trace.jobs.iter_mut().filter(|job| job.queue.is_empty());
    for (job, leaf) in without_queue.zip(leaves.iter().cycle()) {
        job.queue = leaf.into();
    }
}

/// Converts a count to a float.
#[expect(clippy::cast_precision_loss, reason = "counts of GPUs and pods are far below 2^52")]
pub(crate) fn to_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}
