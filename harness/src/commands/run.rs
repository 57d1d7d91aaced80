//! `schedlab run`: runs scenarios and reports the results.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;

use super::{
    CommandOutput, UsageError, check, environment, reproduce, run_files, shard_pods, shards, suite,
};
use crate::cli::{ClusterChoice, ExpectedVerdict, Run, RunPlace};
use crate::exit::ExitStatus;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_clusters::real_cluster::{
    DEFAULT_CLUSTER_IMAGE, KindOptions, KubeconfigAccess, RealCluster,
};
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::compare::{Baseline, EventOrder};
use schedlab_conformance::features::{
    self, Case, CaseQuery, FeaturePath, FeatureSuite, Quarantine, SelectedCases,
};
use schedlab_conformance::report::progress::BootProgress;
use schedlab_conformance::report::{
    self, CaseOutcome, CaseReport, Diagnostic, Diagnostics, FailureLength, PrettyPrinter, Report,
    Reporter, RunRecord,
};
use schedlab_conformance::runner::{self, CrashWrites, RunProgress, RunSettings};
use schedlab_conformance::snapshots::{self, Ci, SnapshotUpdate};
use schedlab_conformance::text::{counted_noun, read_text_file};
use schedlab_view::report::{EncodedTimelines, TimelineCollector, html_report};

/// Runs scenarios, compares snapshots and writes reports. An error before the first scenario is
/// also written to the reports.
pub fn run(args: &Run) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let args = &Run { reporter: effective_reporters(&args.reporter)?, ..args.clone() };
    if let Some(second) = &args.and {
        return super::run_both::run_both(args, second, &mut output);
    }
    let ended = run_selected(args, &mut output).map(|(exit, _)| exit);
    if let Err(error) = &ended {
        write_error(args, error, &mut output)?;
    }
    Ok(match (args.expect, ended?) {
        (ExpectedVerdict::Fail, ExitStatus::Failed) => ExitStatus::Passed,
        (ExpectedVerdict::Fail, ExitStatus::Passed) => {
            output.print_note("all scenarios passed, expected a failure (--expect fail)");
            ExitStatus::Failed
        }
        (ExpectedVerdict::Pass | ExpectedVerdict::Fail, exit) => exit,
    })
}

