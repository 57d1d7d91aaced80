//! `schedlab explain`: why workloads of a captured cluster are pending, offline.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context as _;
use schedlab_api::json;
use schedlab_conformance::text::counted_noun;
use schedlab_scheduler::explain::{ExplainedObject, OutputFormat, explain_captured};
use schedlab_scheduler::replay::{Replay, WaitingGroup};

use super::case_input::{
    NOTHING_READ, case_error, is_empty, limited_overrides, load_case, search_limit_note,
};
use super::{CommandOutput, UsageError};
use crate::cli::{Explain, Format};
use crate::exit::ExitStatus;

/// Explains one workload, one queue, or all that is pending.
pub fn run_explain_command(args: &Explain) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let overrides = limited_overrides(&args.scheduler, args.search.simulations)?;
    let case = load_case(&args.input, &mut output)?;
    let files = &args.input.files;
    let object = match (&args.workload, &args.queue) {
        (Some(workload), _) => {
            let (namespace, name) = workload.split_once('/').ok_or_else(|| {
                UsageError(format!("--workload: got {workload}, expected NAMESPACE/NAME"))
            })?;
            ExplainedObject::Workload { namespace, name }
        }
        (None, Some(queue)) => ExplainedObject::Queue(queue),
        (None, None) => {
            let replay = case.replay(&overrides, 1).map_err(|error| case_error(files, &error))?;
            if let Some(note) = search_limit_note(&replay, args.search.simulations) {
                output.print_note(&note);
            }
            output.print_result(&match args.format {
                Format::Text if is_empty(&case) => NOTHING_READ.to_owned(),
                Format::Text => overview_text(&replay),
                Format::Json => overview_json(&replay),
            });
            return Ok(ExitStatus::Passed);
        }
    };
    let form = match args.format {
        Format::Text => OutputFormat::Text,
        Format::Json => OutputFormat::Json,
    };
    let loaded = case.cluster.load(&overrides);
    let loaded = loaded.map_err(|error| case_error(files, &error.into()))?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().build().context("cannot start a runtime")?;
    let text = runtime.block_on(explain_captured(loaded, object, form));
    output.print_result(&text.map_err(|error| UsageError(format!("{error:#}")))?);
    Ok(ExitStatus::Passed)
}

/// Pending pod groups by queue and reason.
type PendingByReason<'r> = BTreeMap<(&'r str, &'r str), Vec<&'r WaitingGroup>>;

fn by_reason(replay: &Replay) -> PendingByReason<'_> {
    let mut all = PendingByReason::new();
    for group in &replay.waiting {
        let queue = group.queue.as_deref().unwrap_or("(none)");
        all.entry((queue, group.code)).or_default().push(group);
    }
    all
}

fn overview_text(replay: &Replay) -> String {
    let mut text = String::new();
    for ((queue, code), groups) in by_reason(replay) {
        let pods: usize = groups.iter().map(|group| group.pods).sum();
        let (counted, pods) = (counted_noun(groups.len(), "pod group"), counted_noun(pods, "pod"));
        let _ = writeln!(text, "queue {queue}: {code}: {counted}, {pods}");
        let names = groups.iter().map(|group| format!("{}/{}", group.namespace, group.name));
        let names: Vec<String> = names.take(5).collect();
        let more = if groups.len() > names.len() { ", …" } else { "" };
        let _ = writeln!(text, "  {}{more}", names.join(", "));
        let _ = writeln!(text, "  {}\n  remedy: {}", groups[0].message, groups[0].remedy);
    }
    if !replay.unschedulable.is_empty() {
        let _ = writeln!(text, "{}", counted_noun(replay.unschedulable.len(), "unschedulable pod"));
        for pod in replay.unschedulable.iter().take(20) {
            let _ = writeln!(text, "  {}: {}\n    remedy: {}", pod.pod, pod.message, pod.remedy);
        }
    }
    let decisions = replay.cycles.first().map_or(0, Vec::len);
    if text.is_empty() {
        text.push_str("nothing is pending\n");
    }
    if decisions > 0 {
        let _ = writeln!(text, "the next cycle makes {}", counted_noun(decisions, "decision"));
    }
    text
}

fn overview_json(replay: &Replay) -> String {
    let entries = by_reason(replay).into_iter().map(|((queue, code), groups)| {
        let names = groups.iter().map(|group| format!("{}/{}", group.namespace, group.name));
        json!({
            "queue": queue,
            "reason": code,
            "message": groups[0].message,
            "remedy": groups[0].remedy,
            "podGroups": names.collect::<Vec<_>>(),
            "pods": groups.iter().map(|group| group.pods).sum::<usize>(),
        })
    });
    let broken = replay
        .unschedulable
        .iter()
        .map(|pod| json!({ "pod": pod.pod, "message": pod.message, "remedy": pod.remedy }));
    let document = json!({
        "pending": entries.collect::<Vec<_>>(),
        "unschedulable": broken.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}
