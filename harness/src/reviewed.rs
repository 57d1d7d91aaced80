//! Reviewed texts: what a case's snapshot steps showed, compared with `snapshots/**/*.snap`.
//!
//! Files and words are insta's (`.snap`, `.snap.new`, `INSTA_UPDATE`), so its tools read them;
//! comparing is ours, because a released binary runs without cargo and must not panic.

mod files;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use similar::{ChangeTag, TextDiff};

use crate::text::shell_word;

pub use files::{orphans, pending};

/// What to do when a text is new or differs: insta's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// `always`: write the snapshot itself.
    Always,
    /// `unseen`: write new snapshots, leave a `.snap.new` beside those that differ.
    Unseen,
    /// `new` (and `auto` outside CI): leave a `.snap.new`.
    New,
    /// `no` (and `auto` under CI): write nothing.
    No,
    /// `force`: write the snapshot even where it is the same.
    Force,
}

impl Update {
    /// From the values of `INSTA_UPDATE` and `CI`.
    pub fn from_words(update: Option<&str>, ci: Ci) -> Result<Self, String> {
        match (ci, update) {
            (Ci::Yes, _) | (Ci::No, Some("no")) => Ok(Self::No),
            (Ci::No, None | Some("" | "auto" | "new")) => Ok(Self::New),
            (Ci::No, Some("always" | "1")) => Ok(Self::Always),
            (Ci::No, Some("unseen")) => Ok(Self::Unseen),
            (Ci::No, Some("force")) => Ok(Self::Force),
            (Ci::No, Some(other)) => Err(format!(
                "INSTA_UPDATE={other} is not known; allowed are auto, always, new, unseen, no, \
                 force"
            )),
        }
    }
}

/// Whether the run is part of continuous integration, which never writes a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ci {
    /// It is.
    Yes,
    /// It is not.
    No,
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The texts are equal.
    Same,
    /// The snapshot was written, as asked.
    Written,
    /// There is no snapshot yet: what to tell the user.
    New(String),
    /// The snapshot says something else: what to tell the user.
    Differs(String),
}