/// Runs the selected scenarios. Returns the report, unless the run was interrupted before the first
/// one, or runs in pods.
pub(super) fn run_selected(
    args: &Run,
    output: &mut CommandOutput,
) -> anyhow::Result<(ExitStatus, Option<Report>)> {
    let mut settings = run_settings(args, output.ci)?;
    let clock = Clock::real();
    let began = clock.now();
    let query = check::case_query(&args.selection, &args.results)?;
    let suite = check::load_suite(&query.paths)?;
    let SelectedCases { cases, plan } = selected_cases(&suite, &query)?;
    let mut record = shards::run_record(&settings, args, &suite, began);
    if args.shard_pods.on == RunPlace::Kubernetes {
        let exit = shard_pods::run_in_pods(args, &suite, &record, output)?;
        return Ok((exit, None));
    }
    (record.shard, record.scenarios) = (query.shard, plan);
    if let Some(shard) = query.shard.filter(|_| cases.is_empty()) {
        output.print_note(&format!("shard {shard} has no scenario"));
    }
    settings.quarantine = Arc::new(quarantine_reasons(args, &suite, &cases, output)?);
    suite::note_embedded_cases(&cases, "running", output);
    if args.execution.jobs.is_none() && would_compete_for_devices(&settings.target.source, &cases) {
        settings.jobs = NonZeroUsize::MIN;
    }
    if let Some(message) = report::first_unwritable_path(&args.results, &args.reporter) {
        return Err(UsageError(message).into());
    }
    environment::check_program(&args.environment, &settings.target)?;
    enable_gates_of_cases(args, &mut settings, &cases);
    let interrupted = Interrupt::listen()?;
    settings.interrupted = interrupted.clone();
    settings.real_cluster = match start_cluster(args, &settings, &interrupted, output) {
        Err(_) if interrupted.is_raised() => return Ok((ExitStatus::Interrupted, None)),
        booted => booted?,
    };
    note_cases_without_baseline(&settings, &cases, output);
    if let Some(failure) = trial_failure(&settings, output) {
        if let Some(real_cluster) = settings.real_cluster.take().and_then(Arc::into_inner) {
            real_cluster.close();
        }
        if interrupted.is_raised() {
            return Ok((ExitStatus::Interrupted, None));
        }
        anyhow::bail!(failure);
    }
    let collector = TimelineCollector::default();
    if args.reporter.iter().any(|reporter| matches!(reporter, Reporter::Html(_))) {
        settings.recorder = Some(collector.recorder());
    }
    let began_cases = clock.now();
    let reports = run_cases(&cases, args, &settings, output);
    let wall: Duration = clock.now().duration_since(began_cases).try_into().unwrap_or_default();
    record.wall_millis = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
    if let Some(real_cluster) = settings.real_cluster.take().and_then(Arc::into_inner) {
        let stamp = began.strftime("%Y%m%dT%H%M%SZ").to_string();
        close_cluster(real_cluster, &reports, &args.results.join("logs").join(stamp), output);
    }
    let mut diagnostics = snapshot_diagnostics(&suite, &query.paths, output.ci);
    diagnostics.extend(
        no_crash_diagnostic(settings.crashes, &reports)
            .map(|problem| (ExitStatus::Failed, problem)),
    );
    let report = Report {
        seed: settings.seed,
        cluster: environment::cluster_name(args.environment.cluster, &settings.target.source),
        cases: reports,
        problems: diagnostics.iter().map(|(_, problem)| problem.clone()).collect(),
    };
    let wall = clock.now().duration_since(began).try_into().unwrap_or_default();
    if args.reporter.contains(&Reporter::Pretty) {
        output.print_result(&report::summary_text(&report, Some(wall)));
    }
    for problem in &report.problems {
        output.print_note(&problem.to_string());
    }
    note_passed_quarantine(&report, output);
    let exit = exit_status(&report, &diagnostics, &interrupted);
    record.exit_code = exit.exit_code();
    let timelines = collector.timelines();
    let run = FinishedRun { report: &report, record: &record, timelines: &timelines };
    write_reports(&args.reporter, &args.results, &run, output)?;
    Ok((exit, Some(report)))
}

/// Says how many cases the baseline lacks.
fn note_cases_without_baseline(
    settings: &RunSettings,
    cases: &[&Case],
    output: &mut CommandOutput,
) {
    let Some(baseline) = &settings.baseline else { return };
    let new = cases.iter().filter(|case| !baseline.has_case(&case.id())).count();
    if new > 0 {
        let scenarios = counted_noun(new, "scenario");
        output.print_progress(&format!("{scenarios} not in the baseline: not compared"));
    }
}

/// The scenarios that a query selects.
fn selected_cases<'s>(
    suite: &'s FeatureSuite,
    query: &CaseQuery,
) -> anyhow::Result<SelectedCases<'s>> {
    let selected = features::select_cases(&suite.cases, query);
    if selected.is_empty() {
        return Err(check::nothing_selected(suite, query).into());
    }
    Ok(selected)
}

/// The reasons of the scenarios in quarantine, by case id. Entries that have expired are noted.
fn quarantine_reasons(
    args: &Run,
    suite: &FeatureSuite,
    cases: &[&Case],
    output: &mut CommandOutput,
) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(file) = &args.quarantine else { return Ok(BTreeMap::new()) };
    let shown = file.display().to_string();
    let text = read_text_file(file)
        .map_err(|error| UsageError(format!("--quarantine {}", error.message_with_file(&shown))))?;
    let quarantine =
        Quarantine::parse(&shown, &text).map_err(|problem| UsageError(problem.to_string()))?;
    let unknown = quarantine.unknown_scenarios(suite);
    if !unknown.is_empty() {
        return Err(Diagnostics(unknown).into());
    }
    let today = Clock::real().now().to_zoned(jiff::tz::TimeZone::UTC).date();
    for expired in quarantine.expired(today) {
        output.print_note(&expired.to_string());
    }
    Ok(quarantine.reasons(cases, today))
}

