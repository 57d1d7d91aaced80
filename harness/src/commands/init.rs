//! `schedlab init`: writes a project of one's own.

use std::path::Path;

use anyhow::Context as _;

use super::{CommandOutput, UsageError};
use crate::cli::Init;
use crate::cli::settings::{SETTINGS_FILE, settings_schema};
use crate::exit::ExitStatus;

/// A file of a new project.
struct ProjectFile {
    path: &'static str,
    content: &'static str,
}

const FILES: [ProjectFile; 3] = [
    ProjectFile { path: SETTINGS_FILE, content: include_str!("init/schedlab.toml") },
    ProjectFile { path: "features/first.feature", content: include_str!("init/first.feature") },
    ProjectFile {
        path: ".github/workflows/schedlab.yml",
        content: include_str!("init/workflow.yml"),
    },
];

/// The scheduler of the documentation, for `--with-scheduler`.
const SCHEDULER_FILES: [ProjectFile; 2] = [
    ProjectFile {
        path: "scheduler.py",
        content: include_str!("../../examples/python-scheduler/scheduler.py"),
    },
    ProjectFile { path: "target.yaml", content: include_str!("init/target.yaml") },
];

/// The file with what git ignores; a repository often has one already, which is kept.
const IGNORE: ProjectFile = ProjectFile { path: ".gitignore", content: IGNORED };

const IGNORED: &str = "/results/\n*.snap.new\n";

/// Writes the files of a project. If one of them exists, nothing is written.
pub(super) fn run_init_command(args: &Init) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    if args.schema {
        output.print_result(&(serde_json::to_string_pretty(&settings_schema())? + "\n"));
        return Ok(ExitStatus::Passed);
    }
    let folder = &args.folder;
    let scheduler_files = if args.with_scheduler { &SCHEDULER_FILES[..] } else { &[] };
    let files = FILES.iter().chain(scheduler_files);
    if let Some(taken) = files.clone().find(|file| folder.join(file.path).exists()) {
        let path = folder.join(taken.path);
        return Err(UsageError(format!(
            "{} exists: `schedlab init` overwrites nothing; remove it, or name another folder",
            path.strip_prefix(".").unwrap_or(&path).display()
        ))
        .into());
    }
    for file in files {
        write_new_file(folder, file, &mut output)?;
    }
    if folder.join(IGNORE.path).exists() {
        let lines = IGNORED.lines().collect::<Vec<_>>().join(" and ");
        output.print_progress(&format!("kept {}; lines for it: {lines}", IGNORE.path));
    } else {
        write_new_file(folder, &IGNORE, &mut output)?;
    }
    let change = if folder == Path::new(".") {
        String::new()
    } else {
        let word = schedlab_conformance::text::shell_quoted_word(&folder.display().to_string());
        format!("cd {word} && ")
    };
    let conform = "schedlab conform --target target.yaml";
    let next = if args.with_scheduler { conform } else { "schedlab run" };
    output.print_progress(&format!("next: {change}{next}"));
    Ok(ExitStatus::Passed)
}

fn write_new_file(
    folder: &Path,
    file: &ProjectFile,
    output: &mut CommandOutput,
) -> anyhow::Result<()> {
    let path = folder.join(file.path);
    let parent = path.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent)
        .with_context(|| format!("cannot create {}", parent.display()))?;
    std::fs::write(&path, file.content)
        .with_context(|| format!("cannot write {}", path.display()))?;
    output.print_progress(&format!("wrote {}", file.path));
    Ok(())
}
