//! Runs the simulations of a comparison in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_conformance::conform::suite_digest;
use schedlab_conformance::report::Shard;
use schedlab_scheduler::Flavor;
use schedlab_traces::SizeClass;

use super::figure::FLEET;
use super::promises::check_promises;
use super::results::{Results, ResultsHeader, Side, Unit, UnitResult};
use super::variant::{self, Variant};
use super::vary::{self, Variation};
use super::{Args, DEFAULT_PROFILE};
use crate::experiment::{
    AuditMode, Experiment, Measurement, Monitor, Outcome, ProcessScheduler, count_rounded_shares,
    run_experiment,
};
use crate::inputs::{self, InputFiles, Trace, TraceJob};
use crate::simulate;

/// A comparison that was read and checked.
#[derive(Clone, Debug)]
pub struct ComparePlan {
    header: ResultsHeader,
    /// Whether the figures of sizes are of the same jobs on both sides.
    has_sizes: bool,
    a: Variant,
    b: Variant,
    jobs: Vec<TraceJob>,
    parallel: usize,
    series_every: Duration,
}

/// The progress of a comparison. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct CompareProgress(Arc<ProgressState>);

#[derive(Debug, Default)]
struct ProgressState {
    all: AtomicUsize,
    done: AtomicUsize,
    running: Mutex<BTreeMap<Unit, Monitor>>,
    /// Set when the comparison is to end early.
    monitor: Monitor,
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All simulations ran.
    Complete,
    /// A stop was requested before.
    Stopped,
}

/// The trace of a comparison ends figures over time only if it is this long, in seconds.
const WINDOW_SECS_MIN: f64 = 86_400.0;

/// The note on sides of which only one has gangs.
pub(super) const SIZES_LEFT_OUT: &str = "a gang on one side is many jobs on the other: figures of sizes are \
     left out; waits, evictions and jobs that never started count pods there";

/// Reads and checks the inputs of a comparison.
///
/// # Errors
/// A file is invalid, or an option contradicts it.
pub fn plan(args: &Args) -> anyhow::Result<ComparePlan> {
    let files = InputFiles {
        nodes: args.fleet.clone().unwrap_or_default(),
        jobs: args.trace.clone().unwrap_or_default(),
        format: args.format,
        queues: args.queues.clone(),
    };
    let read = inputs::read_jobs(&files)?;
    let given = Variant::unchanged(files, DEFAULT_PROFILE)?;
    let side = |option: &str, text: Option<&String>| match text {
        Some(text) => given.changed(option, text, &args.process),
        None => Ok(given.clone()),
    };
    let mut a = side("--a", args.a.as_ref())?;
    let mut b = side("--b", args.b.as_ref())?;
    for variant in [&mut a, &mut b] {
        if variant.queues.is_empty() {
            variant.queues = inputs::default_queues();
        }
        variant::check(variant, &read.jobs)?;
        variant.scheduler(args.seed)?;
    }
    if args.vary == Variation::Days && vary::days(&read.jobs) < 2 {
        anyhow::bail!(
            "--vary: got days for a trace of one day, expected a longer trace, or --vary jobs"
        );
    }
    let has_gangs = read.jobs.iter().any(|job| job.pods > 1);
    let has_sizes = !has_gangs || (a.flavor() == Flavor::Kube) == (b.flavor() == Flavor::Kube);
    if let Some(promises) = &args.promise {
        let mut names = names_of_figures(&read.jobs, [&a, &b]);
        names.retain(|name| has_sizes || SizeClass::named(name).is_none());
        check_promises(promises, &names)?;
    }
    let last = vary::last_arrival(&read.jobs);
    let window_secs = match args.until {
        Some(until) => Some(until.as_secs_f64()),
        None => (last >= WINDOW_SECS_MIN).then_some(last),
    };
    let mut notes = inputs::notes_on_jobs(&read, &a.nodes);
    let jobs = read.jobs;
    notes.extend(notes_on(&a, Side::A, &jobs));
    notes.extend(notes_on(&b, Side::B, &jobs));
    notes.extend((!has_sizes).then(|| SIZES_LEFT_OUT.to_owned()));
    let header = ResultsHeader {
        schedlab: env!("CARGO_PKG_VERSION").to_owned(),
        inputs_digest: digest(args)?,
        a: label(args, "a=", &a),
        b: label(args, "b=", &b),
        first_seed: args.seed,
        seeds: args.seeds.get(),
        is_paired: !args.unpaired,
        vary: args.vary,
        window_secs,
        series_secs: args.series.as_secs_f64(),
        resolution_secs: sides_in_real_time(&a, &b).map(ProcessScheduler::resolution_secs).next(),
        notes,
    };
    // Simulations beside a program in real time would slow it down.
    let is_in_real_time = header.resolution_secs.is_some();
    let cores = || match thread::available_parallelism() {
        Ok(cores) if !is_in_real_time => cores.get(),
        Ok(_) | Err(_) => 1,
    };
    let parallel = args.jobs.map_or_else(cores, NonZeroUsize::get);
    Ok(ComparePlan { header, has_sizes, a, b, jobs, parallel, series_every: args.series })
}

