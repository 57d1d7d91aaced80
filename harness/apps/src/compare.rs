//! Compares two policies, schedulers or fleets on one trace: each side simulates the same varied
//! weeks, and only differences beyond chance are marked.
//!
//! A comparison is a set of simulations, one for each seed and side. They run in parallel, or as
//! shards on several machines; merged shards give the report of the unsharded run, byte for byte.

mod comparison;
mod figure;
mod html;
mod promises;
mod results;
mod run;
mod statistics;
mod table;
mod variant;
mod vary;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_conformance::report::{Colors, Shard};
use schedlab_conformance::text::{parse_duration, read_text_file};

use schedlab_traces::TraceFormat;

use crate::experiment::ProcessArgs;
use crate::simulate::{self, Profile};
use promises::Promise;
use table::{RowChoice, TableContext};

pub use promises::{PromiseError, Verdict};
pub use results::{
    MergeError, NamedResults, Results, ResultsHeader, Side, Unit, UnitResult, merge_results,
};
pub use run::{ComparePlan, CompareProgress, Completion, plan};
pub use vary::Variation;

/// Arguments of `schedlab compare`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Nodes: `kubectl get nodes` in YAML or JSON, a case file, a fleet file, CSV with the columns
    /// of openb, or JSON lines.
    #[arg(long, value_name = "FILE", required_unless_present = "merge", help_heading = "Trace")]
    pub fleet: Option<PathBuf>,
    /// Jobs, as for `schedlab simulate --pods`.
    #[arg(long, value_name = "FILE", required_unless_present = "merge", help_heading = "Trace")]
    pub trace: Option<PathBuf>,
    /// Format of the jobs: json-lines, columns, openb, acme, philly, helios or pai [default: what
    /// the first line tells].
    #[arg(long, value_name = "FORMAT", help_heading = "Trace")]
    pub format: Option<TraceFormat>,
    /// Queues of both sides [default: those of a case file, else one queue without limits].
    #[arg(long, value_name = "FILE", help_heading = "Trace")]
    pub queues: Option<PathBuf>,
    /// Side A: `kai`, `kube`, a file of queues, of the scheduler's configuration or of a fleet, or
    /// `process:COMMAND` for another scheduler, in scaled real time; several separated by commas
    /// [default: fleet and queues as given, profile kai].
    #[arg(long, value_name = "CHANGE", help_heading = "Sides")]
    pub a: Option<String>,
    /// Side B, which promises are about.
    #[arg(long, value_name = "CHANGE", required_unless_present = "merge", help_heading = "Sides")]
    pub b: Option<String>,
    /// How schedulers of `process:` are simulated.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Number of seeds: simulated weeks for each side.
    #[arg(long, value_name = "N", default_value = "10", help_heading = "Seeds")]
    pub seeds: NonZeroUsize,
    /// The first seed.
    #[arg(long, value_name = "SEED", default_value_t = 1, help_heading = "Seeds")]
    pub seed: u64,
    /// What a seed changes: `jobs` (each arrival gets the size and run time of a job of its queue),
    /// `days` (days of the trace are drawn with replacement) or `arrivals` (they move by up to half
    /// an hour).
    #[arg(long, value_name = "WHAT", default_value = "jobs", help_heading = "Seeds")]
    pub vary: Variation,
    /// Give B other seeds than A. A side compared with itself then shows what chance marks.
    #[arg(long, help_heading = "Seeds")]
    pub unpaired: bool,
    /// Chance that no figure is marked without a cause, in percent.
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 99.0,
        value_parser = parse_confidence,
        help_heading = "Judging"
    )]
    pub confidence: f64,
    /// File of promises that B has to keep: a YAML list such as `- team-07 wait-p90 < 1h`.
    #[arg(long, value_name = "FILE", help_heading = "Judging")]
    pub promise: Option<PathBuf>,
    /// End of figures over time, such as GPU hours and utilisation, from the first arrival on
    /// [default: the last arrival, if that is a day later or more, else the end of the last job].
    #[arg(long, value_name = "DURATION", value_parser = parse_until, help_heading = "Judging")]
    pub until: Option<Duration>,
    /// In a pod: how the report names a side, such as `b=planned.jsonl`.
    #[arg(long = "label", hide = true)]
    pub labels: Vec<String>,
    /// Number of simulations at the same time [default: the number of cores]. Each needs memory for
    /// its cluster.
    #[arg(short, long, value_name = "N", help_heading = "Execution")]
    pub jobs: Option<NonZeroUsize>,
    /// Run only the simulations of this shard, such as 3/8, and print their results as JSON.
    #[arg(long, value_name = "M/N", conflicts_with = "merge", help_heading = "Shards")]
    pub only: Option<Shard>,
    /// Merge the results of all shards and report them, instead of simulating.
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Shards")]
    pub merge: Vec<PathBuf>,
    /// Print the figures of all sizes and queues, not only those that differ beyond chance.
    #[arg(long, help_heading = "Output")]
    pub all: bool,
    /// Print JSON, with the figures of each simulation.
    #[arg(long, conflicts_with = "csv", help_heading = "Output")]
    pub json: bool,
    /// Print CSV, one line for each figure.
    #[arg(long, help_heading = "Output")]
    pub csv: bool,
    /// Also write a page with the figures and plots over time.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Interval of the figures over time.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "30m",
        value_parser = simulate::parse_interval,
        help_heading = "Output"
    )]
    pub series: Duration,
    /// Show the progress on standard error, also if that is no terminal: a line every ten seconds.
    #[arg(long, help_heading = "Output")]
    pub progress: bool,
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|percent| (50.0..100.0).contains(percent))
        .ok_or_else(|| "expected a percentage from 50 to below 100".to_owned())
}