/// Says which scenarios in quarantine passed, so that they can leave it.
pub(super) fn note_passed_quarantine(report: &Report, output: &mut CommandOutput) {
    let passed = report.cases.iter().filter(|case| case.outcome == CaseOutcome::Passed);
    for case in passed.filter(|case| case.quarantined.is_some() && !case.flaky) {
        let reason = case.quarantined.as_deref().unwrap_or_default();
        output.print_note(&format!(
            "`{}` passed although it is in quarantine ({reason}): remove it from there",
            case.id
        ));
    }
}

/// Enables the feature gates that the cases have as tags, on an emulator that they share. One in
/// virtual time enables those of its own case.
pub(super) fn enable_gates_of_cases(args: &Run, settings: &mut RunSettings, cases: &[&Case]) {
    let is_shared = args.environment.cluster == ClusterChoice::Emulator
        && !environment::is_in_virtual_time(args.environment.cluster, &settings.target.source);
    if is_shared {
        let gates = cases.iter().flat_map(|case| case.feature_gates());
        settings.feature_gates = settings.feature_gates.with_enabled(gates);
    }
}

/// Why a scheduler that schedlab starts does not place the pod of a trial scenario; `None` if it
/// does. Otherwise every scenario would wait in vain.
pub(super) fn trial_failure(settings: &RunSettings, output: &mut CommandOutput) -> Option<String> {
    if settings.force || settings.target.programs.is_empty() {
        return None;
    }
    let name = &settings.target.name;
    output.show_activity(&format!("trying whether {name} places a pod"));
    let failure = runner::trial_failure(settings)?;
    output.clear_progress();
    Some(format!(
        "scheduler {name} did not place the pod of the trial before the scenarios: {failure}\n\
         to do: check its command and its schedulerName; --force runs the scenarios anyway"
    ))
}

/// Whether schedulers of different node pools would compete for the same claimed devices, which
/// belong to no node pool.
fn would_compete_for_devices(which: &SchedulerSource, cases: &[&Case]) -> bool {
    let has_claims = |case: &&Case| case.tags.iter().any(|tag| tag == features::CLAIMS_TAG);
    matches!(which, SchedulerSource::Deployment(_)) && cases.iter().any(has_claims)
}

/// Loads the baseline run that `--baseline` names, if any.
fn load_baseline(args: &Run) -> anyhow::Result<Option<Baseline>> {
    let is_virtual =
        environment::is_in_virtual_time(args.environment.cluster, &args.environment.scheduler);
    let order = match args.environment.cluster {
        ClusterChoice::Emulator if is_virtual => EventOrder::Compared,
        ClusterChoice::Emulator
        | ClusterChoice::ControlPlane
        | ClusterChoice::Kubeconfig
        | ClusterChoice::Container
        | ClusterChoice::Kind => EventOrder::Ignored,
    };
    let expected = args.expected_differences.as_deref();
    let read = |run: &String| super::diff::load_baseline(run, expected, &args.results, order);
    args.baseline.as_ref().map(read).transpose()
}

/// Closes a real cluster. Saves the logs of its components if a scenario failed.
pub(super) fn close_cluster(
    real_cluster: RealCluster,
    reports: &[CaseReport],
    logs: &Path,
    output: &mut CommandOutput,
) {
    if reports.iter().any(|case| case.outcome == CaseOutcome::Failed) {
        match real_cluster.export_logs(logs) {
            Ok(true) => output.print_progress(&format!("logs of the cluster: {}", logs.display())),
            Ok(false) => {}
            Err(error) => {
                output.print_note(&format!("cannot save the logs of the cluster: {error:#}"));
            }
        }
    }
    if let Some(came) = real_cluster.pods_that_landed() {
        output.print_note(&came);
    }
    for left in real_cluster.close() {
        output.print_note(&format!("could not be removed: {left}"));
    }
}

