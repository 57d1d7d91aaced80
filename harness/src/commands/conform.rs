//! `schedlab conform`: runs the scenarios of a profile and reports whether the scheduler conforms.

mod matrix;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use schedlab_clusters::interrupt::Interrupt;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::conform::{
    self, Behaviour, ClusterIdentity, ConformanceGoals, ConformanceReport, EvaluatedRun,
    Implementation, Level, PlannedBehaviour, Profile, ProfileIdentity, ReportChanges,
    SuiteIdentity,
};
use schedlab_conformance::features::{Case, FeaturePath, display_path};
use schedlab_conformance::report::{CaseReport, FailureKind, Reporter};
use schedlab_conformance::runner::RunSettings;
use schedlab_conformance::schedulers::Target;
use schedlab_conformance::snapshots::SnapshotUpdate;
use schedlab_conformance::text::nearest_word;
use schedlab_control_plane::{PROGRAMS, find_assets};
use schedlab_emulator::clock::Clock;

use super::{CommandOutput, UsageError, check, environment, reproduce, run, suite};
use crate::cli::{
    Conform, EnvironmentArgs, EvidenceProgramme, ExpectedVerdict, ProfileArgs, Run, Selection,
    ShardPods,
};
use crate::exit::ExitStatus;

/// Runs the scenarios of a profile, writes the report and prints it.
pub fn run_conform_command(args: &Conform) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    if args.schema {
        let schema = serde_json::to_string_pretty(&conform::report_schema())?;
        output.print_result(&(schema + "\n"));
        return Ok(ExitStatus::Passed);
    }
    if args.list {
        let profile = Profile::load(&args.profile).map_err(|error| usage_error(&error))?;
        output.print_result(&behaviour_list(&profile));
        return Ok(ExitStatus::Passed);
    }
    if args.all_targets {
        return matrix::run_all_targets(args, &mut output);
    }
    let baseline = args.baseline_report.as_deref().map(read_baseline).transpose()?;
    let Some((report, results)) = tested_scheduler(args, &mut output)? else {
        return Ok(ExitStatus::Interrupted);
    };
    let goals = ConformanceGoals {
        required: args.require.clone(),
        max_skipped: args.max_skipped,
        baseline,
    };
    Ok(exit_status(&goals, &report, &results, &mut output))
}

/// The behaviours of a profile, one a line: id, level and sentence.
fn behaviour_list(profile: &Profile) -> String {
    let width = profile.behaviours().map(|(_, _, one)| one.id.len()).max().unwrap_or_default();
    let line = |level: Level, one: &Behaviour| {
        format!("{:width$}  {:8}  {}\n", one.id, level.name(), one.behaviour)
    };
    profile.behaviours().map(|(_, level, one)| line(level, one)).collect()
}

fn read_baseline(path: &Path) -> anyhow::Result<ConformanceReport> {
    let read = || ConformanceReport::from_yaml(&std::fs::read_to_string(path)?);
    let expected = "expected a conformance.yaml that schedlab conform wrote";
    read().map_err(|error| {
        UsageError(format!("--baseline-report {}: {error:#}; {expected}", path.display())).into()
    })
}

