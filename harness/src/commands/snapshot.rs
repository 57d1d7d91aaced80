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
    let pending = reviewed::pending(paths);
    if let Some(message) = nowhere(paths).filter(|_| pending.is_empty()) {
        output.note(&message);
        return Ok(Exit::NothingSelected);
    }
    for path in &pending {
        act(path)?;
        output.note(&format!("{word} {}", path.display()));
    }
    output.note(&format!("{} {word}", pending.len()));
    Ok(Exit::Passed)
}

/// What to say of paths that lead nowhere.
fn nowhere(paths: &[PathBuf]) -> Option<String> {
    let absent = paths.iter().filter(|path| !path.exists());
    let absent: Vec<String> = absent.map(|path| path.display().to_string()).collect();
    (!absent.is_empty()).then(|| {
        format!(
            "found no {}; allowed are snapshot files that wait for review, and folders with them",
            absent.join(", ")
        )
    })
}

fn review(paths: &[PathBuf], output: &mut Output) -> anyhow::Result<Exit> {
    let pending = reviewed::pending(paths);
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
    fn a_path_that_leads_nowhere_is_told() {
        let told =
            "found no nope; allowed are snapshot files that wait for review, and folders with them";
        assert_eq!(nowhere(&["nope".into(), "src".into()]).as_deref(), Some(told));
        assert_eq!(nowhere(&["src".into()]), None);
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