/// Starts the requested real cluster or connects to it; `None` for the emulator in virtual time.
pub(super) fn start_cluster(
    args: &Run,
    settings: &RunSettings,
    interrupt: &Interrupt,
    output: &mut CommandOutput,
) -> anyhow::Result<Option<Arc<RealCluster>>> {
    let (environment, scheduler) = (&args.environment, &settings.target.source);
    let mut boot = BootProgress::new(usual_boot_time(environment.cluster));
    let clock = Clock::real();
    let began = clock.now();
    let mut report_step = |what: &str| {
        boot.end_activity();
        output.print_progress(what);
        boot.begin_activity(what);
    };
    let mut real_cluster = match environment.cluster {
        ClusterChoice::Emulator
            if environment::is_in_virtual_time(environment.cluster, scheduler) =>
        {
            return Ok(None);
        }
        ClusterChoice::Emulator => RealCluster::start_emulator(
            environment::control_plane_folder(environment),
            settings.feature_gates.clone(),
            interrupt,
        )?,
        ClusterChoice::ControlPlane => {
            boot.begin_activity("booting a control plane");
            RealCluster::start_own_control_plane(
                environment::assets_folder(environment).as_deref(),
                &environment::feature_gates_text(environment, &settings.target),
                environment.kubelets,
                interrupt,
            )?
        }
        ClusterChoice::Kubeconfig => {
            boot.begin_activity("connecting to the cluster");
            let access = KubeconfigAccess {
                path: environment.kubeconfig.clone(),
                confirmed: environment.confirmed_context().cloned(),
                scheduler: scheduler.installed_scheduler_name(),
            };
            RealCluster::use_kubeconfig(&access, environment.kubelets, interrupt)?
        }
        ClusterChoice::Container => RealCluster::start_from_container_image(
            environment.image.as_deref().unwrap_or(DEFAULT_CLUSTER_IMAGE),
            scheduler,
            environment.kubelets,
            interrupt,
            &mut report_step,
        )?,
        ClusterChoice::Kind => {
            let options = KindOptions {
                keep: environment.kind_cluster.clone(),
                node_image: environment.node_image.clone(),
                config: environment.kind_config.clone(),
            };
            RealCluster::start_or_reuse_kind(
                &options,
                scheduler,
                settings.jobs.get(),
                environment.kubelets,
                interrupt,
                &mut report_step,
            )?
        }
    };
    drop(boot);
    let (definitions, classes) = settings.target.cluster_objects()?;
    real_cluster.install_target_objects(&definitions, &classes, interrupt)?;
    let took = clock.now().duration_since(began).as_secs_f64();
    output.print_progress(&format!("{}, ready in {took:.1} s", real_cluster.description()));
    match real_cluster.pods_that_may_land() {
        Ok(None) => {}
        Ok(Some(waiting)) => output.print_note(&waiting),
        Err(error) => output.print_note(&format!("cannot list pending pods of others: {error:#}")),
    }
    Ok(Some(Arc::new(real_cluster)))
}

/// Maximum number of concurrent schedulers (one per node pool, with two replicas each) on a
/// cluster.
const SHARDS_MAX: NonZeroUsize = NonZeroUsize::new(16).expect("16 is not 0");

/// How long a step of a cluster's startup usually takes on an idle machine.
fn usual_boot_time(cluster: ClusterChoice) -> Duration {
    Duration::from_secs(match cluster {
        ClusterChoice::Emulator | ClusterChoice::ControlPlane | ClusterChoice::Kubeconfig => 5,
        ClusterChoice::Container => 10,
        ClusterChoice::Kind => 30,
    })
}