/// Runs the scenarios for one scheduler, and writes and prints the report. `None` if the run was
/// interrupted.
fn tested_scheduler(
    args: &Conform,
    output: &mut CommandOutput,
) -> anyhow::Result<Option<(ConformanceReport, Vec<CaseReport>)>> {
    let began = Clock::real().now();
    let profile = Profile::load(&args.profile).map_err(|error| usage_error(&error))?;
    let run = run_arguments(args);
    let mut settings = run::run_settings(&run, output.ci)?;
    settings.update = SnapshotUpdate::No;
    let planned = planned_behaviours(args, &profile)?;
    environment::check_program(&run.environment, &settings.target)?;
    let folder = report_folder(args, &settings.target);
    std::fs::create_dir_all(&folder)
        .map_err(|error| UsageError(format!("--report {}: {error}", folder.display())))?;
    let cases: Vec<&Case> = planned.iter().flat_map(|behaviour| &behaviour.cases).collect();
    run::enable_gates_of_cases(&run, &mut settings, &cases);
    let interrupt = Interrupt::listen()?;
    settings.interrupted = interrupt.clone();
    settings.real_cluster = match run::start_cluster(&run, &settings, &interrupt, output) {
        Err(_) if interrupt.is_raised() => return Ok(None),
        booted => booted?,
    };
    if let Some(failure) = run::trial_failure(&settings, output) {
        if let Some(real_cluster) = settings.real_cluster.take().and_then(Arc::into_inner) {
            real_cluster.close();
        }
        if interrupt.is_raised() {
            return Ok(None);
        }
        anyhow::bail!(failure);
    }
    let kubernetes_version = kubernetes_version(&settings)?;
    let results = run::run_cases(&cases, &run, &settings, output);
    if let Some(real_cluster) = settings.real_cluster.take().and_then(Arc::into_inner) {
        run::close_cluster(real_cluster, &results, &folder.join("logs"), output);
    }
    if interrupt.is_raised() {
        return Ok(None);
    }
    let facts = EvaluatedRun {
        implementation: implementation(args, &settings.target),
        profile: ProfileIdentity {
            name: profile.name.clone(),
            title: profile.title.clone(),
            only: args.only.clone(),
        },
        suite: SuiteIdentity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            digest: suite_digest(&features_path(args)),
            seed: settings.seed,
        },
        cluster: ClusterIdentity {
            kind: run.environment.cluster.option_value().to_owned(),
            kubernetes_version,
            feature_gates: environment::feature_gates_text(&run.environment, &settings.target),
        },
        date: began.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        command: reproduce_command(args),
    };
    let report = conform::evaluate(facts, &planned, &results, &settings.target);
    write_files(args, &folder, &report, &planned, &results)?;
    output.print_result(&conform::report_text(&report));
    output.print_note(&format!("report: {}", folder.join(REPORT_YAML).display()));
    Ok(Some((report, results)))
}

/// The name of our scheduler in reports.
const OUR_SCHEDULER: &str = "schedlab-scheduler";

/// The names of the files of a report.
const REPORT_YAML: &str = "conformance.yaml";
const REPORT_JSON: &str = "conformance.json";

/// The arguments of a run with the options of `conform`.
fn run_arguments(args: &Conform) -> Run {
    let mut environment = args.environment.clone();
    infer_scheduler(&mut environment);
    Run {
        selection: Selection::default(),
        execution: args.execution.clone(),
        environment,
        shard_pods: ShardPods::local(),
        profile: ProfileArgs::default(),
        quarantine: None,
        reporter: if args.verbose { vec![Reporter::Pretty] } else { Vec::new() },
        baseline: None,
        expected_differences: None,
        and: None,
        and_target: None,
        expect: ExpectedVerdict::Pass,
        verbose: args.verbose,
        results: PathBuf::from("results"),
    }
}

/// Chooses the program of a built-in target that is given without `--scheduler`: the program of its
/// name beside the control plane's, or on the path.
fn infer_scheduler(environment: &mut EnvironmentArgs) {
    let Some(target) = &environment.target else { return };
    if environment.scheduler != SchedulerSource::Ours || !Target::is_built_in(target) {
        return;
    }
    // The target file says how its programs are started.
    let loaded = Target::load_target(&SchedulerSource::Ours, Some(target));
    if loaded.is_ok_and(|loaded| !loaded.programs.is_empty() && loaded.folder.is_some()) {
        return;
    }
    let folder = environment::assets_folder(environment);
    let beside = find_assets(folder.as_deref(), &PROGRAMS).ok();
    let beside = beside.map(|assets| assets.folder().join(target)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| target.clone());
    environment.scheduler = SchedulerSource::Process(program.display().to_string());
}

/// The behaviours of the profile that the options select, with their scenarios.
fn planned_behaviours(args: &Conform, profile: &Profile) -> anyhow::Result<Vec<PlannedBehaviour>> {
    let known: Vec<&str> = profile.behaviours().map(|(_, _, one)| one.id.as_str()).collect();
    if let Some(unknown) = args.only.iter().find(|id| !known.contains(&id.as_str())) {
        let hint = nearest_word(unknown, known.iter().copied());
        let hint = hint.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        let message = format!(
            "--only: got {unknown}, expected an id that `schedlab conform --list` prints{hint}"
        );
        return Err(UsageError(message).into());
    }
    let suite = check::load_suite(&[features_path(args)])?;
    let mut planned = conform::plan_scenarios(profile, &suite)?;
    planned.retain(|behaviour| args.only.is_empty() || args.only.contains(&behaviour.id));
    Ok(planned)
}

fn usage_error(error: &anyhow::Error) -> anyhow::Error {
    UsageError(format!("{error:#}")).into()
}

fn report_folder(args: &Conform, target: &Target) -> PathBuf {
    let default = || {
        let folder = Path::new("results/conformance").join(target.name.replace(' ', "-"));
        if args.only.is_empty() { folder } else { folder.join("only") }
    };
    args.report.clone().unwrap_or_else(default)
}

