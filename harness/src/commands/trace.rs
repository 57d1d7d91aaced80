//! `schedlab trace`: imports, describes, generates, cuts, merges and scales traces of jobs.

mod import;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schedlab_apps::simulate::read_fleet;
use schedlab_conformance::text::{counted_noun, did_you_mean_suffix};
use schedlab_traces::edit::{self, Cut, Scale};
use schedlab_traces::generate::TraceModel;
use schedlab_traces::stats::TraceStats;
use schedlab_traces::{
    JobTrace, ReadOptions, TraceNode, TraceQueue, queues_of, read_jobs, unknown_models_note,
    write_jobs, write_queues,
};

use super::{CommandOutput, UsageError};
use crate::cli::{self, TraceInput, TraceTime, TraceVerb};
use crate::exit::ExitStatus;

/// Runs a verb.
pub fn run_trace_command(verb: &TraceVerb) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    match verb {
        TraceVerb::Import(args) => import::run(args, &mut output),
        TraceVerb::Stats(args) => print_stats(args, &mut output),
        TraceVerb::Generate(args) => {
            let like = load(&args.like, &args.input, &mut output)?;
            let model = TraceModel::fit(&like)
                .map_err(|error| UsageError(format!("{}: {error}", args.like.display())))?;
            write(&model.generate(args.days, args.seed), args.output.file(), &mut output)
        }
        TraceVerb::Cut(args) => {
            let mut trace = load(&args.file, &args.input, &mut output)?;
            cut(&mut trace, args)?;
            write(&trace, args.output.file(), &mut output)
        }
        TraceVerb::Merge(args) => {
            let read = |file: &PathBuf| read(file, &args.input);
            let traces: anyhow::Result<Vec<JobTrace>> = args.files.iter().map(read).collect();
            let merged = edit::merge(traces?);
            print_notes(&merged.notes, &mut output);
            write(&merged, args.output.file(), &mut output)
        }
        TraceVerb::Scale(args) => scale(args, &mut output),
        TraceVerb::Queues(args) => {
            let trace = load(&args.file, &args.input, &mut output)?;
            let fleet = args.fleet.as_deref().map(fleet).transpose()?;
            let queues = queues_of(&trace, fleet.as_deref());
            write_queue_file(&queues, args.output.file())?;
            Ok(ExitStatus::Passed)
        }
    }
}

fn read(file: &Path, input: &TraceInput) -> anyhow::Result<JobTrace> {
    let TraceInput { format, queue_by, skip_invalid } = *input;
    let options = ReadOptions { format, queue_by, skip_invalid };
    Ok(read_jobs(file, &options).map_err(|error| UsageError(error.to_string()))?)
}

/// Reads a trace, in the order of arrivals, and prints what its reader skipped.
fn load(file: &Path, input: &TraceInput, output: &mut CommandOutput) -> anyhow::Result<JobTrace> {
    let mut trace = read(file, input)?;
    print_notes(&trace.notes, output);
    trace.sort_by_arrival();
    Ok(trace)
}

fn print_notes(notes: &[String], output: &mut CommandOutput) {
    for note in notes {
        output.print_note(&format!("note: {note}"));
    }
}

fn fleet(path: &Path) -> anyhow::Result<Vec<TraceNode>> {
    Ok(read_fleet(path).map_err(|error| UsageError(error.to_string()))?)
}

fn print_stats(args: &cli::TraceStats, output: &mut CommandOutput) -> anyhow::Result<ExitStatus> {
    let trace = load(&args.file, &args.input, output)?;
    let nodes = args.fleet.as_deref().map(fleet).transpose()?;
    if let Some(nodes) = &nodes {
        let known: Vec<&str> = nodes.iter().map(|node| node.model.as_str()).collect();
        let note = unknown_models_note(&trace.unknown_models(&known));
        print_notes(note.as_slice(), output);
    }
    let stats = TraceStats::new(&trace, nodes.as_deref());
    if args.json {
        output.print_result(&format!("{}\n", serde_json::to_string_pretty(&stats)?));
    } else {
        output.print_result(&stats.to_table());
    }
    Ok(ExitStatus::Passed)
}

