//! `schedlab trace import`.

use jiff::Timestamp;
use schedlab_apps::prometheus::{PrometheusSource, read_prometheus};
use schedlab_casefiles::Case;
use schedlab_casefiles::change::ChangeEvent;
use schedlab_emulator::clock::Clock;
use schedlab_traces::edit;
use schedlab_traces::objects::RecordedPods;
use schedlab_traces::pods::{PodRecord, PodSelection, jobs_from_pods};

use super::{CommandOutput, UsageError, print_notes, read, write, write_queue_file};
use crate::cli::{RecordedObjects, RecordedSeries, TraceImport};
use crate::commands::case_input::load_records;
use crate::exit::ExitStatus;

/// Maximum size of a file of Kubernetes objects, in MiB.
const MAX_SIZE_MIB: u64 = 4096;
/// Answers of Prometheus between two lines of progress.
const PROGRESS_PERIOD: u64 = 50;

pub(super) fn run(args: &TraceImport, output: &mut CommandOutput) -> anyhow::Result<ExitStatus> {
    if let Some(url) = &args.series.prometheus {
        let pods = prometheus_pods(&args.series, url, output)?;
        return write_pods(pods, args, output);
    }
    if !args.objects.kubectl.is_empty() || !args.objects.case.is_empty() {
        let pods = kubernetes_pods(args, output)?;
        return write_pods(pods, args, output);
    }
    let mut traces = Vec::new();
    for file in &args.files {
        traces.push(read(file, &args.input)?);
    }
    let Some(only) = traces.pop() else {
        let allowed = "files of jobs, --prometheus, --kubectl or --case";
        anyhow::bail!(UsageError(format!("trace import: got nothing to read, expected {allowed}")));
    };
    let trace = if traces.is_empty() {
        only
    } else {
        traces.push(only);
        edit::merge(traces)
    };
    print_notes(&trace.notes, output);
    write(&trace, args.output.file(), output)
}

fn write_pods(
    pods: Vec<PodRecord>,
    args: &TraceImport,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let selection = if args.all_pods { PodSelection::All } else { PodSelection::GpuOrQueue };
    let trace = jobs_from_pods(pods, selection);
    print_notes(&trace.notes, output);
    if trace.jobs.is_empty() {
        let found = "no pod with a creation time, and with a GPU or a queue";
        anyhow::bail!(UsageError(format!("trace import: got {found}, expected at least one")));
    }
    write(&trace, args.output.file(), output)
}

fn prometheus_pods(
    args: &RecordedSeries,
    url: &str,
    output: &mut CommandOutput,
) -> anyhow::Result<Vec<PodRecord>> {
    let now = || Timestamp::from_second(Clock::real().now().as_second());
    let source = PrometheusSource {
        url: url.to_owned(),
        token_file: args.token_file.clone(),
        accept_invalid_certificate: args.insecure,
        until: args.until.map_or_else(now, Ok)?,
        since: args.since,
        step: args.step,
        matchers: args.matchers.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let read = runtime.block_on(read_prometheus(&source, |at| {
        if at.answered % PROGRESS_PERIOD == 0 {
            let text = format!("{} of {} queries, {} pods", at.answered, at.queries, at.pods);
            output.print_progress(&text);
        }
    }));
    let record = read.map_err(|error| UsageError(format!("{error:#}")))?;
    if let Some(path) = &args.queues_output {
        if record.queues.is_empty() {
            output.print_note("note: Prometheus has no kai_queue_deserved_gpus, so no queues");
        }
        write_queue_file(&record.queues, Some(path))?;
    }
    Ok(record.pods)
}

fn kubernetes_pods(
    args: &TraceImport,
    output: &mut CommandOutput,
) -> anyhow::Result<Vec<PodRecord>> {
    let RecordedObjects { kubectl, events, case } = &args.objects;
    let files = [kubectl.as_slice(), case, events].concat();
    let case = load_records(&files, MAX_SIZE_MIB, output)?;
    let recorded = recorded_pods(&case).finish();
    if recorded.known_by_events_only > 0 {
        let count = recorded.known_by_events_only;
        let why = "known by events only, which do not tell requests";
        output.print_note(&format!("note: pods skipped: {count}, {why}"));
    }
    Ok(recorded.pods)
}

/// What a case knows about the times of its pods.
fn recorded_pods(case: &Case) -> RecordedPods {
    let mut pods = RecordedPods::default();
    case.objects("pods").for_each(|pod| pods.add_pod(pod));
    for change in case.changes.iter().filter(|change| change.array == "pods") {
        match change.event {
            ChangeEvent::Removed => pods.end_pod(&change.object, &change.at),
            ChangeEvent::Created
            | ChangeEvent::Evicted
            | ChangeEvent::Deleted
            | ChangeEvent::Bound
            | ChangeEvent::Started
            | ChangeEvent::Succeeded
            | ChangeEvent::Failed
            | ChangeEvent::Changed => pods.add_pod(&change.object),
        }
    }
    case.events.iter().for_each(|event| pods.add_event(event));
    pods
}
