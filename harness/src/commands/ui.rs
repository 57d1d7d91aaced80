//! `schedlab ui`: an emulated cluster as a page in the browser, until Ctrl-C.

use anyhow::Context as _;
use schedlab_api::Value;
use schedlab_clusters::interrupt::StopSignals;
use schedlab_conformance::text::read_text_file;
use schedlab_conformance::world::manifest_objects;
use schedlab_ui::server::PageServer;
use schedlab_ui::session::{Session, SessionOptions};

use super::up::load_fleet;
use super::{CommandOutput, UsageError};
use crate::cli::Ui;
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

/// Starts an emulated cluster and serves its page until Ctrl-C.
pub fn run_ui_command(args: &Ui) -> anyhow::Result<ExitStatus> {
    let options = SessionOptions {
        fleet: load_fleet(args.fleet.as_deref())?,
        objects: initial_objects(args)?,
        seed: args.seed,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(serve_page(args.port, options))
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

async fn serve_page(port: u16, options: SessionOptions) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
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
