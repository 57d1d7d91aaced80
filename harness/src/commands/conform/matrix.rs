//! `schedlab conform --all-targets`: one report for each scheduler that is built, and the matrix of
//! all of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::conform::{ConformanceReport, matrix_text};
use schedlab_conformance::schedulers::Target;

use schedlab_control_plane::{PROGRAMS, find_assets};

use super::{REPORT_YAML, features_path, suite_digest, tested_scheduler};
use crate::cli::Conform;
use crate::commands::{CommandOutput, environment};
use crate::exit::ExitStatus;

/// The targets of the matrix beside our own scheduler, in the order of its columns.
const TARGETS: [&str; 5] = ["kube-scheduler", "kai", "kueue", "yunikorn", "coscheduling"];

/// Schedulers with a target file that the matrix names without results, with the reason.
const NOT_RUN: [(&str, &str); 1] = [(
    "Volcano v1.15.1",
    "no program of it can be built here; its target file and adapter are tested for the objects \
     that they write",
)];

/// Tests our scheduler and all that are built, and writes one report each and the matrix.
pub(super) fn run_all_targets(
    args: &Conform,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let folder = args.matrix.parent().unwrap_or(Path::new("")).to_path_buf();
    let targets = [None].into_iter().chain(TARGETS.map(Some));
    let mut reports = Vec::new();
    for target in targets {
        if let Some(name) = target
            && let Some(why) = not_built_reason(name)?
        {
            output.print_note(&format!("{name} is left out: {why}"));
            continue;
        }
        let mut own = args.clone();
        own.all_targets = false;
        own.environment.target = target.map(PathBuf::from);
        own.report = Some(folder.join(target.unwrap_or("schedlab-scheduler")));
        if target == Some("kube-scheduler") && own.implementation_version.is_none() {
            own.implementation_version = control_plane_version(&own);
        }
        if let Some(report) = earlier_report(&own) {
            let (name, date) = (&report.implementation.name, &report.date);
            output.print_note(&format!("{name} was tested at {date}: its report is kept"));
            reports.push(report);
            continue;
        }
        output.print_note(&format!("testing {}", target.unwrap_or("our own scheduler")));
        match tested_scheduler(&own, output) {
            Ok(Some((report, _))) => reports.push(report),
            Ok(None) => return Ok(ExitStatus::Interrupted),
            Err(error) => output.print_note(&format!("no report: {error:#}")),
        }
        // After each scheduler, so that an interrupted run leaves what it has found.
        write_matrix(args, &reports)?;
    }
    write_matrix(args, &reports)?;
    output.print_note(&format!("matrix: {}", args.matrix.display()));
    Ok(if reports.is_empty() { ExitStatus::NotStarted } else { ExitStatus::Passed })
}

fn write_matrix(args: &Conform, reports: &[ConformanceReport]) -> anyhow::Result<()> {
    let folder = args.matrix.parent().unwrap_or(Path::new(""));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&args.matrix, matrix_text(reports, &NOT_RUN)))
        .with_context(|| format!("cannot write {}", args.matrix.display()))
}

/// The report that an earlier run left for these arguments, with the same profile, suite and cluster
/// and the same version of the scheduler: a scheduler is tested once, also if the command is
/// repeated.
fn earlier_report(args: &Conform) -> Option<ConformanceReport> {
    let path = args.report.as_ref()?.join(REPORT_YAML);
    let report = ConformanceReport::from_yaml(&std::fs::read_to_string(path).ok()?).ok()?;
    let source = &SchedulerSource::Ours;
    let target = Target::load_target(source, args.environment.target.as_deref()).ok()?;
    let version = args.implementation_version.clone().or(target.version);
    let is_same = report.implementation.version == version
        && report.profile.name == args.profile
        && report.profile.only == args.only
        && report.suite.digest == suite_digest(&features_path(args))
        && report.suite.seed == args.execution.seed
        && report.cluster.kind == args.environment.cluster.option_value();
    is_same.then_some(report)
}

/// The version of the control plane's programs, one of which is kube-scheduler.
fn control_plane_version(args: &Conform) -> Option<String> {
    let folder = environment::assets_folder(&args.environment);
    let assets = find_assets(folder.as_deref(), &PROGRAMS).ok()?;
    Some(format!("v{}", assets.version().ok()?.trim_start_matches('v')))
}

/// Why a target cannot be run; `None` if it can.
fn not_built_reason(name: &str) -> anyhow::Result<Option<String>> {
    let target = Target::load_target(&SchedulerSource::Ours, Some(Path::new(name)))?;
    if target.programs.is_empty() {
        return Ok(Some("its target file does not say how it is started".to_owned()));
    }
    let folder = target.folder.filter(|folder| !folder.exists());
    Ok(folder.map(|folder| format!("{} is not built: make targets builds it", folder.display())))
}
