//! `schedlab lab kubectl` and `schedlab lab apply`: for learners without kubectl.

use anyhow::{Context as _, anyhow};
use http::Request;
use schedlab_api::Value;
use schedlab_clusters::api::Api;
use schedlab_conformance::text::read_text_file;
use schedlab_lab::commands::{CommandRunner, LabCommand, collection_path, parse_command};
use schedlab_lab::folder::LabFolder;

use super::super::{CommandOutput, UsageError};
use super::running_lesson;
use crate::cli::{LabApply, LabFolderArgs, LabKubectl};
use crate::exit::ExitStatus;

/// Asks the API server for the rows of `kubectl get`.
const TABLE_TYPE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub(super) fn apply_files(args: &LabApply) -> anyhow::Result<ExitStatus> {
    run_command(&args.folder, &LabCommand::Apply { files: args.files.clone() })
}

pub(super) fn run_kubectl_words(args: &LabKubectl) -> anyhow::Result<ExitStatus> {
    if let [verb, kind, names @ ..] = args.words.as_slice()
        && verb == "get"
    {
        let name = names.iter().find(|word| !word.starts_with('-'));
        return print_table(&args.folder, kind, name.map(String::as_str));
    }
    let words: Vec<String> =
        std::iter::once("kubectl".to_owned()).chain(args.words.iter().cloned()).collect();
    let command = parse_command(&words).map_err(UsageError)?;
    if command == LabCommand::Show {
        let message = format!("got {}, expected kubectl get KIND [NAME]", words.join(" "));
        return Err(UsageError(message).into());
    }
    run_command(&args.folder, &command)
}

/// A client of the cluster, and the namespace of the learner.
async fn connect(folder: &LabFolderArgs) -> anyhow::Result<(Api, String)> {
    let folder = LabFolder::find(folder.folder.as_deref());
    let connection = running_lesson(&folder)?;
    let client = schedlab_scheduler::cli::kube_client(Some(&folder.kubeconfig())).await?;
    Ok((Api::new(client), connection.namespace))
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work)
}

fn run_command(folder: &LabFolderArgs, command: &LabCommand) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let lines = block_on(async {
        let (mut api, namespace) = connect(folder).await?;
        let read_file = |name: &str| {
            let text = read_text_file(std::path::Path::new(name));
            text.map_err(|unreadable| UsageError(unreadable.message_with_file(name)).into())
        };
        let runner = CommandRunner { namespace: &namespace, read_file: &read_file };
        runner.run(&mut api, command).await
    })?;
    for line in lines {
        output.print_result(&format!("{line}\n"));
    }
    Ok(ExitStatus::Passed)
}

fn print_table(
    folder: &LabFolderArgs,
    kind: &str,
    name: Option<&str>,
) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let table = block_on(async {
        let (api, namespace) = connect(folder).await?;
        let path = collection_path(kind, &namespace).map_err(UsageError)?;
        let path = name.map_or(path.clone(), |name| format!("{path}/{name}"));
        let request = Request::get(path).header("accept", TABLE_TYPE).body(Vec::new())?;
        let table: Result<Value, _> = api.client().request(request).await;
        table.map_err(|error| anyhow!("{error}"))
    })?;
    output.print_result(&table_text(&table));
    Ok(ExitStatus::Passed)
}

/// The rows of a table, with the columns that `kubectl get` shows.
fn table_text(table: &Value) -> String {
    let columns = table["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown: Vec<usize> = (0..columns.len())
        .filter(|at| columns[*at]["priority"].as_i64().unwrap_or(0) == 0)
        .collect();
    let title = |at: &usize| columns[*at]["name"].as_str().unwrap_or_default().to_uppercase();
    let mut rows: Vec<Vec<String>> = vec![shown.iter().map(title).collect()];
    for row in table["rows"].as_array().into_iter().flatten() {
        let cell = |at: &usize| {
            let value = &row["cells"][*at];
            let text = value.as_str().map(str::to_owned);
            text.unwrap_or_else(|| if value.is_null() { String::new() } else { value.to_string() })
        };
        rows.push(shown.iter().map(cell).collect());
    }
    if rows.len() == 1 {
        return "No resources found.\n".to_owned();
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..shown.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    rows.iter().map(line).collect()
}
