//! `schedlab cases`: runs recorded cases on the scheduler's core.

use super::Output;
use crate::cli::{Cases, CasesFormat};
use crate::exit::ExitStatus;
use schedlab_apps::cases::{self, Report};

/// Runs the cases and prints the result. A case that differs from its recording is a failure.
pub fn cases(args: &Cases) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    let report = cases::run_folder(&args.folder, &args.filter)?;
    let counts = report.counts();
    if counts.all() == 0 {
        let (folder, filter) = (args.folder.display(), &args.filter);
        output.note(&format!("no case in {folder} has an id that contains {filter:?}"));
        return Ok(ExitStatus::NothingSelected);
    }
    output.data(&text(&report, args.format)?);
    Ok(if counts.failed == 0 { ExitStatus::Passed } else { ExitStatus::Failed })
}

fn text(report: &Report, format: CasesFormat) -> anyhow::Result<String> {
    Ok(match format {
        CasesFormat::Terse => report.terse(),
        CasesFormat::Json => format!("{}\n", serde_json::to_string_pretty(report)?),
    })
}
