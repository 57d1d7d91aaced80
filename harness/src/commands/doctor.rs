//! `schedlab doctor`: what this machine can run, and what to install for the rest.

use std::fmt::Write as _;

use anyhow::Context as _;
use clap::ValueEnum as _;

use super::Output;
use crate::cli::{Doctor, Format};
use crate::doctor::{Examined, Target, examine};
use crate::exit::Exit;

/// Ends with 0 when what was asked for can run (the emulator, when nothing was named), else 3.
pub fn doctor(args: &Doctor) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let named = args.target.as_slice();
    let targets = if named.is_empty() { Target::value_variants() } else { named };
    let examined = runtime.block_on(examine(targets));
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&examined)? + "\n",
        Format::Text => text(&examined),
    });
    let needed = args.target.unwrap_or_default();
    let runs = examined.abilities.iter().any(|one| one.target == needed && one.ready);
    Ok(if runs { Exit::Passed } else { Exit::NotStarted })
}

fn text(examined: &Examined) -> String {
    let mut out = String::new();
    for ability in &examined.abilities {
        let mark = if ability.ready { "✔" } else { "✘" };
        let found = ability.found.join(", ");
        let line = format!("{mark} {:<13}  {found}", ability.target.to_string());
        let _ = writeln!(out, "{}", line.trim_end());
        for missing in &ability.missing {
            let _ = writeln!(out, "    {}\n      to do: {}", missing.what, missing.remedy);
        }
    }
    let _ = writeln!(out, "  {:<13}  {}", "machine", examined.machine.join(", "));
    out
}
