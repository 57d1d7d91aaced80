//! `schedlab whatif`: what a change of a cluster would do.

use std::fs;
use std::path::Path;

use schedlab_api::Value;
use schedlab_apps::whatif::{Changes, Options, QueueChange, QueueField, WhatIfError, what_if};
use schedlab_casefiles::Case;
use serde::Deserialize as _;

use super::capture::capture_live;
use super::case_input::{case_error, limited_overrides, load_files};
use super::{CommandOutput, UsageError};
use crate::cli::{Format, WhatIf};
use crate::exit::ExitStatus;

/// Answers what would happen if the cluster were changed.
pub(super) fn run_whatif_command(args: &WhatIf) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let changes = changes(args)?;
    if changes.is_empty() {
        let message = "got no change, expected --submit, --nodes, --remove-nodes, --quota, --weight, \
                       --limit or --priority";
        return Err(UsageError(message.to_owned()).into());
    }
    let options = Options {
        horizon: args.horizon,
        cycles_max: args.cycles,
        overrides: limited_overrides(&args.scheduler, args.search.simulations)?,
    };
    let case = if args.files.is_empty() {
        capture_live(args.kubeconfig.as_deref(), &args.scheduler)?
    } else {
        load_files(&args.files, args.max_size, &mut output)?
    };
    if case.object_count() == 0 {
        return Err(UsageError("got a case without objects, expected a cluster".to_owned()).into());
    }
    let answer = answer(args, &case, &changes, &options)?;
    output.print_result(&match args.output {
        Format::Text => answer.to_string(),
        Format::Json => serde_json::to_string_pretty(&answer)? + "\n",
    });
    Ok(ExitStatus::Passed)
}

fn answer(
    args: &WhatIf,
    case: &Case,
    changes: &Changes,
    options: &Options,
) -> anyhow::Result<schedlab_apps::whatif::Answer> {
    match what_if(case, changes, options) {
        Ok(answer) => Ok(answer),
        Err(WhatIfError::Change(error)) => Err(UsageError(error.to_string()).into()),
        Err(WhatIfError::Case(error)) => Err(case_error(&args.files, &error).into()),
        Err(WhatIfError::Submitted(error)) => Err(error),
    }
}

fn changes(args: &WhatIf) -> anyhow::Result<Changes> {
    let of_field = |field: QueueField, all: &[schedlab_apps::whatif::NamedAmount]| {
        all.iter().map(|to| QueueChange { field, to: to.clone() }).collect::<Vec<_>>()
    };
    let mut submitted = Vec::new();
    for file in &args.submit {
        submitted.extend(manifests(file)?);
    }
    let queues = [
        of_field(QueueField::Quota, &args.quota),
        of_field(QueueField::Weight, &args.weight),
        of_field(QueueField::Limit, &args.limit),
    ];
    Ok(Changes {
        submitted,
        new_nodes: args.nodes.clone(),
        removed_nodes: args.remove_nodes.clone(),
        queues: queues.concat(),
        priorities: args.priority.clone(),
    })
}

/// The objects of a file in YAML or JSON: several documents, and lists.
fn manifests(file: &Path) -> anyhow::Result<Vec<Value>> {
    let name = file.display();
    let usage = |what: String| UsageError(format!("--submit: {name}: {what}"));
    let text =
        fs::read_to_string(file).map_err(|error| usage(format!("cannot read it: {error}")))?;
    let mut objects = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let object = Value::deserialize(document).map_err(|error| usage(error.to_string()))?;
        match object.get("items").and_then(Value::as_array) {
            Some(items) => objects.extend(items.iter().cloned()),
            None if object.is_null() => {}
            None => objects.push(object),
        }
    }
    match objects.iter().find(|object| object.get("kind").and_then(Value::as_str).is_none()) {
        Some(_) => Err(usage("got an object without kind, expected manifests".to_owned()).into()),
        None if objects.is_empty() => {
            Err(usage("got no object, expected manifests".to_owned()).into())
        }
        None => Ok(objects),
    }
}