fn crashes_option(args: &Run) -> anyhow::Result<Option<CrashWrites>> {
    if args.execution.crash_before.is_some() && args.environment.cluster != ClusterChoice::Emulator
    {
        let message = "--crash-before: expected --cluster emulator, whose runs are deterministic";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(args.execution.crash_before)
}

pub(super) fn run_settings(args: &Run, ci: Ci) -> anyhow::Result<RunSettings> {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let times = |more| cores.saturating_mul(NonZeroUsize::new(more).unwrap_or(cores));
    let baseline = load_baseline(args)?;
    let word = std::env::var("INSTA_UPDATE").ok();
    let target = environment::target_for_environment(&args.environment)?;
    Ok(RunSettings {
        jobs: args.execution.jobs.unwrap_or(match (args.environment.cluster, &target.source) {
            // Scenarios mostly wait for the programs of their scheduler.
            (ClusterChoice::Emulator, SchedulerSource::Process(_)) => times(6),
            (ClusterChoice::Emulator, _) => cores,
            // A shared scheduler would distribute all nodes among the queues of all scenarios.
            (_, SchedulerSource::Installed(_)) => NonZeroUsize::MIN,
            // One scheduler per scenario runs in the cluster, whose node takes about a hundred
            // pods.
            (_, SchedulerSource::Deployment(_)) => times(2).min(SHARDS_MAX),
            // Scenarios mostly wait, and all work happens on this machine.
            (ClusterChoice::ControlPlane | ClusterChoice::Container, _) => times(12),
            // The cluster may be shared, or its node is slow.
            (ClusterChoice::Kubeconfig | ClusterChoice::Kind, _) => times(5),
        }),
        seed: args.execution.seed,
        timeout: args.execution.timeout,
        retries: args.execution.retries,
        flaky_result: args.execution.flaky_result,
        repeat: args.execution.repeat,
        crashes: crashes_option(args)?,
        shuffle: args.execution.shuffle,
        max_fail: if args.execution.fail_fast {
            Some(NonZeroUsize::MIN)
        } else {
            args.execution.max_fail
        },
        quarantine: Arc::default(),
        update: SnapshotUpdate::from_env(word.as_deref(), ci).map_err(UsageError)?,
        interrupted: Interrupt::default(),
        real_cluster: None,
        feature_gates: environment::feature_gates(&args.environment, &target)?,
        time_scale: args.environment.time_scale,
        min_wait: args.environment.min_wait,
        target,
        force: args.environment.force,
        reproduce_options: reproduce::run_options(args, baseline.as_ref().map(Baseline::run_title)),
        baseline: baseline.map(Arc::new),
        recorder: None,
    })
}

pub(super) fn run_cases(
    cases: &[&Case],
    args: &Run,
    settings: &RunSettings,
    output: &mut CommandOutput,
) -> Vec<CaseReport> {
    let failures = if args.verbose { FailureLength::Full } else { FailureLength::Short };
    let mut painter = PrettyPrinter::new(output.colors).with_failure_length(failures);
    // A quiet run prints failures once, in its summary.
    let pretty = args.reporter.contains(&Reporter::Pretty) && !output.quiet;
    output.expect_cases(cases.len());
    let reports = runner::run(cases, settings, &mut |progress| match progress {
        RunProgress::Started(case) => output.show_activity(&case.name),
        RunProgress::Ended => output.count_done_case(),
        RunProgress::Reported(case) if pretty => output.print_result(&painter.case_text(case)),
        RunProgress::Reported(_) => {}
        RunProgress::Slow(case, time) => {
            let location = format!("{}:{}", case.location.file, case.location.line);
            output.print_progress(&format!(
                "SLOW {location} has been running for {} s",
                time.as_secs()
            ));
        }
    });
    output.clear_progress();
    reports
}

/// The error that `--crash-before` caused no crash at all, so that the run shows nothing.
fn no_crash_diagnostic(
    crash_points: Option<CrashWrites>,
    reports: &[CaseReport],
) -> Option<Diagnostic> {
    let held = [CaseOutcome::Passed, CaseOutcome::Skipped];
    let none = reports.iter().all(|case| held.contains(&case.outcome) && case.crashes == 0);
    let passed = reports.iter().filter(|case| case.outcome == CaseOutcome::Passed).count();
    (crash_points.is_some() && none && passed > 0).then(|| {
        let scenarios = counted_noun(passed, "passed scenario");
        let message = format!(
            "--crash-before: no scheduler crashed, because none wrote so often in {scenarios}"
        );
        Diagnostic::new("", 0, message)
    })
}

/// Diagnostics about snapshots that no scenario uses and, in continuous integration, about pending
/// ones.
fn snapshot_diagnostics(
    suite: &FeatureSuite,
    paths: &[FeaturePath],
    ci: Ci,
) -> Vec<(ExitStatus, Diagnostic)> {
    let steps = schedlab_conformance::steps::catalogue::step_collection();
    let shows = |case: &Case| {
        case.steps.iter().any(|step| schedlab_conformance::steps::is_snapshot_step(step, &steps))
    };
    let folders = paths
        .iter()
        .filter(|path| path.files.is_on_disk() && path.line.is_none() && path.path.is_dir());
    let folders: Vec<PathBuf> = folders.map(|path| path.path.clone()).collect();
    let orphans = snapshots::orphaned_snapshots(suite, &folders, &shows).into_iter().map(|path| {
        let message = "orphan snapshot: no scenario uses it any more; rename it or delete it";
        (ExitStatus::Failed, Diagnostic::new(&path.display().to_string(), 0, message.to_owned()))
    });
    let waiting = match ci {
        Ci::No => Vec::new(),
        Ci::Yes => {
            let on_disk = suite.cases.iter().filter(|case| case.files.is_on_disk());
            let bases = on_disk.map(|case| case.base_folder().join("snapshots"));
            let bases: std::collections::BTreeSet<PathBuf> = bases.collect();
            snapshots::pending_snapshots(&bases.into_iter().collect::<Vec<_>>())
        }
    };
    let waiting = waiting.into_iter().map(|path| {
        let message = format!("pending review: {}", snapshots::review_command(&path));
        (ExitStatus::Pending, Diagnostic::new(&path.display().to_string(), 0, message))
    });
    orphans.chain(waiting).collect()
}

/// The reporters of a command line, with those of the environment.
pub(super) fn effective_reporters(reporters: &[Reporter]) -> anyhow::Result<Vec<Reporter>> {
    let mut all = report::with_fallback_reporter(reporters).map_err(UsageError)?;
    let in_github = std::env::var_os("GITHUB_ACTIONS").is_some();
    if in_github && all.contains(&Reporter::Pretty) && !all.contains(&Reporter::Github) {
        all.push(Reporter::Github);
    }
    Ok(all)
}

/// What a completed run leaves.
pub(super) struct FinishedRun<'r> {
    /// The results of its scenarios.
    pub(super) report: &'r Report,
    /// When and how it ran.
    pub(super) record: &'r RunRecord,
    /// The timelines of its scenarios, if they were recorded.
    pub(super) timelines: &'r EncodedTimelines,
}

