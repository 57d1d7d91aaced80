//! What the subcommands for case files share: reading the input, and settings of the scheduler.

use std::path::{Path, PathBuf};

use schedlab_casefiles::Case;
use schedlab_casefiles::read::{CaseInput, read_case};
use schedlab_conformance::text::counted_noun;
use schedlab_scheduler::ConfigSource;
use schedlab_scheduler::replay::Replay;
use schedlab_scheduler::snapshot_file::Overrides;

use super::{CommandOutput, UsageError};
use crate::cli::{CaseFiles, CaseScheduler};

/// Reads a case and prints what is remarkable about the input.
pub(super) fn load_case(input: &CaseFiles, output: &mut CommandOutput) -> anyhow::Result<Case> {
    load_files(&input.files, input.max_size, output)
}

/// Reads a case from files and folders; `max_size` is in MiB.
pub(super) fn load_files(
    files: &[PathBuf],
    max_size: u64,
    output: &mut CommandOutput,
) -> anyhow::Result<Case> {
    let CaseInput { case, warnings, missing } = read(files, max_size)?;
    print_warnings(&[missing, warnings].concat(), output);
    Ok(case)
}

/// Reads a case about which nothing is decided, so that nothing is missing.
pub(super) fn load_records(
    files: &[PathBuf],
    max_size: u64,
    output: &mut CommandOutput,
) -> anyhow::Result<Case> {
    let CaseInput { case, warnings, missing: _ } = read(files, max_size)?;
    print_warnings(&warnings, output);
    Ok(case)
}

fn read(files: &[PathBuf], max_size: u64) -> Result<CaseInput, UsageError> {
    let read = read_case(files, max_size.saturating_mul(1 << 20));
    read.map_err(|error| UsageError(error.to_string()))
}

fn print_warnings(warnings: &[String], output: &mut CommandOutput) {
    for warning in warnings {
        output.print_note(&format!("warning: {warning}"));
    }
}

/// What stands in place of a result about a case without objects.
pub(super) const NOTHING_READ: &str = "nothing was read\n";

/// Fails if a case has nothing: a proof about it would say nothing.
pub(super) fn expect_objects(case: &Case, files: &[PathBuf]) -> anyhow::Result<()> {
    if is_empty(case) {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let message = format!(
            "{}: got no object that decisions depend on, expected a case",
            names.join(", ")
        );
        return Err(UsageError(message).into());
    }
    Ok(())
}

/// Whether nothing that decisions depend on was read.
pub(super) fn is_empty(case: &Case) -> bool {
    case.object_count() == 0
}

/// How many nodes, queues, pod groups and pods a case has.
pub(super) fn counts_text(case: &Case) -> String {
    let kinds =
        [("nodes", "node"), ("queues", "queue"), ("podGroups", "pod group"), ("pods", "pod")];
    let counts = kinds.map(|(array, noun)| counted_noun(case.objects(array).count(), noun));
    counts.join(", ")
}

/// The settings that override those of a case.
pub(super) fn overrides(scheduler: &CaseScheduler) -> anyhow::Result<Overrides> {
    let given = ConfigSource::read(scheduler.config.as_deref());
    let file = given.map_err(|error| UsageError(error.to_string()))?;
    let scheduler_name = scheduler.scheduler_name.clone();
    Ok(Overrides { file, scheduler_name, simulations_max: None })
}

/// Like [`overrides`], with a limit of the simulated evictions; 0: no limit.
pub(super) fn limited_overrides(
    scheduler: &CaseScheduler,
    simulations: usize,
) -> anyhow::Result<Overrides> {
    let simulations_max = Some(simulations).filter(|most| *most > 0);
    Ok(Overrides { simulations_max, ..overrides(scheduler)? })
}

/// What to say if a replay ended its searches for pods to evict early.
pub(super) fn search_limit_note(replay: &Replay, simulations: usize) -> Option<String> {
    replay.is_search_limited.then(|| {
        format!(
            "an action simulated {simulations} evictions, the limit: other pending workloads may \
             evict pods, too; --simulations raises the limit"
        )
    })
}

/// Creates the folder of an output file, before any work that would be lost without it.
pub(super) fn create_folder_of(file: &Path) -> anyhow::Result<()> {
    let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let created = std::fs::create_dir_all(folder);
    let shown = folder.display();
    Ok(created
        .map_err(|error| UsageError(format!("{shown}: cannot create the folder: {error}")))?)
}

/// Writes a case file.
pub(super) fn write_case(case: &Case, path: &Path) -> anyhow::Result<()> {
    Ok(case.write(path).map_err(|error| UsageError(error.to_string()))?)
}

/// The error of a case whose settings are invalid, as a usage error with the name of its file.
pub(super) fn case_error(files: &[PathBuf], error: &schedlab_casefiles::CaseError) -> UsageError {
    let first = files.first().map(|file| file.display().to_string()).unwrap_or_default();
    UsageError(format!("{first}: {error}"))
}
