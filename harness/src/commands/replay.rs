//! `schedlab replay`: schedules a captured cluster and prints plans and reasons.

use super::CommandOutput;
use super::case_input::{NOTHING_READ, case_error, is_empty, load_case, overrides};
use crate::cli::Replay;
use crate::exit::ExitStatus;
use schedlab_casefiles::predicate::Verdict;

/// Runs scheduling cycles over a case and judges claims about the result.
pub fn run_replay_command(args: &Replay) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let overrides = overrides(&args.scheduler)?;
    let case = load_case(&args.input, &mut output)?;
    let replay = case
        .replay(&overrides, args.cycles)
        .map_err(|error| case_error(&args.input.files, &error))?;
    if !case.changes.is_empty() {
        let from = &case.manifest.recorded_from;
        output.print_result(&format!("history since {from}\n{}\n", case.history()));
    }
    let text = if is_empty(&case) { NOTHING_READ.to_owned() } else { replay.to_string() };
    output.print_result(&text);
    let mut exit = ExitStatus::Passed;
    for claim in &args.expect {
        match claim.judge(&replay) {
            Verdict::Holds(why) => output.print_note(&format!("✔ {claim}: {why}")),
            Verdict::Fails(why) => {
                output.print_note(&format!("✘ {claim}: {why}"));
                exit = ExitStatus::Failed;
            }
        }
    }
    Ok(exit)
}
