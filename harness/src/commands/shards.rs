//! Shards of a run: times that balance them, the record of each run, and `schedlab merge`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::run::FinishedRun;
use super::{CommandOutput, UsageError, reproduce, run, run_files};
use crate::cli::{Merge, Run};
use crate::exit::ExitStatus;
use schedlab_conformance::conform;
use schedlab_conformance::features::{FeatureSuite, display_path};
use schedlab_conformance::report::{
    self, CaseTimes, FailureLength, PrettyPrinter, Report, Reporter, RunIdentity, RunRecord,
    RunResults,
};
use schedlab_conformance::runner::RunSettings;
use schedlab_conformance::suite_files::SuiteFiles;
use schedlab_conformance::text::read_text_file;
use schedlab_view::report::EncodedTimelines;

/// The file with the times of a run, in its folder.
const TIMES: &str = "times.json";

/// The file with the record of a run, in its folder.
const RECORD: &str = "run.json";

/// Loads the times that `--timings` names, if any: those of a run, or a file.
pub(super) fn load_times(
    timings: Option<&str>,
    results: &Path,
) -> Result<Option<CaseTimes>, UsageError> {
    let Some(timings) = timings else { return Ok(None) };
    let file = if Path::new(timings).is_file() {
        PathBuf::from(timings)
    } else {
        run_folder(timings, results, TIMES)?.join(TIMES)
    };
    let shown = file.display().to_string();
    let text = read_text_file(&file)
        .map_err(|error| UsageError(format!("--timings {}", error.message_with_file(&shown))))?;
    let times = CaseTimes::parse(&text)
        .map_err(|error| UsageError(format!("--timings {shown}: {error}")))?;
    Ok(Some(times))
}

/// The folder of a run, given as that folder, its name in the results folder, or a results folder
/// with a latest run. The run must have written `file`.
fn run_folder(run: &str, results: &Path, file: &str) -> Result<PathBuf, UsageError> {
    let named = [PathBuf::from(run), results.join(run)];
    let latest = named.clone().map(|folder| folder.join("latest"));
    let found = named.into_iter().chain(latest).find(|folder| folder.join(file).is_file());
    found.ok_or_else(|| {
        UsageError(format!(
            "got run `{run}`, expected a folder that `schedlab run` wrote, its name in {}, or a \
             results folder: none of them has {file}",
            results.display()
        ))
    })
}

/// The record of a run that has just begun.
pub(super) fn run_record(
    settings: &RunSettings,
    args: &Run,
    suite: &FeatureSuite,
    began: Timestamp,
) -> RunRecord {
    let environment = &args.environment;
    let identity = RunIdentity {
        schedlab: env!("CARGO_PKG_VERSION").to_owned(),
        suite_digest: suite_digest(suite),
        seed: settings.seed,
        cluster: environment.cluster.option_value().to_owned(),
        kubernetes: settings.feature_gates.version().to_string(),
        feature_gates: environment.feature_gates.clone(),
        scheduler: reproduce::scheduler_option(&environment.scheduler),
        target: settings.target.name.clone(),
    };
    RunRecord::new(identity, began)
}

/// A file of a suite: where it is, and its path below the folder of the suite.
pub(super) struct SuiteFile {
    /// Where the file is.
    pub(super) files: SuiteFiles,
    /// Its path.
    pub(super) path: PathBuf,
    /// Its path below the folder with `features/`, `fixtures/` and `snapshots/`.
    pub(super) inner: String,
}

/// The loaded features, and the fixtures and snapshots beside them, sorted by path. Pending
/// snapshots are no part of a suite.
pub(super) fn suite_files(suite: &FeatureSuite) -> Vec<SuiteFile> {
    let mut files = BTreeMap::new();
    let mut bases = BTreeMap::new();
    for case in &suite.cases {
        let base = case.base_folder();
        files.insert(PathBuf::from(&case.location.file), (case.files, base.clone()));
        bases.insert(base, case.files);
    }
    for (base, place) in bases {
        for folder in ["fixtures", "snapshots"] {
            let found = place.files_below(&base.join(folder));
            files.extend(found.into_iter().map(|path| (path, (place, base.clone()))));
        }
    }
    let of_suite = files.into_iter().filter(|(path, _)| !is_left_out(path));
    of_suite
        .map(|(path, (files, base))| {
            let inner = display_path(path.strip_prefix(&base).unwrap_or(&path));
            SuiteFile { files, path, inner }
        })
        .collect()
}

/// Whether a file is not part of the suite: it is hidden, or a pending snapshot.
fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.ends_with(".snap.new")
}

fn suite_digest(suite: &FeatureSuite) -> String {
    let files = suite_files(suite).into_iter().filter_map(|file| {
        let text = file.files.read_text(&file.path).ok()?;
        Some((file.inner, text))
    });
    let texts: Vec<(String, String)> = files.collect();
    conform::suite_digest(texts.iter().map(|(path, text)| (path.as_str(), text.as_bytes())))
}

/// Runs `schedlab merge`: merges the results of shards, writes them as those of a run, and reports
/// them.
pub(super) fn run_merge_command(args: &Merge) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let reporters = run::effective_reporters(&args.reporter)?;
    if let Some(message) = report::first_unwritable_path(&args.results, &reporters) {
        return Err(UsageError(message).into());
    }
    let read = |run: &String| -> anyhow::Result<RunResults> {
        let folder = run_folder(run, &args.results, RECORD)?;
        Ok(report::read_run_files(&folder).map_err(UsageError)?)
    };
    let runs = args.runs.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let length = if args.verbose { FailureLength::Full } else { FailureLength::Short };
    let mut timelines = EncodedTimelines::new();
    for run in &args.runs {
        timelines.extend(run_files::read_timelines(&run_folder(run, &args.results, RECORD)?)?);
    }
    let places = ReportPlaces { reporters: &reporters, results: &args.results, length, timelines };
    merge_and_report(runs, &places, &mut output)
}

/// Where and how merged results are reported.
pub(super) struct ReportPlaces<'a> {
    /// The reports to write.
    pub(super) reporters: &'a [Reporter],
    /// The results folder.
    pub(super) results: &'a Path,
    /// How much of a failure message is printed.
    pub(super) length: FailureLength,
    /// The timelines that the shards recorded.
    pub(super) timelines: EncodedTimelines,
}

/// Merges the results of shards, prints them and writes them as those of a run.
pub(super) fn merge_and_report(
    runs: Vec<RunResults>,
    places: &ReportPlaces<'_>,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let balance = report::balance_text(&runs);
    let merged =
        report::merge_shards(runs).map_err(|error| UsageError(format!("cannot merge: {error}")))?;
    let RunResults { record, report, .. } = merged;
    print_report(&report, places, output);
    if let Some(balance) = balance {
        output.print_progress(&balance);
    }
    run::note_passed_quarantine(&report, output);
    let run = FinishedRun { report: &report, record: &record, timelines: &places.timelines };
    run::write_reports(places.reporters, places.results, &run, output)?;
    Ok(ExitStatus::from_exit_code(record.exit_code).unwrap_or(ExitStatus::Failed))
}

fn print_report(report: &Report, places: &ReportPlaces<'_>, output: &mut CommandOutput) {
    if places.reporters.contains(&Reporter::Pretty) {
        if !output.quiet {
            let mut printer = PrettyPrinter::new(output.colors).with_failure_length(places.length);
            let cases: String = report.cases.iter().map(|case| printer.case_text(case)).collect();
            output.print_result(&cases);
        }
        output.print_result(&report::summary_text(report, None));
    }
    for problem in &report.problems {
        output.print_note(&problem.to_string());
    }
}