/// Checks that jobs name each of the queues.
fn check_queues_to_cut(trace: &JobTrace, queues: &[String]) -> anyhow::Result<()> {
    let known: BTreeSet<&str> = trace.jobs.iter().map(|job| job.queue.as_str()).collect();
    let Some(unknown) = queues.iter().find(|queue| !known.contains(queue.as_str())) else {
        return Ok(());
    };
    let near = did_you_mean_suffix(unknown, known.iter().copied());
    let known: Vec<&str> = known.into_iter().filter(|queue| !queue.is_empty()).collect();
    let message = match known.as_slice() {
        [] => format!("--queue: got {unknown}, and no job of the trace names a queue"),
        known => format!("--queue: got {unknown}, expected one of {}{near}", known.join(", ")),
    };
    Err(UsageError(message).into())
}

fn cut(trace: &mut JobTrace, args: &cli::TraceCut) -> anyhow::Result<()> {
    let start = trace.start;
    let seconds = |option: &str, time: TraceTime| match (time, start) {
        (TraceTime::AfterStart(after), _) => Ok(after.as_secs_f64()),
        (TraceTime::At(at), Some(start)) => Ok((at - start).total(jiff::Unit::Second)?),
        (TraceTime::At(at), None) => {
            let allowed = "a time from the start such as 2d, as the trace has no dates";
            Err(UsageError(format!("--{option}: got {at}, expected {allowed}")).into())
        }
    };
    let at = |option: &str, time: Option<TraceTime>| -> anyhow::Result<Option<f64>> {
        time.map(|time| seconds(option, time)).transpose()
    };
    let (from_secs, to_secs) = (at("from", args.from)?, at("to", args.to)?);
    check_queues_to_cut(trace, &args.queue)?;
    Cut { from_secs, to_secs, queues: args.queue.clone() }.apply(trace);
    if trace.jobs.is_empty() {
        let found = "no job in that time and these queues";
        anyhow::bail!(UsageError(format!("{}: got {found}, expected one", args.file.display())));
    }
    Ok(())
}

fn scale(args: &cli::TraceScale, output: &mut CommandOutput) -> anyhow::Result<ExitStatus> {
    let mut trace = load(&args.file, &args.input, output)?;
    let scale = match (args.jobs, args.load) {
        (Some(jobs), _) => Scale::Jobs(jobs),
        (None, factor) => {
            let factor = factor.unwrap_or(1.0);
            let of_fleet = args.fleet.as_deref().map(fleet).transpose()?;
            let Some(nodes) = of_fleet else {
                return scale_to(&mut trace, Scale::Load(factor), args, output);
            };
            let load = TraceStats::new(&trace, Some(&nodes)).load.and_then(|load| load.percent);
            let Some(percent) = load.filter(|percent| *percent > 0.0) else {
                let found = "a trace or a fleet without GPU hours";
                anyhow::bail!(UsageError(format!("--fleet: got {found}, expected GPU hours")));
            };
            Scale::Load(factor * 100.0 / percent)
        }
    };
    scale_to(&mut trace, scale, args, output)
}

fn scale_to(
    trace: &mut JobTrace,
    scale: Scale,
    args: &cli::TraceScale,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    edit::scale(trace, scale, args.seed);
    write(trace, args.output.file(), output)
}

/// Writes a trace to a file or to standard output.
fn write(
    trace: &JobTrace,
    path: Option<&Path>,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let Some(path) = path else {
        // A closed pipe (`schedlab trace cut … | head`) is not an error.
        let _ = write_jobs(&mut BufWriter::new(io::stdout().lock()), trace);
        return Ok(ExitStatus::Passed);
    };
    let shown = path.display();
    let file = create(path)?;
    write_jobs(&mut BufWriter::new(file), trace)
        .with_context(|| format!("cannot write {shown}"))?;
    output.print_progress(&format!("{shown}: {}", counted_noun(trace.jobs.len(), "job")));
    Ok(ExitStatus::Passed)
}

fn write_queue_file(queues: &[TraceQueue], path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else {
        let _ = write_queues(&mut io::stdout().lock(), queues);
        return Ok(());
    };
    let shown = path.display();
    let mut file = BufWriter::new(create(path)?);
    write_queues(&mut file, queues).with_context(|| format!("cannot write {shown}"))
}

fn create(path: &Path) -> anyhow::Result<File> {
    let failed = |error| UsageError(format!("{}: cannot write: {error}", path.display()));
    Ok(File::create(path).map_err(failed)?)
}