/// Writes the requested reports, and the results of a completed run to the results folder.
pub(super) fn write_reports(
    reporters: &[Reporter],
    results: &Path,
    run: &FinishedRun<'_>,
    output: &mut CommandOutput,
) -> anyhow::Result<()> {
    let FinishedRun { report, record, timelines } = run;
    write_reporters(reporters, report, timelines, output)?;
    let began = record.began.strftime("%Y%m%dT%H%M%SZ");
    let shard = record.shard.map(|shard| format!("-shard{}of{}", shard.index(), shard.count()));
    let run = format!("{began}-seed{}{}", report.seed, shard.unwrap_or_default());
    let folder = report::write_results(results, &run, report, record)?;
    if !timelines.is_empty() {
        run_files::write_timelines(&folder, timelines)?;
    }
    output.print_progress(&format!("results: {}", folder.display()));
    Ok(())
}

/// Writes the requested reports.
fn write_reporters(
    reporters: &[Reporter],
    report: &Report,
    timelines: &EncodedTimelines,
    output: &mut CommandOutput,
) -> anyhow::Result<()> {
    for reporter in reporters {
        let text = match reporter {
            Reporter::Pretty => continue,
            Reporter::Github => {
                write_github_reports(report, output)?;
                continue;
            }
            Reporter::Junit(_) => report::junit_xml(report)?,
            Reporter::Json(_) => report::report_json(report)?,
            Reporter::Svg(_) => report::svg_image(report),
            Reporter::Html(_) => html_report(report, timelines)?,
        };
        match reporter.file() {
            None => output.print_result(&text),
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("cannot write {}", path.display()))?,
        }
    }
    Ok(())
}

/// Prints annotations, and adds the summary to that of the step if there is one.
fn write_github_reports(report: &Report, output: &mut CommandOutput) -> anyhow::Result<()> {
    let repository = std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from);
    let here = std::env::current_dir().unwrap_or_default();
    let folder = repository.and_then(|root| here.strip_prefix(root).ok().map(Path::to_path_buf));
    let folder = folder.map(|folder| features::display_path(&folder)).unwrap_or_default();
    let folder = if folder.is_empty() { folder } else { folder + "/" };
    output.print_result(&report::github_annotations(report, &folder));
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let path = PathBuf::from(path);
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("GITHUB_STEP_SUMMARY: cannot open {}", path.display()))?;
    file.write_all(report::github_summary(report).as_bytes())
        .with_context(|| format!("GITHUB_STEP_SUMMARY: cannot write {}", path.display()))
}

