//! `schedlab conform --all-targets`: one report for each scheduler that is built, and the matrix of
//! all of them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schedlab_clusters::scheduler_source::SchedulerSource;
use schedlab_conformance::conform::matrix_text;
use schedlab_conformance::schedulers::Target;

use super::tested_scheduler;
use crate::cli::Conform;
use crate::commands::CommandOutput;
use crate::exit::ExitStatus;

/// The targets of the matrix beside our own scheduler, in the order of its columns.
const TARGETS: [&str; 5] = ["kube-scheduler", "kai", "kueue", "yunikorn", "coscheduling"];

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
        output.print_note(&format!("testing {}", target.unwrap_or("our own scheduler")));
        match tested_scheduler(&own, output) {
            Ok(Some((report, _))) => reports.push(report),
            Ok(None) => return Ok(ExitStatus::Interrupted),
            Err(error) => output.print_note(&format!("no report: {error:#}")),
        }
        // After each scheduler, so that an interrupted run leaves what it has found.
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(&args.matrix, matrix_text(&reports)))
            .with_context(|| format!("cannot write {}", args.matrix.display()))?;
    }
    output.print_note(&format!("matrix: {}", args.matrix.display()));
    Ok(if reports.is_empty() { ExitStatus::NotStarted } else { ExitStatus::Passed })
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
