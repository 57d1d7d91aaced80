//! `schedlab snapshot review|accept|reject`, with insta's keys and without cargo.

use std::path::PathBuf;

use console::{Key, Term};

use super::{Output, UsageError};
use crate::cli::SnapshotVerb;
use crate::exit::Exit;
use crate::reviewed;

/// Takes or drops pending snapshots.
pub fn snapshot(verb: &SnapshotVerb) -> anyhow::Result<Exit> {
    let mut output = Output::detect();
    match verb {
        SnapshotVerb::Review(folder) => review(&folder.paths, &mut output),
        SnapshotVerb::Accept(folder) => {
            each(&folder.paths, &mut output, "accepted", reviewed::accept)
        }
        SnapshotVerb::Reject(folder) => {
            each(&folder.paths, &mut output, "rejected", reviewed::reject)
        }
    }
}

fn each(
    paths: &[PathBuf],
    output: &mut Output,
    word: &str,
    act: fn(&std::path::Path) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let pending = reviewed::pending(paths);
    for path in &pending {
        act(path)?;
        output.note(&format!("{word} {}", path.display()));
    }
    output.note(&format!("{} {word}", pending.len()));
    Ok(Exit::Passed)
}

fn review(paths: &[PathBuf], output: &mut Output) -> anyhow::Result<Exit> {
    let pending = reviewed::pending(paths);
    let term = Term::stderr();
    if !pending.is_empty() && !term.is_term() {
        let names: Vec<String> = pending.iter().map(|path| path.display().to_string()).collect();
        return Err(UsageError(format!(
            "review asks on a terminal, and this is none; {} wait (`accept` and `reject` take \
             paths):\n{}",
            names.len(),
            names.join("\n")
        ))
        .into());
    }
    let mut left = 0;
    for (index, path) in pending.iter().enumerate() {
        output.data(&format!("\n{} of {}: {}\n", index + 1, pending.len(), path.display()));
        output.data(&reviewed::change(path)?);
        output.note("(a)ccept   (r)eject   (s)kip");
        match answer(&term)? {
            Answer::Accept => reviewed::accept(path)?,
            Answer::Reject => reviewed::reject(path)?,
            Answer::Skip => left += 1,
        }
    }
    output.note(&format!("{} reviewed, {left} still wait", pending.len() - left));
    Ok(if left == 0 { Exit::Passed } else { Exit::Pending })
}

enum Answer {
    Accept,
    Reject,
    Skip,
}

fn answer(term: &Term) -> anyhow::Result<Answer> {
    loop {
        #[expect(clippy::wildcard_enum_match_arm, reason = "every other key asks again")]
        match term.read_key()? {
            Key::Char('a') => return Ok(Answer::Accept),
            Key::Char('r') => return Ok(Answer::Reject),
            Key::Char('s') => return Ok(Answer::Skip),
            _ => {}
        }
    }
}
