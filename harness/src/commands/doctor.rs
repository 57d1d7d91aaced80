//! `schedlab doctor`: which clusters this machine can run, and what to install for the others.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::ValueEnum as _;

use super::CommandOutput;
use crate::cli::{Doctor, Format};
use crate::exit::ExitStatus;
use schedlab_clusters::doctor::{DoctorCheck, DoctorReport, run_checks};

/// Prints what this machine can run. The exit status is 0 if the named target can run (by default
/// the emulator), else 3.
pub fn run_doctor_command(args: &Doctor) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let named = args.target.as_slice();
    let targets = if named.is_empty() { DoctorCheck::value_variants() } else { named };
    let examined = runtime.block_on(run_checks(targets));
    output.print_result(&match args.format {
        Format::Json => serde_json::to_string_pretty(&examined)? + "\n",
        Format::Text => doctor_text(&examined),
    });
    let needed = args.target.unwrap_or_default();
    let runs = examined.checks.iter().any(|one| one.check == needed && one.ready);
    Ok(if runs { ExitStatus::Passed } else { ExitStatus::NotStarted })
}

fn doctor_text(examined: &DoctorReport) -> String {
    let mut out = String::new();
    for ability in &examined.checks {
        let mark = if ability.ready { "✔" } else { "✘" };
        let found = ability.found.join(", ");
        let line = format!("{mark} {:<13}  {found}", ability.check.to_string());
        let _ = writeln!(out, "{}", line.trim_end());
        for missing in &ability.missing {
            let _ = writeln!(out, "    {}\n      to do: {}", missing.what, missing.remedy);
        }
    }
    let _ = writeln!(out, "  {:<13}  {}", "machine", examined.machine.join(", "));
    out
}