/// What a comparison has figures of: the fleet, and the sizes and queues of the jobs.
fn names_of_figures(jobs: &[TraceJob], sides: [&Variant; 2]) -> Vec<String> {
    let sizes: BTreeSet<SizeClass> = jobs.iter().map(SizeClass::of).collect();
    let mut queues: BTreeSet<String> = jobs.iter().map(|job| job.queue.to_string()).collect();
    if queues.remove("") {
        queues.extend(sides.iter().flat_map(|side| inputs::leaf_queue_names(&side.queues)));
    }
    let sizes = sizes.into_iter().map(|size| size.name().to_owned());
    std::iter::once(FLEET.to_owned()).chain(sizes).chain(queues).collect()
}

/// How the report names a side.
fn label(args: &Args, side: &str, variant: &Variant) -> String {
    let named = args.labels.iter().find_map(|label| label.strip_prefix(side));
    named.unwrap_or(&variant.label).to_owned()
}

/// The digest of the content of all files that the options name.
fn digest(args: &Args) -> anyhow::Result<String> {
    let sides = [&args.a, &args.b].into_iter().flatten().flat_map(|side| side.split(','));
    let named = [&args.fleet, &args.trace, &args.queues].into_iter().flatten();
    let paths = named.map(PathBuf::as_path).chain(sides.map(Path::new));
    // The name is the place on the command line: pods have the files under other names.
    let files = paths.filter(|path| path.is_file()).enumerate().map(|(at, path)| {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        Ok((at.to_string(), bytes))
    });
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(suite_digest(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))))
}

/// The schedulers that are programs of their own.
fn sides_in_real_time<'a>(
    a: &'a Variant,
    b: &'a Variant,
) -> impl Iterator<Item = &'a ProcessScheduler> {
    [a, b].into_iter().filter_map(|variant| variant.process.as_deref())
}

/// What may surprise in a side, one sentence each.
fn notes_on(variant: &Variant, side: Side, jobs: &[TraceJob]) -> Vec<String> {
    let process = variant.process.as_deref();
    let mut notes: Vec<String> =
        process.map(|scheduler| scheduler.real_time().warning).into_iter().collect();
    if variant.flavor() == Flavor::Kube {
        let mut trace = Trace { jobs: jobs.to_vec(), ..Trace::default() };
        notes.extend(simulate::split_gangs(&mut trace));
        let rounded = count_rounded_shares(&trace, Flavor::Kube);
        notes.extend(rounded_shares_note(rounded));
    }
    notes.into_iter().map(|note| format!("{}: {note}", side.name())).collect()
}

fn rounded_shares_note(jobs: usize) -> Option<String> {
    (jobs > 0).then(|| format!("{jobs} jobs with GPU fractions get whole GPUs"))
}

impl ComparePlan {
    /// Whether a side is a program that runs on this machine in real time.
    pub fn is_in_real_time(&self) -> bool {
        self.header.resolution_secs.is_some()
    }

    /// What all shards of the comparison have in common.
    pub fn header(&self) -> &ResultsHeader {
        &self.header
    }