fn parse_until(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).ok().filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "expected a duration above 0, such as 7d or 12h".to_owned())
}

/// A report of a comparison.
#[derive(Clone, Debug)]
pub struct CompareReport {
    /// The table, CSV or JSON.
    pub text: String,
    /// The page, if one was requested.
    pub html: Option<String>,
    /// What may surprise, one sentence each.
    pub warnings: Vec<String>,
    /// The promises, judged.
    pub verdicts: Vec<Verdict>,
}

/// The promises that the options name; read before anything is simulated.
#[derive(Clone, Debug, Default)]
pub struct Promises(Vec<Promise>);

impl Promises {
    /// Reads the file of `--promise`, if any.
    ///
    /// # Errors
    /// The file cannot be read, or an entry is no promise.
    pub fn read(args: &Args) -> Result<Self, PromiseError> {
        let promises = args.promise.as_deref().map(promises::read_promises).transpose()?;
        Ok(Self(promises.unwrap_or_default()))
    }
}

/// Compares both sides of the results.
///
/// # Errors
/// A promise names a queue or size that has no such figure.
pub fn report(
    results: &Results,
    args: &Args,
    promises: &Promises,
    colors: Colors,
) -> anyhow::Result<CompareReport> {
    let level = 1.0 - args.confidence / 100.0;
    // 1 - 0.99 is a little more or less than 0.01.
    let comparison = comparison::compare(results, level + 1e-9);
    let judged = promises.0.iter().map(|promise| promise.judge(&comparison.rows));
    let verdicts = judged.collect::<Result<Vec<_>, _>>()?;
    let context = TableContext {
        header: &results.header,
        confidence_percent: args.confidence,
        verdicts: &verdicts,
        rows: if args.all { RowChoice::All } else { RowChoice::Marked },
    };
    let text = match (args.json, args.csv) {
        (true, _) => table::to_json(&comparison, &context, results)?,
        (false, true) => table::to_csv(&comparison)?,
        (false, false) => table::to_text(&comparison, &context, colors),
    };
    let html = args.html.is_some().then(|| html::page(&comparison, &context, results));
    let mut warnings = results.header.notes.clone();
    if statistics::smallest_probability(comparison.pairs) > level + 1e-9 {
        let most = (1..64).find(|n| statistics::smallest_probability(*n) <= level + 1e-9);
        warnings.push(format!(
            "--seeds: got {}, which cannot show a difference beyond chance with {} % confidence, \
             expected at least {}",
            comparison.pairs,
            args.confidence,
            most.unwrap_or(64)
        ));
    }
    Ok(CompareReport { text, html, warnings, verdicts })
}

/// The number of seeds for which both sides were simulated.
pub fn complete_pairs(results: &Results) -> usize {
    comparison::pairs(results).len()
}

/// Reads and merges the files of `--merge`.
///
/// # Errors
/// A file cannot be read, is no result of a shard, or does not fit the others.
pub fn read_and_merge(args: &Args) -> anyhow::Result<Results> {
    let read = |path: &PathBuf| -> anyhow::Result<NamedResults> {
        let file = path.display().to_string();
        let text = read_text_file(path)
            .map_err(|error| anyhow::anyhow!(error.message_with_file(&file)))?;
        parse_results(&file, &text)
    };
    let shards = args.merge.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(merge_results(shards)?)
}

/// Parses the results that a shard printed.
///
/// # Errors
/// The text is no result of a shard.
pub fn parse_results(file: &str, text: &str) -> anyhow::Result<NamedResults> {
    let results = serde_json::from_str(text)
        .with_context(|| format!("{file}: expected the output of `schedlab compare --only M/N`"))?;
    Ok(NamedResults { file: file.to_owned(), results })
}

/// The results as a shard prints them.
///
/// # Errors
/// A figure is no number.
pub fn results_text(results: &Results) -> serde_json::Result<String> {
    serde_json::to_string(results).map(|text| text + "\n")
}

/// The profile of the scheduler without `--a` and `--b`.
const DEFAULT_PROFILE: Profile = Profile::Kai;

#[cfg(test)]
mod tests;
