//! What the subcommands for case files share: reading the input, and settings of the scheduler.

use std::path::{Path, PathBuf};

use schedlab_casefiles::Case;
use schedlab_casefiles::read::{CaseInput, read_case};
use schedlab_conformance::text::counted_noun;
use schedlab_scheduler::ConfigSource;
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
    let read = read_case(files, max_size.saturating_mul(1 << 20));
    let CaseInput { case, warnings } = read.map_err(|error| UsageError(error.to_string()))?;
    for warning in warnings {
        output.print_note(&format!("warning: {warning}"));
    }
    Ok(case)
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
    Ok(Overrides { file, scheduler_name: scheduler.scheduler_name.clone() })
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
