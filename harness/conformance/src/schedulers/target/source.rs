//! How the scheduler of a target file is started: the file's own programs, or what `--scheduler`
//! says.

use anyhow::anyhow;
use schedlab_clusters::external_tools::check_command_starts_with_program;
use schedlab_clusters::scheduler_source::SchedulerSource;

use super::{
    PLACEHOLDERS, PROGRAM_PLACEHOLDER, TargetFile, TargetProgram, check_placeholders,
    find_built_in_target, programs::check_programs,
};

/// Where the scheduler of a target file comes from, if `requested` is what `--scheduler` says.
pub(super) fn resolve_source(
    location: &str,
    file: &TargetFile,
    requested: &SchedulerSource,
) -> anyhow::Result<SchedulerSource> {
    anyhow::ensure!(
        file.command.is_none() || file.programs.is_empty(),
        "{location}: got command and programs, expected one of them"
    );
    check_programs(location, &file.programs)?;
    let first_command = file.programs.first().map(|program| &program.command);
    let source = match (requested, file.command.as_ref().or(first_command)) {
        // A built-in target is named after its program.
        (SchedulerSource::Ours, Some(command)) if find_built_in_target(&file.name).is_some() => {
            SchedulerSource::Process(command.replacen(PROGRAM_PLACEHOLDER, &file.name, 1))
        }
        (SchedulerSource::Ours, Some(command)) => {
            anyhow::ensure!(
                !command.contains(PROGRAM_PLACEHOLDER),
                "{location}: command: {PROGRAM_PLACEHOLDER} needs --scheduler process:PROGRAM"
            );
            SchedulerSource::Process(command.clone())
        }
        (SchedulerSource::Process(command), Some(rest))
            if !command.contains(' ') && file.programs.is_empty() =>
        {
            // Only the program is given: the target file contains its arguments.
            SchedulerSource::Process(rest.replacen(PROGRAM_PLACEHOLDER, command, 1))
        }
        // An installed scheduler is selected by its own name or by the name of its target.
        (SchedulerSource::Installed(name), _) if *name == file.name => {
            SchedulerSource::Installed(file.scheduler_name.clone().unwrap_or(file.name.clone()))
        }
        (which, _) => which.clone(),
    };
    if let SchedulerSource::Process(command) = &source {
        check_command_starts_with_program(command)
            .and_then(|()| check_placeholders(command, &PLACEHOLDERS))
            .map_err(|problem| anyhow!("{location}: command: {problem}"))?;
    }
    Ok(source)
}

/// The programs that schedlab starts for a target: those of its file, unless `--scheduler` names
/// another command.
pub(super) fn programs(
    file: &TargetFile,
    requested: &SchedulerSource,
    source: &SchedulerSource,
) -> Vec<TargetProgram> {
    match (requested, source) {
        (SchedulerSource::Ours, SchedulerSource::Process(_)) if !file.programs.is_empty() => {
            file.programs.clone()
        }
        (_, SchedulerSource::Process(command)) => {
            vec![TargetProgram::of_command(&file.name, command)]
        }
        (
            _,
            SchedulerSource::Ours
            | SchedulerSource::NoScheduler
            | SchedulerSource::Installed(_)
            | SchedulerSource::Deployment(_),
        ) => Vec::new(),
    }
}
