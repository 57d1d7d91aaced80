//! `schedlab cases`: runs recorded cases on the scheduler's core.

use super::CommandOutput;
use crate::cli::{Cases, CasesFormat};
use crate::exit::ExitStatus;
use schedlab_apps::cases::{self, Report};

/// Runs recorded cases and prints the result. A case whose outcome differs from its recording makes
/// the command fail.
pub fn run_cases_command(args: &Cases) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let report = cases::run_folder(&args.folder, &args.filter)?;
    let counts = report.verdict_counts();
    if counts.total() == 0 {
        let (folder, filter) = (args.folder.display(), &args.filter);
        output.print_note(&format!("no case in {folder} has an id that contains {filter:?}"));
        return Ok(ExitStatus::NothingSelected);
    }
    output.print_result(&report_text(&report, args.format)?);
    Ok(if counts.failed == 0 { ExitStatus::Passed } else { ExitStatus::Failed })
}

fn report_text(report: &Report, format: CasesFormat) -> anyhow::Result<String> {
    Ok(match format {
        CasesFormat::Terse => report.to_terse_text(),
        CasesFormat::Json => format!("{}\n", serde_json::to_string_pretty(report)?),
    })
}
