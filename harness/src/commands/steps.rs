//! `schedlab steps`: the vocabulary, for people who write features.

use std::fmt::Write as _;

use super::Output;
use crate::cli::Steps;
use crate::exit::Exit;
use crate::vocabulary::{StepDoc, vocabulary};

/// Prints every step with its meaning and an example.
pub fn steps(args: &Steps) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let wanted = |step: &StepDoc| {
        args.containing.as_ref().is_none_or(|text| {
            let text = text.to_lowercase();
            [&step.pattern, &step.meaning, &step.example, &step.area.to_owned()]
                .iter()
                .any(|field| field.to_lowercase().contains(&text))
        })
    };
    let steps: Vec<StepDoc> = vocabulary().into_iter().filter(wanted).collect();
    if steps.is_empty() {
        output.note("no step contains that; `schedlab steps` alone shows all of them");
        return Ok(Exit::NothingSelected);
    }
    output.data(&text(&steps));
    Ok(Exit::Passed)
}

/// The vocabulary as text.
pub(crate) fn text(steps: &[StepDoc]) -> String {
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
