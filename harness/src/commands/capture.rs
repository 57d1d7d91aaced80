//! `schedlab capture`: reads a cluster, or files of one, into a case file.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use schedlab_casefiles::Case;
use schedlab_casefiles::capture::{capture_for, cluster_role};
use schedlab_conformance::text::counted_noun;
use schedlab_emulator::clock::Clock;
use schedlab_scheduler::cli::kube_client;
use schedlab_scheduler::{Config, ConfigSource};

use super::case_input::{counts_text, create_folder_of, load_files, write_case};
use super::redact::{redact_case, write_table};
use super::{CommandOutput, UsageError};
use crate::cli::{Capture, CaseScheduler};
use crate::exit::ExitStatus;

/// Writes a case file; redacted, unless told otherwise.
pub fn run_capture_command(args: &Capture) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let Some(path) = args.output.as_ref().filter(|_| !args.print_rbac) else {
        output.print_result(&serde_yaml::to_string(&cluster_role(args.duration.is_some()))?);
        return Ok(ExitStatus::Passed);
    };
    for file in args.table.iter().chain([path]) {
        create_folder_of(file)?;
    }
    let mut case = if args.from.is_empty() {
        capture_cluster(args)?
    } else {
        load_files(&args.from, args.max_size, &mut output)?
    };
    if !args.no_redact {
        let redacted = redact_case(&case)?;
        if let Some(table) = &args.table {
            write_table(table, &redacted.table)?;
        }
        case = redacted.case;
    }
    write_case(&case, path)?;
    output.print_note(&summary(&case, &path.display().to_string()));
    Ok(ExitStatus::Passed)
}

fn summary(case: &Case, path: &str) -> String {
    let names =
        if case.manifest.redacted { "names replaced" } else { "with all names: do not publish it" };
    let changes = match case.changes.len() {
        0 if case.manifest.recorded_from.is_empty() => String::new(),
        count => format!(", {}", counted_noun(count, "change")),
    };
    let events = counted_noun(case.events.len(), "event");
    format!("{path}: {}, {events}{changes} ({names})", counts_text(case))
}

fn capture_cluster(args: &Capture) -> anyhow::Result<Case> {
    let duration = args.duration.unwrap_or_default();
    capture_for_duration(args.kubeconfig.as_deref(), &args.scheduler, duration)
}

/// Reads the cluster of a kubeconfig as it is now.
pub(super) fn capture_live(
    kubeconfig: Option<&Path>,
    scheduler: &CaseScheduler,
) -> anyhow::Result<Case> {
    capture_for_duration(kubeconfig, scheduler, Duration::ZERO)
}

fn capture_for_duration(
    kubeconfig: Option<&Path>,
    scheduler: &CaseScheduler,
    duration: Duration,
) -> anyhow::Result<Case> {
    let source = ConfigSource::read(scheduler.config.as_deref())
        .map_err(|error| UsageError(error.to_string()))?;
    let mut config = Config::kai();
    source
        .apply(&mut config, |file| file.trace_decisions = None)
        .map_err(|error| UsageError(error.to_string()))?;
    if let Some(name) = &scheduler.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    let clock = Clock::real();
    let now = move || clock.now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(async {
        let client = kube_client(kubeconfig).await?;
        capture_for(client, config, duration, &now).await
    })
}