/// Writes an error to the report files, so that those of an earlier run are not mistaken for this
/// run's.
fn write_error(
    args: &Run,
    error: &anyhow::Error,
    output: &mut CommandOutput,
) -> anyhow::Result<()> {
    if report::first_unwritable_path(&args.results, &args.reporter).is_some() {
        return Ok(());
    }
    let problems = match error.downcast_ref::<Diagnostics>() {
        Some(Diagnostics(problems)) => problems.clone(),
        None => vec![Diagnostic::new("", 0, format!("{error:#}"))],
    };
    let cluster = args.environment.cluster.option_value().to_owned();
    let report = Report { seed: args.execution.seed, cluster, cases: Vec::new(), problems };
    write_reporters(&args.reporter, &report, &EncodedTimelines::default(), output)
}

fn exit_status(
    report: &Report,
    diagnostics: &[(ExitStatus, Diagnostic)],
    interrupt: &Interrupt,
) -> ExitStatus {
    let has = |outcome| report.count_of(outcome) > 0;
    let all_skipped = report.count_of(CaseOutcome::Skipped) == report.cases.len();
    // A shard may have no scenario.
    let all_skipped = all_skipped && !report.cases.is_empty();
    // A flaky failure carries the failure of its first attempt.
    let failed = |case: &&CaseReport| case.is_counted_failure() && !case.flaky;
    let not_started = |case: &CaseReport| {
        let kind = case.failure.as_ref().map(|failure| failure.kind);
        kind == Some(report::FailureKind::NotStarted)
    };
    if interrupt.is_raised() {
        ExitStatus::Interrupted
    } else if all_skipped {
        ExitStatus::NothingSelected
    } else if report.cases.iter().filter(failed).any(not_started) {
        ExitStatus::NotStarted
    } else if report.cases.iter().any(|case| failed(&case))
        || diagnostics.iter().any(|(exit, _)| *exit == ExitStatus::Failed)
    {
        ExitStatus::Failed
    } else if has(CaseOutcome::Pending)
        || report.cases.iter().any(CaseReport::is_counted_failure)
        || !diagnostics.is_empty()
    {
        ExitStatus::Pending
    } else {
        ExitStatus::Passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_conformance::report::{Failure, FailureKind};

    fn case(outcome: CaseOutcome, flaky: bool, failed: bool) -> CaseReport {
        let failure = Failure {
            kind: FailureKind::Step,
            line: 7,
            message: String::new(),
            reproduce: String::new(),
        };
        CaseReport {
            id: "f.feature: a".to_owned(),
            file: "f.feature".to_owned(),
            line: 5,
            feature: "f".to_owned(),
            rule: None,
            name: "a".to_owned(),
            tags: Vec::new(),
            outcome,
            skipped: None,
            missing_capabilities: Vec::new(),
            wording_not_judged: Vec::new(),
            snapshots_not_judged: Vec::new(),
            flaky,
            quarantined: None,
            crashes: 0,
            virtual_millis: 1500,
            steps: Vec::new(),
            failure: failed.then_some(failure),
            run_outcome: None,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_run_with_only_flaky_failures_exits_with_5() {
        let exit = |cases: Vec<CaseReport>| {
            exit_status(&Report { cases, ..Report::default() }, &[], &Interrupt::default())
        };
        let flaky = |outcome| {
            let mut flaky = case(outcome, true, true);
            flaky.failure.as_mut().unwrap().kind = FailureKind::NotStarted;
            flaky
        };
        assert_eq!(exit(vec![flaky(CaseOutcome::Passed)]), ExitStatus::Passed);
        assert_eq!(exit(vec![flaky(CaseOutcome::Failed)]), ExitStatus::Pending);
        let failed = case(CaseOutcome::Failed, false, true);
        assert_eq!(exit(vec![flaky(CaseOutcome::Failed), failed]), ExitStatus::Failed);
    }
}
