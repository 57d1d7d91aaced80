//! `schedlab completions` and `schedlab man`: files that an installation adds to the program.

use std::path::Path;

use anyhow::Context as _;
use clap::Command;

use super::CommandOutput;
use crate::cli::{self, Completions, Man};
use crate::exit::ExitStatus;

/// Prints the completions for a shell.
pub(super) fn run_completions_command(args: &Completions) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "schedlab", &mut script);
    let script = String::from_utf8(script).context("the completions are UTF-8")?;
    CommandOutput::for_this_process().print_result(&script);
    Ok(ExitStatus::Passed)
}

/// Writes the manual pages into a folder, or prints the page of the program.
pub(super) fn run_man_command(args: &Man) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let mut command = cli::command();
    command.build();
    let Some(folder) = &args.folder else {
        let page = manual_page(command)?;
        output.print_result(&String::from_utf8(page).context("the page is UTF-8")?);
        return Ok(ExitStatus::Passed);
    };
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let count = write_manual_pages(command, "schedlab", folder)?;
    output.print_progress(&format!("{count} pages in {}", folder.display()));
    Ok(ExitStatus::Passed)
}

/// Writes the page of a command and those of its subcommands: `schedlab.1`, `schedlab-run.1`.
/// Returns their number.
fn write_manual_pages(command: Command, name: &str, folder: &Path) -> anyhow::Result<usize> {
    let mut count = 1;
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in shown.filter(|verb| verb.get_name() != "help") {
        let name = format!("{name}-{}", verb.get_name());
        count += write_manual_pages(verb.clone(), &name, folder)?;
    }
    let file = folder.join(format!("{name}.1"));
    let page = manual_page(command.name(name.to_owned()))?;
    std::fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(count)
}

fn manual_page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    // Without a date the page is the same in every build of a version.
    let manual = clap_mangen::Man::new(command).date("");
    manual.render(&mut page).context("cannot write a manual page")?;
    Ok(page)
}
