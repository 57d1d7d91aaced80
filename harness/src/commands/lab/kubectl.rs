//! `schedlab lab kubectl` and `schedlab lab apply`: for learners without kubectl.

use schedlab_clusters::{api::Api, block_on};
use schedlab_conformance::text::read_text_file;
use schedlab_lab::commands::{CommandRunner, LabCommand, parse_command};
use schedlab_lab::folder::LabFolder;

use super::super::{CommandOutput, UsageError};
use super::queries::{QueriedObjects, Query};
use super::running_lesson;
use crate::cli::{LabApply, LabFolderArgs, LabKubectl};
use crate::exit::ExitStatus;

pub(super) fn apply_files(args: &LabApply) -> anyhow::Result<ExitStatus> {
    run_command(&args.folder, &LabCommand::Apply { files: args.files.clone() })
}

pub(super) fn run_kubectl_words(args: &LabKubectl) -> anyhow::Result<ExitStatus> {
    if let [verb, rest @ ..] = args.words.as_slice()
        && (verb == "get" || verb == "describe")
    {
        let query = Query::parse(verb, rest).map_err(UsageError)?;
        return show(&args.folder, &query);
    }
    let words: Vec<String> =
        std::iter::once("kubectl".to_owned()).chain(args.words.iter().cloned()).collect();
    let command = parse_command(&words).map_err(UsageError)?;
    if command == LabCommand::Show {
        let message = format!("got {}, expected kubectl get or kubectl describe", words.join(" "));
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

fn show(folder: &LabFolderArgs, query: &Query) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let text = block_on(async {
        let (api, namespace) = connect(folder).await?;
        QueriedObjects { api: &api, namespace: &namespace }.show(query).await
    })?;
    output.print_result(&text);
    Ok(ExitStatus::Passed)
}