    /// Runs the simulations of a shard, or all, until a stop is requested. Results of simulations
    /// that a stop ended are left out.
    ///
    /// # Errors
    /// A request that a cluster rejected, which is a bug.
    pub fn run(
        &self,
        shard: Option<Shard>,
        progress: &CompareProgress,
    ) -> anyhow::Result<(Results, Completion)> {
        let units = self.header.units(shard);
        progress.0.all.store(units.len(), Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let finished: Mutex<Vec<UnitResult>> = Mutex::default();
        let next_unit = || {
            let unit = units.get(next.fetch_add(1, Ordering::Relaxed));
            unit.filter(|_| !progress.0.monitor.is_stopped())
        };
        let work = || -> anyhow::Result<()> {
            while let Some(unit) = next_unit() {
                let result = self.run_unit(*unit, progress)?;
                finished.lock().unwrap_or_else(PoisonError::into_inner).extend(result);
            }
            Ok(())
        };
        let workers = self.parallel.min(units.len());
        let ended: anyhow::Result<()> = thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            let ends = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
            });
            ends.collect()
        });
        ended?;
        let mut units_done = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
        units_done.sort_by_key(|result| result.unit);
        let is_complete = units_done.len() == units.len();
        let completion = if is_complete { Completion::Complete } else { Completion::Stopped };
        let results = Results { header: self.header.clone(), units: units_done };
        // Shards are read back from JSON: an unsharded run has to give the same numbers.
        let results = serde_json::from_str(&serde_json::to_string(&results)?)?;
        Ok((results, completion))
    }

    fn run_unit(
        &self,
        unit: Unit,
        progress: &CompareProgress,
    ) -> anyhow::Result<Option<UnitResult>> {
        let seed = self.header.seed(unit);
        let variant = match unit.side {
            Side::A => &self.a,
            Side::B => &self.b,
        };
        let mut trace = Trace {
            nodes: variant.nodes.clone(),
            queues: variant.queues.clone(),
            jobs: vary::varied_jobs(&self.jobs, self.header.vary, seed),
        };
        inputs::assign_queues(&mut trace);
        if variant.flavor() == Flavor::Kube {
            simulate::split_gangs(&mut trace);
        }
        let scheduler = variant.scheduler(seed)?;
        let measurement = Measurement {
            series_every: Some(self.series_every),
            window_secs: self.header.window_secs,
            resolution_secs: self.header.resolution_secs,
            audit: AuditMode::Off,
            monitor: progress.begin(unit),
        };
        let outcome = run_experiment(&Experiment { trace: &trace, scheduler }, &measurement);
        progress.end(unit);
        let Outcome { mut figures, is_partial, .. } =
            outcome.with_context(|| format!("seed {seed} of {}", unit.side.name()))?;
        if !self.has_sizes {
            figures.by_size.clear();
        }
        Ok((!is_partial).then_some(UnitResult { unit, seed, figures }))
    }
}

impl CompareProgress {
    /// Requests that all simulations end now.
    pub fn stop(&self) {
        self.0.monitor.stop();
        for monitor in self.lock_running().values() {
            monitor.stop();
        }
    }

    /// The number of simulations.
    pub fn all(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }

    /// The number of simulations that have ended.
    pub fn done(&self) -> usize {
        self.0.done.load(Ordering::Relaxed)
    }

    /// The part of all work that is done, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        let running: f64 =
            self.lock_running().values().map(|monitor| monitor.progress().fraction()).sum();
        (inputs::to_f64(self.done()) + running) / inputs::to_f64(self.all().max(1))
    }

    /// What the running simulations do, one text each, such as `A seed 3: day 2.4`.
    pub fn activities(&self, header: &ResultsHeader) -> Vec<String> {
        let running = self.lock_running();
        let text = |unit: &Unit, monitor: &Monitor| {
            let days = monitor.progress().virtual_secs / 86_400.0;
            format!("{} seed {}: day {days:.1}", unit.side.name(), header.seed(*unit))
        };
        running.iter().map(|(unit, monitor)| text(unit, monitor)).collect()
    }

    fn begin(&self, unit: Unit) -> Monitor {
        let monitor = Monitor::default();
        self.lock_running().insert(unit, monitor.clone());
        // A stop between the check of the worker and this line.
        if self.0.monitor.is_stopped() {
            monitor.stop();
        }
        monitor
    }

    fn end(&self, unit: Unit) {
        self.lock_running().remove(&unit);
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, BTreeMap<Unit, Monitor>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
