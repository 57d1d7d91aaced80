//! `schedlab clean`: takes away what a crash left.

use std::fmt::Write as _;

use anyhow::Context as _;
use serde::Serialize;

use super::Output;
use crate::cli::{Clean, Format};
use crate::exit::Exit;
use crate::leftovers::{self, Doing, End, Life, RunReport};

#[derive(Serialize)]
struct Cleaned {
    runs: Vec<RunReport>,
    /// What has our mark and no record here: told, never touched.
    unrecorded: Vec<String>,
}

/// Takes away what runs left whose process is gone. Ends with 1 when something stays.
pub fn clean(args: &Clean) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    let state = leftovers::state_folder()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let doing = if args.dry_run { Doing::Look } else { Doing::Remove };
    let runs = runtime.block_on(leftovers::clean(&state, doing))?;
    let cleaned = Cleaned { runs, unrecorded: leftovers::unrecorded(&state)? };
    output.data(&match args.format {
        Format::Json => serde_json::to_string_pretty(&cleaned)? + "\n",
        Format::Text => text(&cleaned),
    });
    let ends = cleaned.runs.iter().flat_map(|run| &run.things);
    let failed = ends.into_iter().any(|one| one.end.why_not().is_some());
    Ok(if failed { Exit::Failed } else { Exit::Passed })
}

fn text(cleaned: &Cleaned) -> String {
    let mut out = String::new();
    for run in &cleaned.runs {
        let RunReport { run: id, verb, .. } = run;
        let life = match run.life {
            Life::Ended => "ended",
            Life::Lives => "still runs: left alone",
            Life::Elsewhere => "is another machine's or container's: left alone, clean up there",
        };
        let _ = writeln!(out, "run {id} ({verb}) {life}");
        for one in &run.things {
            let _ = match &one.end {
                End::Removed => writeln!(out, "  removed {}", one.thing),
                End::There => writeln!(out, "  would remove {}", one.thing),
                End::Gone => writeln!(out, "  gone already: {}", one.thing),
                End::NotYet => {
                    writeln!(out, "  nothing yet: {} (docker may be at it: clean again)", one.thing)
                }
                End::Failed { why } => writeln!(out, "  STILL THERE {}: {why}", one.thing),
                End::Unknown { why } => writeln!(out, "  CANNOT TELL {}: {why}", one.thing),
            };
        }
    }
    for one in &cleaned.unrecorded {
        let _ = writeln!(out, "not ours to judge (no record in this state folder): {one}");
    }
    if out.is_empty() {
        out.push_str("nothing to clean\n");
    }
    out
}
