//! `schedlab redact`: replaces the names of a case, translates them back, and proves that none is
//! left.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use schedlab_casefiles::Case;
use schedlab_casefiles::redact::{Redacted, RedactionTable, check_redaction, redact};

use super::case_input::{create_folder_of, expect_objects, load_files, write_case};
use super::up::write_private_file;
use super::{CommandOutput, UsageError};
use crate::cli::Redact;
use crate::exit::ExitStatus;

/// Redacts a case, checks a redaction, or translates a text back.
pub fn run_redact_command(args: &Redact) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    if let Some(table) = &args.reveal {
        return reveal(args, table, &mut output);
    }
    if args.files.is_empty() {
        return Err(UsageError("got no case, expected CASE".to_owned()).into());
    }
    let case = load_files(&args.files, args.max_size, &mut output)?;
    if !args.check.is_empty() {
        let original = load_files(&args.check, args.max_size, &mut output)?;
        expect_objects(&case, &args.files)?;
        expect_objects(&original, &args.check)?;
        let check = check_redaction(&original, &case);
        output.print_result(&format!("{check}\n"));
        let is_clean = check.left.is_empty();
        return Ok(if is_clean { ExitStatus::Passed } else { ExitStatus::Failed });
    }
    let path = args.output.as_ref();
    let path =
        path.ok_or_else(|| UsageError("got no --output, expected --output CASE".to_owned()))?;
    create_folder_of(path)?;
    let redacted = redact_case(&case)?;
    if let Some(table) = &args.table {
        create_folder_of(table)?;
        write_table(table, &redacted.table)?;
    }
    write_case(&redacted.case, path)?;
    output.print_note(&format!(
        "{}: {} names replaced; {}",
        path.display(),
        redacted.table.originals.len(),
        check_redaction(&case, &redacted.case)
    ));
    Ok(ExitStatus::Passed)
}

/// Redacts a case. Fails if a word of the original is left, which would be a defect of schedlab.
pub(super) fn redact_case(case: &Case) -> anyhow::Result<Redacted> {
    let redacted = redact(case);
    let check = check_redaction(case, &redacted.case);
    anyhow::ensure!(check.left.is_empty(), "nothing was written, as {check}");
    Ok(redacted)
}

/// Writes the table of a redaction for its owner only.
pub(super) fn write_table(path: &Path, table: &RedactionTable) -> anyhow::Result<()> {
    write_private_file(path, &serde_json::to_string_pretty(table)?)
}

fn reveal(args: &Redact, table: &Path, output: &mut CommandOutput) -> anyhow::Result<ExitStatus> {
    let shown = table.display();
    let text = fs::read_to_string(table)
        .map_err(|error| UsageError(format!("{shown}: cannot read it: {error}")))?;
    let table: RedactionTable = serde_json::from_str(&text).map_err(|error| {
        UsageError(format!("{shown}: {error}, expected a table of schedlab redact --table"))
    })?;
    let mut text = String::new();
    if args.files.is_empty() {
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    }
    for file in &args.files {
        let shown = file.display();
        text += &fs::read_to_string(file)
            .map_err(|error| UsageError(format!("{shown}: cannot read it: {error}")))?;
    }
    output.print_result(&table.reveal(&text));
    Ok(ExitStatus::Passed)
}