/// The version of Kubernetes that the cluster reports.
fn kubernetes_version(settings: &RunSettings) -> anyhow::Result<String> {
    let Some(real_cluster) = &settings.real_cluster else {
        return Ok(settings.feature_gates.version().git_version().to_owned());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = real_cluster.cluster_client()?;
        let version = client.apiserver_version().await.context("cannot read /version")?;
        Ok(version.git_version)
    })
}

fn implementation(args: &Conform, target: &Target) -> Implementation {
    let environment = &args.environment;
    let scheduler = match (&environment.scheduler, &target.source) {
        (SchedulerSource::Ours, SchedulerSource::Process(_)) => format!("process:{}", target.name),
        (given, _) => reproduce::scheduler_option(given),
    };
    let capabilities = target.declared_capabilities();
    let name = if target.source == SchedulerSource::Ours { OUR_SCHEDULER } else { &target.name };
    Implementation {
        name: name.to_owned(),
        version: args.implementation_version.clone().or_else(|| target.version.clone()),
        scheduler,
        capabilities: capabilities.map(|names| names.map(str::to_owned).collect()),
    }
}

/// The folder of features that `--features` names, or that of the embedded suite. The `features/` of
/// a project of one's own has no scenarios of profiles.
fn features_path(args: &Conform) -> FeaturePath {
    match &args.features {
        Some(folder) => FeaturePath::on_disk(PathBuf::from(folder)),
        None => FeaturePath::embedded(&suite::SUITE, PathBuf::from(suite::FEATURES)),
    }
}

/// The digest of the features, and of the fixtures and snapshots beside them.
fn suite_digest(features: &FeaturePath) -> String {
    let base = features.path.parent().unwrap_or(Path::new(""));
    let beside = ["fixtures", "snapshots"].map(|folder| base.join(folder));
    let folders = [&features.path, &beside[0], &beside[1]];
    let paths = folders.into_iter().flat_map(|folder| features.files.files_below(folder));
    let texts: Vec<(String, String)> = paths
        .filter(|path| !is_left_out(path))
        .filter_map(|path| {
            let text = features.files.read_text(&path).ok()?;
            let inner = path.strip_prefix(base).unwrap_or(&path);
            Some((display_path(inner), text))
        })
        .collect();
    conform::suite_digest(texts.iter().map(|(path, text)| (path.as_str(), text.as_bytes())))
}

/// Whether a file is not part of the suite: it is hidden, or a pending snapshot.
fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name.ends_with(".snap.new")
}

/// The command that repeats the run.
fn reproduce_command(args: &Conform) -> String {
    let profile = match &*args.profile {
        "gpu-core-v1" => String::new(),
        other => format!(" --profile {}", schedlab_conformance::text::shell_quoted_word(other)),
    };
    let seed = match args.execution.seed {
        1 => String::new(),
        seed => format!(" --seed {seed}"),
    };
    let features = args.features.as_ref().map_or(String::new(), |folder| {
        format!(" --features {}", schedlab_conformance::text::shell_quoted_word(folder))
    });
    let options = reproduce::environment_options(&args.environment);
    format!("schedlab conform{profile}{features}{options}{seed}")
}

fn write_files(
    args: &Conform,
    folder: &Path,
    report: &ConformanceReport,
    planned: &[PlannedBehaviour],
    results: &[CaseReport],
) -> anyhow::Result<()> {
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&folder.join(REPORT_YAML), &report.to_yaml()?)?;
    write(&folder.join(REPORT_JSON), &report.to_json()?)?;
    if args.evidence.contains(&EvidenceProgramme::CncfAi) {
        let folder = folder.join("cncf-ai");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let url = args.evidence_url.as_deref();
        for file in conform::cncf_ai_evidence(report, planned, results, url)? {
            write(&folder.join(file.name), &file.text)?;
        }
    }
    Ok(())
}

fn exit_status(
    goals: &ConformanceGoals,
    report: &ConformanceReport,
    results: &[CaseReport],
    output: &mut CommandOutput,
) -> ExitStatus {
    let not_started = |case: &CaseReport| {
        case.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::NotStarted)
    };
    if let Some(baseline) = &goals.baseline {
        for change in ReportChanges::between(baseline, report).others {
            output.print_note(&change);
        }
    }
    let unmet = goals.unmet(report);
    for goal in &unmet {
        output.print_note(goal);
    }
    if results.iter().any(not_started) {
        ExitStatus::NotStarted
    } else if unmet.is_empty() {
        ExitStatus::Passed
    } else {
        ExitStatus::Failed
    }
}
