//! `schedlab steps`: prints the step catalogue.

use std::fmt::Write as _;

use super::CommandOutput;
use crate::cli::Steps;
use crate::exit::ExitStatus;
use schedlab_conformance::steps::catalogue::{StepDoc, all_step_docs};

/// Prints every step of the catalogue with its meaning and an example.
pub fn run_steps_command(args: &Steps) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let matches = |step: &StepDoc| {
        args.containing.as_ref().is_none_or(|text| {
            let text = text.to_lowercase();
            [&step.pattern, &step.meaning, &step.example, &step.area.to_owned()]
                .iter()
                .any(|field| field.to_lowercase().contains(&text))
        })
    };
    let steps: Vec<StepDoc> = all_step_docs().into_iter().filter(matches).collect();
    if steps.is_empty() {
        output.print_note(
            "no step contains the given text; `schedlab steps` alone shows all of them",
        );
        return Ok(ExitStatus::NothingSelected);
    }
    output.print_result(&steps_text(&steps));
    Ok(ExitStatus::Passed)
}

/// The step catalogue as text.
pub(crate) fn steps_text(steps: &[StepDoc]) -> String {
    let mut out = String::new();
    let mut area = "";
    for step in steps {
        if step.area != area {
            area = step.area;
            let _ = writeln!(out, "# {area}\n");
        }
        let _ = writeln!(out, "{} {}", step.keywords.join("/"), step.pattern);
        let _ = writeln!(out, "    {}", step.meaning);
        for line in step.example.lines() {
            let _ = writeln!(out, "      {line}");
        }
        out.push('\n');
    }
    out
}
