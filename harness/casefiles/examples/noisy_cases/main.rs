//! Minimises the cases of faults that were found in clusters of 200 nodes, 50 queues and 2,000 pods,
//! and prints a table: elements before and after, those of the case that a person wrote, and the time.
//!
//! Usage: `cargo run --profile quick -p schedlab-casefiles --example noisy_cases -- FOLDER [NAME]`
//!
//! The cases are written to the folder, with their claims and configurations for `schedlab minimise`.
#![expect(clippy::disallowed_methods, reason = "measures from outside")]

mod cases;

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
    time::Instant,
};

use anyhow::Context as _;
use cases::{SMALL_CASES, WHOLE_NOISE, size};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().context("expected: FOLDER [NAME]")?);
    let name = arguments.next();
    fs::create_dir_all(&folder)?;
    let mut out = io::stdout();
    writeln!(out, "| case | elements before | after | by hand | tries | seconds |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for small in SMALL_CASES.iter().filter(|it| name.as_deref().is_none_or(|name| name == it.name))
    {
        let noisy = small.in_noise(WHOLE_NOISE);
        noisy.write(&folder.join(format!("{}.zip", small.name)))?;
        fs::write(folder.join(format!("{}.claims", small.name)), small.claims.join("\n"))?;
        fs::write(folder.join(format!("{}.yaml", small.name)), small.configuration)?;
        let began = Instant::now();
        let result = small.minimised(&noisy)?;
        let seconds = began.elapsed().as_secs_f64();
        result.case.write(&folder.join(format!("{}-small.zip", small.name)))?;
        writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {seconds:.1} |",
            small.name,
            size(&noisy),
            size(&result.case),
            size(&small.small()),
            result.tries,
        )?;
    }
    Ok(())
}
