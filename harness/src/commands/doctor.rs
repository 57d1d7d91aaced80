//! `schedlab doctor`: which clusters this machine can run, and what to install for the others.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::ValueEnum as _;

use super::Output;
use crate::cli::{Doctor, Format};
use crate::exit::ExitStatus;
use schedlab_clusters::doctor::{Check, DoctorReport, run_checks};

/// Exits with 0 when the named target can run (the emulator by default), else with 3.
pub fn doctor(args: &Doctor) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let named = args.target.as_slice();
    let targets = if named.is_empty() { Check::value_variants() } else { named };
    let examined = runtime.block_on(run_checks(targets));
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&examined)? + "\n",
        Format::Text => text(&examined),
    });
    let needed = args.target.unwrap_or_default();
    let runs = examined.checks.iter().any(|one| one.check == needed && one.ready);
    Ok(if runs { ExitStatus::Passed } else { ExitStatus::NotStarted })
}

fn text(examined: &DoctorReport) -> String {
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
