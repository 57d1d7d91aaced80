//! `schedlab snapshot review|accept|reject`, with the keys of cargo-insta.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use console::{Key, Term};

use super::{CommandOutput, UsageError, suite};
use crate::cli::SnapshotVerb;
use crate::exit::ExitStatus;
use schedlab_conformance::snapshots;

/// Accepts or rejects pending snapshots.
pub fn run_snapshot_command(verb: &SnapshotVerb) -> anyhow::Result<ExitStatus> {
    let mut output = CommandOutput::for_this_process();
    let (SnapshotVerb::Review(folder)
    | SnapshotVerb::Accept(folder)
    | SnapshotVerb::Reject(folder)) = verb;
    if folder.paths.is_empty() && suite::is_embedded_suite_used() {
        output.print_note(&format!(
            "no snapshots/ here: those of the suite of schedlab {} are part of the program and are \
             compared, never written",
            suite::SUITE.version
        ));
        return Ok(ExitStatus::Passed);
    }
    match verb {
        SnapshotVerb::Review(folder) => review_interactively(&folder.paths, &mut output),
        SnapshotVerb::Accept(folder) => {
            for_each_pending(&folder.paths, &mut output, "accepted", snapshots::accept_pending)
        }
        SnapshotVerb::Reject(folder) => {
            for_each_pending(&folder.paths, &mut output, "rejected", snapshots::reject_pending)
        }
    }
}

fn for_each_pending(
    paths: &[PathBuf],
    output: &mut CommandOutput,
    word: &str,
    act: fn(&std::path::Path) -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let pending = pending_snapshot_paths(paths)?;
    for path in &pending {
        act(path)?;
        output.print_note(&format!("{word} {}", path.display()));
    }
    output.print_note(&match pending.len() {
        0 => "no pending snapshots".to_owned(),
        count => format!("{count} {word}"),
    });
    Ok(ExitStatus::Passed)
}

/// Paths of pending snapshots, by default those below `snapshots`. An explicit path without pending
/// snapshots is an error; then nothing is accepted or rejected.
fn pending_snapshot_paths(paths: &[PathBuf]) -> Result<Vec<PathBuf>, UsageError> {
    if paths.is_empty() {
        return Ok(snapshots::pending_snapshots(&[PathBuf::from("snapshots")]));
    }
    let bare =
        |path: &&PathBuf| snapshots::pending_snapshots(std::slice::from_ref(path)).is_empty();
    let message = |path: &PathBuf| {
        let found = if path.exists() { "no pending snapshots" } else { "no such file or folder" };
        format!("{}: {found}", path.display())
    };
    let bare: Vec<String> = paths.iter().filter(bare).map(message).collect();
    if bare.is_empty() {
        return Ok(snapshots::pending_snapshots(paths));
    }
    Err(UsageError(format!("{}; expected .snap.new files or folders with them", bare.join("; "))))
}

fn review_interactively(
    paths: &[PathBuf],
    output: &mut CommandOutput,
) -> anyhow::Result<ExitStatus> {
    let pending = pending_snapshot_paths(paths)?;
    let term = Term::stderr();
    let is_interactive = term.is_term() && io::stdin().is_terminal();
    if !pending.is_empty() && !is_interactive {
        let names: Vec<String> = pending.iter().map(|path| path.display().to_string()).collect();
        return Err(UsageError(format!(
            "review needs a terminal; {} pending (`accept` and `reject` take paths):\n{}",
            names.len(),
            names.join("\n")
        ))
        .into());
    }
    let mut done = 0;
    for (index, path) in pending.iter().enumerate() {
        output.print_result(&format!("\n{} of {}: {}\n", index + 1, pending.len(), path.display()));
        output.print_result(&snapshots::pending_diff(path)?);
        output.print_note("(a)ccept   (r)eject   (s)kip   (q)uit");
        match read_review_answer(|| term.read_key())? {
            ReviewAnswer::Accept => snapshots::accept_pending(path)?,
            ReviewAnswer::Reject => snapshots::reject_pending(path)?,
            ReviewAnswer::Skip => continue,
            ReviewAnswer::Quit => break,
        }
        done += 1;
    }
    let left = pending.len() - done;
    output.print_note(&format!("{done} reviewed, {left} pending"));
    Ok(if left == 0 { ExitStatus::Passed } else { ExitStatus::Pending })
}

#[derive(Debug, PartialEq, Eq)]
enum ReviewAnswer {
    Accept,
    Reject,
    Skip,
    Quit,
}

/// The character of Ctrl-D when keys are read one by one.
const END_OF_INPUT: char = '\u{4}';

/// Reads keys until one of them is an answer. The end of input counts as `q`, which quits.
fn read_review_answer(mut key: impl FnMut() -> io::Result<Key>) -> io::Result<ReviewAnswer> {
    loop {
        match key() {
            Ok(Key::Char('a')) => return Ok(ReviewAnswer::Accept),
            Ok(Key::Char('r')) => return Ok(ReviewAnswer::Reject),
            Ok(Key::Char('s')) => return Ok(ReviewAnswer::Skip),
            Ok(Key::Char('q' | END_OF_INPUT) | Key::Escape) => return Ok(ReviewAnswer::Quit),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(ReviewAnswer::Quit);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(keys: Vec<io::Result<Key>>) -> ReviewAnswer {
        let mut keys = keys.into_iter();
        read_review_answer(|| keys.next().expect("no key is read after the answer")).unwrap()
    }

    #[test]
    fn a_named_path_without_pending_snapshots_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.snap"), "").unwrap();
        std::fs::write(at("b.snap.new"), "").unwrap();
        assert_eq!(
            pending_snapshot_paths(&[folder.path().to_owned()]).unwrap(),
            [at("b.snap.new")]
        );
        assert!(pending_snapshot_paths(&[]).unwrap().is_empty());
        let message = pending_snapshot_paths(&[at("a.snap"), at("b.snap.new"), at("nope")])
            .unwrap_err()
            .to_string();
        assert_eq!(
            message.replace(&format!("{}/", folder.path().display()), ""),
            "a.snap: no pending snapshots; nope: no such file or folder; expected .snap.new files \
             or folders with them"
        );
    }

    #[test]
    fn other_keys_are_ignored_and_q_or_end_of_input_quits() {
        assert_eq!(answer_to(vec![Ok(Key::Char('x')), Ok(Key::Char('a'))]), ReviewAnswer::Accept);
        assert_eq!(answer_to(vec![Ok(Key::Enter), Ok(Key::Char('s'))]), ReviewAnswer::Skip);
        assert_eq!(answer_to(vec![Ok(Key::Char('q'))]), ReviewAnswer::Quit);
        assert_eq!(answer_to(vec![Ok(Key::Char(END_OF_INPUT))]), ReviewAnswer::Quit);
        let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(answer_to(vec![Ok(Key::Tab), Err(ended)]), ReviewAnswer::Quit);
    }
}
