//! `schedlab ui`: a page in the browser until Ctrl-C. It shows an emulated cluster, or the report of
//! a run that was recorded before or is made now.

use std::path::Path;

use anyhow::Context as _;
use clap::Parser as _;
use schedlab_api::Value;
use schedlab_clusters::interrupt::{Interrupt, StopSignals};
use schedlab_conformance::features::{self, SelectedCases};
use schedlab_conformance::report::Report;
use schedlab_conformance::text::read_text_file;
use schedlab_conformance::world::manifest_objects;
use schedlab_emulator::Fleet;
use schedlab_ui::report_server::ReportServer;
use schedlab_ui::server::PageServer;
use schedlab_ui::session::{Session, SessionOptions};
use schedlab_view::report::{TimelineCollector, html_report};

use super::up::{DEFAULT_MAX_MIB, load_fleet};
use super::{CommandOutput, UsageError, case_input, check, run, run_files};
use crate::cli::{Cli, Command, Ui};
use crate::exit::ExitStatus;

/// The queues without `--apply`: half of the default fleet for each of two teams.
const DEFAULT_QUEUES: &str = "\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: company}
spec: {resources: {gpu: {quota: 32, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec: {parentQueue: company, resources: {gpu: {quota: 16, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-b}
spec: {parentQueue: company, resources: {gpu: {quota: 16, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
";

/// What the page shows.
enum Shown {
    /// An emulated cluster on a clock that can be stopped.
    Cluster(SessionOptions),
    /// The report of a run.
    Report(String),
}

/// Serves the page until Ctrl-C.
pub fn run_ui_command(args: &Ui) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let shown = shown(args, &mut output)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(async {
        match shown {
            Shown::Cluster(options) => serve_cluster(args.port, options, &mut output).await,
            Shown::Report(html) => serve_report(args.port, html, &mut output).await,
        }
    })
}

fn shown(args: &Ui, output: &mut CommandOutput) -> anyhow::Result<Shown> {
    let Some(first) = args.what.first() else {
        return Ok(Shown::Cluster(SessionOptions {
            fleet: load_fleet(args.fleet.as_deref())?,
            objects: initial_objects(args)?,
            seed: args.seed,
        }));
    };
    if is_run(first, &args.results) {
        let run = run_files::read_run(&first.display().to_string(), &args.results)?;
        if run.timelines.is_empty() {
            output.print_note("the run recorded no writes: run it with --reporter html=FILE");
        }
        return Ok(Shown::Report(html_report(&run.report, &run.timelines)?));
    }
    let is_feature = first.extension().is_some_and(|extension| extension == "feature");
    if first.is_file() && !is_feature {
        let case = case_input::load_files(&args.what, DEFAULT_MAX_MIB, output)?;
        return Ok(Shown::Cluster(SessionOptions {
            fleet: Fleet::default(),
            objects: case.objects_to_create("kai-scheduler"),
            seed: args.seed,
        }));
    }
    Ok(Shown::Report(record_features(args, output)?))
}

/// Whether a path is the results folder of a run, its name there, or its report file.
fn is_run(path: &Path, results: &Path) -> bool {
    let is_folder = |folder: &Path| folder.join("report.json").is_file();
    is_folder(path) || is_folder(&results.join(path)) || path.ends_with("report.json")
}

/// Runs scenarios on the emulator and returns the report with their timelines.
fn record_features(args: &Ui, output: &mut CommandOutput) -> anyhow::Result<String> {
    let seed = args.seed.to_string();
    let words = ["schedlab", "run", "--seed", &seed].map(Into::into);
    let paths = args.what.iter().map(|path| path.clone().into_os_string());
    let Command::Run(mut run_args) = Cli::try_parse_from(words.into_iter().chain(paths))?.command
    else {
        anyhow::bail!("`schedlab run` is another command");
    };
    // The page shows the results.
    run_args.reporter.clear();
    let query = check::case_query(&run_args.selection, &args.results)?;
    let suite = check::load_suite(&query.paths)?;
    let SelectedCases { cases, .. } = features::select_cases(&suite.cases, &query);
    if cases.is_empty() {
        return Err(check::nothing_selected(&suite, &query).into());
    }
    let collector = TimelineCollector::default();
    let mut settings = run::run_settings(&run_args, output.ci)?;
    settings.interrupted = Interrupt::listen()?;
    settings.recorder = Some(collector.recorder());
    let cases = run::run_cases(&cases, &run_args, &settings, output);
    let report = Report { seed: args.seed, cases, ..Report::default() };
    Ok(html_report(&report, &collector.timelines())?)
}

fn initial_objects(args: &Ui) -> anyhow::Result<Vec<Value>> {
    if args.apply.is_empty() {
        return Ok(manifest_objects("the default queues", DEFAULT_QUEUES).map_err(UsageError)?);
    }
    let mut objects = Vec::new();
    for path in &args.apply {
        let file = path.display().to_string();
        let text = read_text_file(path)
            .map_err(|unreadable| UsageError(unreadable.message_with_file(&file)))?;
        objects.extend(manifest_objects(&file, &text).map_err(UsageError)?);
    }
    Ok(objects)
}

async fn serve_cluster(
    port: u16,
    options: SessionOptions,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let mut signals = StopSignals::listen()?;
    let session =
        Session::start(options).await.map_err(|error| UsageError(format!("{error:#}")))?;
    let server = PageServer::bind(session, port).await?;
    output.print_result(&format!("{}\n", server.url()?));
    output.print_note("open this link in a browser; Ctrl-C ends the cluster");
    tokio::select! {
        ended = server.serve() => ended.map(|()| ExitStatus::Passed),
        () = signals.wait_for_signal() => Ok(ExitStatus::Passed),
    }
}

async fn serve_report(
    port: u16,
    html: String,
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let mut signals = StopSignals::listen()?;
    let server = ReportServer::bind(html, port).await?;
    output.print_result(&format!("{}\n", server.url()?));
    output.print_note("open this link in a browser; Ctrl-C ends it");
    tokio::select! {
        ended = server.serve() => ended.map(|()| ExitStatus::Passed),
        () = signals.wait_for_signal() => Ok(ExitStatus::Passed),
    }
}