/// Compares a form of a text with the same form of its snapshot; writes nothing. A form that
/// neither has is equal.
pub fn compare_form(
    path: &Path,
    text: &str,
    form: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Verdict> {
    let Some(now) = form(text) else { return Ok(Verdict::Same) };
    let Some(old) = files::read(path)?.as_deref().and_then(form) else {
        return Ok(Verdict::New(format!(
            "{} has nothing like this; it is written on the emulator with seed 1:\n{now}",
            path.display()
        )));
    };
    if old == now {
        return Ok(Verdict::Same);
    }
    let diff = diff(&old, &now);
    Ok(Verdict::Differs(format!(
        "{} differs, up to what is equal there (- snapshot, + now):\n{diff}",
        path.display()
    )))
}

/// Whether a snapshot has this part of a text as it is.
pub(crate) fn has(path: &Path, part: &str) -> bool {
    let old = files::read(path).ok().flatten();
    old.is_some_and(|old| old.contains(part.trim_end()))
}

/// Compares a text with its snapshot.
pub fn compare(
    path: &Path,
    source: &str,
    name: &str,
    text: &str,
    update: Update,
) -> anyhow::Result<Verdict> {
    let old = files::read(path)?;
    let same = old.as_deref().is_some_and(|old| old.trim_end() == text.trim_end());
    let write = |path: &Path| files::write(path, source, name, text);
    match (update, &old) {
        (Update::Force, _) => {
            write(path)?;
            return Ok(Verdict::Written);
        }
        (Update::Always, _) | (Update::Unseen, None) if !same => {
            write(path)?;
            files::remove(&waiting(path))?;
            return Ok(Verdict::Written);
        }
        _ => {}
    }
    if same {
        files::remove_unless(update, &waiting(path))?;
        return Ok(Verdict::Same);
    }
    let next = if update == Update::No {
        "write it where you can review it: run again without CI and INSTA_UPDATE=no".to_owned()
    } else {
        write(&waiting(path))?;
        format!("look at it with: {}", review(&waiting(path)))
    };
    Ok(match old {
        None => Verdict::New(format!("{} is new:\n{text}{next}", path.display())),
        Some(old) => {
            let diff = diff(&old, text);
            Verdict::Differs(format!(
                "{} differs (- snapshot, + now):\n{diff}{next}",
                path.display()
            ))
        }
    })
}

/// The command that shows a pending snapshot; where it is not told a path, it looks in `snapshots`.
pub fn review(pending: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = pending.strip_prefix(&here).unwrap_or(pending);
    let path = path.strip_prefix(".").unwrap_or(path);
    if path.starts_with("snapshots") {
        return "schedlab snapshot review".to_owned();
    }
    format!("schedlab snapshot review {}", shell_word(&path.display().to_string()))
}

/// Takes a pending snapshot.
pub fn accept(pending: &Path) -> anyhow::Result<()> {
    std::fs::rename(pending, reviewed(pending))
        .with_context(|| format!("cannot accept {}", pending.display()))
}

/// Drops a pending snapshot.
pub fn reject(pending: &Path) -> anyhow::Result<()> {
    files::remove(pending)
}

/// What taking a pending snapshot would change.
pub fn change(pending: &Path) -> anyhow::Result<String> {
    let new = files::read(pending)?.unwrap_or_default();
    let old = files::read(&reviewed(pending))?;
    Ok(diff(old.as_deref().unwrap_or_default(), &new))
}

/// `x.snap` → `x.snap.new`.
fn waiting(path: &Path) -> PathBuf {
    path.with_extension("snap.new")
}

/// `x.snap.new` → `x.snap`.
fn reviewed(pending: &Path) -> PathBuf {
    pending.with_extension("")
}

/// Lines that differ with their neighbours, `-` old, `+` new.
pub fn diff(old: &str, new: &str) -> String {
    let mut out = String::new();
    let (old, new) = (format!("{}\n", old.trim_end()), format!("{}\n", new.trim_end()));
    let diff = TextDiff::from_lines(&old, &new);
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            out.push_str("  …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            out.push(sign);
            out.push(' ');
            out.push_str(change.value());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(path: &Path, text: &str, update: Update) -> Verdict {
        compare(path, "features/f.feature", "a \"gang\"", text, update).unwrap()
    }

    #[test]
    fn a_new_text_waits_is_accepted_and_then_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quota/f__a.snap");
        assert!(matches!(compared(&path, "n1: 8\n", Update::New), Verdict::New(_)));
        assert!(!path.exists());
        let waiting = pending(&[folder.path().to_path_buf()]);
        assert_eq!(waiting.len(), 1);
        accept(&waiting[0]).unwrap();
        assert_eq!(compared(&path, "n1: 8\n", Update::New), Verdict::Same);
        let insta = insta::Snapshot::from_file(&path).unwrap();
        assert_eq!(insta.metadata().expression(), Some("a \"gang\""));
    }

    #[test]
    fn the_line_that_shows_a_pending_snapshot_finds_it() {
        let line = |path: &str| review(Path::new(path));
        assert_eq!(line("snapshots/a.snap.new"), "schedlab snapshot review");
        assert_eq!(line("./snapshots/a.snap.new"), "schedlab snapshot review");
        let other = "schedlab snapshot review other/snapshots/a.snap.new";
        assert_eq!(line("other/snapshots/a.snap.new"), other);
        let spaced = "schedlab snapshot review 'my cases/snapshots/a.snap.new'";
        assert_eq!(line("my cases/snapshots/a.snap.new"), spaced);
    }

    #[test]
    fn a_changed_digit_differs_and_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f__a.snap");
        assert_eq!(compared(&path, "n1: 8\n", Update::Always), Verdict::Written);
        let Verdict::Differs(message) = compared(&path, "n1: 7\n", Update::No) else {
            panic!("the texts differ")
        };
        assert!(message.contains("- n1: 8\n+ n1: 7\n"), "{message}");
        assert_eq!(pending(&[folder.path().to_path_buf()]), Vec::<PathBuf>::new());
    }

    #[test]
    fn unseen_writes_new_texts_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f__a.snap");
        assert_eq!(compared(&path, "a", Update::Unseen), Verdict::Written);
        assert!(matches!(compared(&path, "b", Update::Unseen), Verdict::Differs(_)));
        assert_eq!(pending(&[folder.path().to_path_buf()]).len(), 1);
        // Once the text is as reviewed again, nothing waits any more.
        assert_eq!(compared(&path, "a", Update::Unseen), Verdict::Same);
        assert_eq!(pending(&[folder.path().to_path_buf()]).len(), 0);
    }

    #[test]
    fn ci_never_writes() {
        assert_eq!(Update::from_words(Some("always"), Ci::Yes), Ok(Update::No));
        assert_eq!(Update::from_words(None, Ci::No), Ok(Update::New));
        assert!(Update::from_words(Some("perhaps"), Ci::No).is_err());
    }
}
