//! `schedlab snapshot review|accept|reject`, with insta's keys and without cargo.

use std::io::{self, IsTerminal as _};
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
    let pending = pending(paths)?;
    for path in &pending {
        act(path)?;
        output.note(&format!("{word} {}", path.display()));
    }
    output.note(&match pending.len() {
        0 => "nothing waits for review".to_owned(),
        count => format!("{count} {word}"),
    });
    Ok(Exit::Passed)
}

/// What waits for review: in `snapshots` where no path is named. Nothing may wait there, but a path
/// that is named and has nothing is a mistake in it, for which nothing else is taken or dropped.
fn pending(paths: &[PathBuf]) -> Result<Vec<PathBuf>, UsageError> {
    if paths.is_empty() {
        return Ok(reviewed::pending(&[PathBuf::from("snapshots")]));
    }
    let bare = |path: &&PathBuf| reviewed::pending(std::slice::from_ref(path)).is_empty();
    let told = |path: &PathBuf| {
        let found = if path.exists() { "nothing that waits for review" } else { "no such path" };
        format!("{}: found {found}", path.display())
    };
    let bare: Vec<String> = paths.iter().filter(bare).map(told).collect();
    if bare.is_empty() {
        return Ok(reviewed::pending(paths));
    }
    Err(UsageError(format!(
        "{}; allowed are .snap.new files and folders with them",
        bare.join("; ")
    )))
}

fn review(paths: &[PathBuf], output: &mut Output) -> anyhow::Result<Exit> {
    let pending = pending(paths)?;
    let term = Term::stderr();
    let is_asked = term.is_term() && io::stdin().is_terminal();
    if !pending.is_empty() && !is_asked {
        let names: Vec<String> = pending.iter().map(|path| path.display().to_string()).collect();
        return Err(UsageError(format!(
            "review asks on a terminal, and this is none; {} wait (`accept` and `reject` take \
             paths):\n{}",
            names.len(),
            names.join("\n")
        ))
        .into());
    }
    let mut done = 0;
    for (index, path) in pending.iter().enumerate() {
        output.data(&format!("\n{} of {}: {}\n", index + 1, pending.len(), path.display()));
        output.data(&reviewed::change(path)?);
        output.note("(a)ccept   (r)eject   (s)kip   (q)uit");
        match answer(|| term.read_key())? {
            Answer::Accept => reviewed::accept(path)?,
            Answer::Reject => reviewed::reject(path)?,
            Answer::Skip => continue,
            Answer::Quit => break,
        }
        done += 1;
    }
    let left = pending.len() - done;
    output.note(&format!("{done} reviewed, {left} still wait"));
    Ok(if left == 0 { Exit::Passed } else { Exit::Pending })
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Accept,
    Reject,
    Skip,
    Quit,
}

/// What Ctrl-D types where keys are read one by one.
const END_OF_INPUT: char = '\u{4}';

/// Reads keys until one is an answer. An input that ends leaves the rest as it is, as `q` does.
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

    fn answered(keys: Vec<io::Result<Key>>) -> Answer {
        let mut keys = keys.into_iter();
        answer(|| keys.next().expect("no key is read after the answer")).unwrap()
    }

    #[test]
    fn a_named_path_with_nothing_that_waits_is_a_mistake() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a.snap"), "").unwrap();
        std::fs::write(at("b.snap.new"), "").unwrap();
        assert_eq!(pending(&[folder.path().to_owned()]).unwrap(), [at("b.snap.new")]);
        assert!(pending(&[]).unwrap().is_empty());
        let told = pending(&[at("a.snap"), at("b.snap.new"), at("nope")]).unwrap_err().to_string();
        assert_eq!(
            told.replace(&format!("{}/", folder.path().display()), ""),
            "a.snap: found nothing that waits for review; nope: found no such path; allowed \
             are .snap.new files and folders with them"
        );
    }

    #[test]
    fn other_keys_ask_again_and_q_or_the_end_of_the_input_quit() {
        assert_eq!(answered(vec![Ok(Key::Char('x')), Ok(Key::Char('a'))]), Answer::Accept);
        assert_eq!(answered(vec![Ok(Key::Enter), Ok(Key::Char('s'))]), Answer::Skip);
        assert_eq!(answered(vec![Ok(Key::Char('q'))]), Answer::Quit);
        assert_eq!(answered(vec![Ok(Key::Char(END_OF_INPUT))]), Answer::Quit);
        let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(answered(vec![Ok(Key::Tab), Err(ended)]), Answer::Quit);
    }
}
