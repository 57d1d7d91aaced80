//! `schedlab clean`: removes resources that crashed runs left behind.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;

use super::CommandOutput;
use crate::cli::{Clean, Format};
use crate::exit::ExitStatus;
use schedlab_clusters::cleanup::{self, CleanupMode, CleanupOutcome, RunReport, RunState};

#[derive(Serialize)]
struct CleanOutput {
    runs: Vec<RunReport>,
    /// Resources that have our label but no record in this state folder. They are reported and
    /// never removed.
    unrecorded: Vec<String>,
}

/// Removes the resources of runs whose process has ended. The exit status is 1 if a removal fails.
pub fn run_clean_command(args: &Clean) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let state = cleanup::state_folder()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let doing = if args.dry_run { CleanupMode::DryRun } else { CleanupMode::Remove };
    let runs = runtime.block_on(cleanup::clean_finished_runs(&state, doing))?;
    let cleaned = CleanOutput { runs, unrecorded: cleanup::find_unrecorded_resources(&state)? };
    output.print_result(&match args.format {
        Format::Json => serde_json::to_string_pretty(&cleaned)? + "\n",
        Format::Text => clean_text(&cleaned),
    });
    let ends = cleaned.runs.iter().flat_map(|run| &run.resources);
    let failed = ends.into_iter().any(|one| one.outcome.failure_reason().is_some());
    Ok(if failed { ExitStatus::Failed } else { ExitStatus::Passed })
}

fn clean_text(cleaned: &CleanOutput) -> String {
    let mut out = String::new();
    for run in &cleaned.runs {
        let RunReport { run: id, verb, .. } = run;
        let life = match run.state {
            RunState::Ended => "ended",
            RunState::Running => "is still running: skipped",
            RunState::Unreachable => {
                "belongs to another machine or container: skipped, clean up \
                there"
            }
        };
        let _ = writeln!(out, "run {id} ({verb}) {life}");
        for one in &run.resources {
            let _ = match &one.outcome {
                CleanupOutcome::Removed => writeln!(out, "  removed {}", one.resource),
                CleanupOutcome::Present => writeln!(out, "  would remove {}", one.resource),
                CleanupOutcome::Absent => writeln!(out, "  already gone: {}", one.resource),
                CleanupOutcome::Pending => {
                    writeln!(
                        out,
                        "  not created yet: {} (docker may be creating it: run clean \
                        again)",
                        one.resource
                    )
                }
                CleanupOutcome::Failed { why } => {
                    writeln!(out, "  NOT REMOVED {}: {why}", one.resource)
                }
                CleanupOutcome::Unknown { why } => {
                    writeln!(out, "  UNKNOWN {}: {why}", one.resource)
                }
            };
        }
    }
    for one in &cleaned.unrecorded {
        let _ = writeln!(out, "skipped, without a record in this state folder: {one}");
    }
    if out.is_empty() {
        out.push_str("nothing to clean\n");
    }
    out
}
