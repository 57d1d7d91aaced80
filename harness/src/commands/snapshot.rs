//! `schedlab snapshot review|accept|reject`, with the keys of cargo-insta.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use console::{Key, Term};

use super::{Output, UsageError};
use crate::cli::SnapshotVerb;
use crate::exit::ExitStatus;
use schedlab_conformance::snapshots;

/// Accepts or rejects pending snapshots.
pub fn snapshot(verb: &SnapshotVerb) -> anyhow::Result<ExitStatus> {
    let mut output = Output::detect();
    match verb {
        SnapshotVerb::Review(folder) => review(&folder.paths, &mut output),
        SnapshotVerb::Accept(folder) => {
            each(&folder.paths, &mut output, "accepted", snapshots::accept)
        }
        SnapshotVerb::Reject(folder) => {
            each(&folder.paths, &mut output, "rejected", snapshots::reject)
        }
    }
}

fn each(
    paths: &[PathBuf],
    output: &mut Output,
    word: &str,
    act: fn(&std::path::Path) -> anyhow::Result<()>,
) -> anyhow::Result<ExitStatus> {
    let pending = pending(paths)?;
    for path in &pending {
        act(path)?;
        output.note(&format!("{word} {}", path.display()));
    }
    output.note(&match pending.len() {
        0 => "no pending snapshots".to_owned(),
        count => format!("{count} {word}"),
    });
    Ok(ExitStatus::Passed)
}

/// Pending snapshots, by default below `snapshots`. An explicit path without pending snapshots is
/// an error, and nothing is accepted or rejected.
fn pending(paths: &[PathBuf]) -> Result<Vec<PathBuf>, UsageError> {
    if paths.is_empty() {
        return Ok(snapshots::pending(&[PathBuf::from("snapshots")]));
    }
    let bare = |path: &&PathBuf| snapshots::pending(std::slice::from_ref(path)).is_empty();
    let message = |path: &PathBuf| {
        let found = if path.exists() { "no pending snapshots" } else { "no such file or folder" };
        format!("{}: {found}", path.display())
    };
    let bare: Vec<String> = paths.iter().filter(bare).map(message).collect();
    if bare.is_empty() {
        return Ok(snapshots::pending(paths));
    }
    Err(UsageError(format!("{}; expected .snap.new files or folders with them", bare.join("; "))))
}

fn review(paths: &[PathBuf], output: &mut Output) -> anyhow::Result<ExitStatus> {
    let pending = pending(paths)?;
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
        output.data(&format!("\n{} of {}: {}\n", index + 1, pending.len(), path.display()));
        output.data(&snapshots::pending_diff(path)?);
        output.note("(a)ccept   (r)eject   (s)kip   (q)uit");
        match answer(|| term.read_key())? {
            Answer::Accept => snapshots::accept(path)?,
            Answer::Reject => snapshots::reject(path)?,
            Answer::Skip => continue,
            Answer::Quit => break,
        }
        done += 1;
    }
    let left = pending.len() - done;
    output.note(&format!("{done} reviewed, {left} pending"));
    Ok(if left == 0 { ExitStatus::Passed } else { ExitStatus::Pending })
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Accept,
    Reject,
    Skip,
    Quit,
}

/// The character of Ctrl-D when keys are read one by one.
const END_OF_INPUT: char = '\u{4}';

/// Reads keys until one is an answer. End of input quits, like `q`.
fn answer(mut key: impl FnMut() -> io::Result<Key>) -> io::Result<Answer> {
    loop {
        match key() {
            Ok(Key::Char('a')) => return Ok(Answer::Accept),
            Ok(Key::Char('r')) => return Ok(Answer::Reject),
            Ok(Key::Char('s')) => return Ok(Answer::Skip),
            Ok(Key::Char('q' | END_OF_INPUT) | Key::Escape) => return Ok(Answer::Quit),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Answer::Quit),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(keys: Vec<io::Result<Key>>) -> Answer {
        let mut keys = keys.into_iter();
        answer(|| keys.next().expect("no key is read after the answer")).unwrap()
    }

    #[test]
    fn a_named_path_without_pending_snapshots_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.snap"), "").unwrap();
        std::fs::write(at("b.snap.new"), "").unwrap();
        assert_eq!(pending(&[folder.path().to_owned()]).unwrap(), [at("b.snap.new")]);
        assert!(pending(&[]).unwrap().is_empty());
        let message =
            pending(&[at("a.snap"), at("b.snap.new"), at("nope")]).unwrap_err().to_string();
        assert_eq!(
            message.replace(&format!("{}/", folder.path().display()), ""),
            "a.snap: no pending snapshots; nope: no such file or folder; expected .snap.new files \
             or folders with them"
        );
    }

    #[test]
    fn other_keys_are_ignored_and_q_or_end_of_input_quits() {
        assert_eq!(answer_to(vec![Ok(Key::Char('x')), Ok(Key::Char('a'))]), Answer::Accept);
        assert_eq!(answer_to(vec![Ok(Key::Enter), Ok(Key::Char('s'))]), Answer::Skip);
        assert_eq!(answer_to(vec![Ok(Key::Char('q'))]), Answer::Quit);
        assert_eq!(answer_to(vec![Ok(Key::Char(END_OF_INPUT))]), Answer::Quit);
        let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(answer_to(vec![Ok(Key::Tab), Err(ended)]), Answer::Quit);
    }
}
