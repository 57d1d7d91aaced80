//! Snapshots: compares the text of a scenario's snapshot steps with `snapshots/**/*.snap`, and
//! updates and reviews these files.
//!
//! Files and settings are insta's (`.snap`, `.snap.new`, `INSTA_UPDATE`), so its tools can read
//! them. The comparison is our own, because a released binary runs without cargo and must not
//! panic.

mod files;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use similar::{ChangeTag, TextDiff};

use crate::features::Case;
use crate::suite_files::SuiteFiles;
use crate::text::shell_quoted_word;

pub use files::{orphaned_snapshots, pending_snapshots};

/// What to do with a text that is new or differs from its snapshot, as the values of `INSTA_UPDATE`
/// say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotUpdate {
    /// `always`: write the snapshot.
    Always,
    /// `unseen`: write new snapshots, and a `.snap.new` beside those that differ.
    Unseen,
    /// `new` (and `auto` outside CI): write a `.snap.new`.
    New,
    /// `no` (and `auto` under CI): write nothing.
    No,
    /// `force`: write the snapshot even if the text is the same.
    Force,
}

impl SnapshotUpdate {
    /// Parses the values of the environment variables `INSTA_UPDATE` and `CI`.
    ///
    /// # Errors
    /// The value of `INSTA_UPDATE` is unknown.
    pub fn from_env(update: Option<&str>, ci: Ci) -> Result<Self, String> {
        match (ci, update) {
            (Ci::Yes, _) | (Ci::No, Some("no")) => Ok(Self::No),
            (Ci::No, None | Some("" | "auto" | "new")) => Ok(Self::New),
            (Ci::No, Some("always" | "1")) => Ok(Self::Always),
            (Ci::No, Some("unseen")) => Ok(Self::Unseen),
            (Ci::No, Some("force")) => Ok(Self::Force),
            (Ci::No, Some(other)) => Err(format!(
                "INSTA_UPDATE: got {other}, expected auto, always, new, unseen, no or force"
            )),
        }
    }
}

/// Whether the run is part of continuous integration, which never writes snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ci {
    /// The run is part of continuous integration.
    Yes,
    /// The run is not part of continuous integration.
    No,
}

/// The result of comparing a text with its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotComparison {
    /// The text is equal to the snapshot.
    Same,
    /// The snapshot was written.
    Written,
    /// There is no snapshot yet; the text is the message for the user.
    New(String),
    /// The text differs from the snapshot; the value is the message for the user.
    Differs(String),
}

/// The snapshot file of a case.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFile {
    files: SuiteFiles,
    path: PathBuf,
}

impl SnapshotFile {
    /// The file of the case's snapshot, which need not exist.
    pub(crate) fn of_case(case: &Case) -> Self {
        Self { files: case.files, path: case.snapshot_path() }
    }

    /// The text of the snapshot; `None` if there is none.
    fn read(&self) -> anyhow::Result<Option<String>> {
        match self.files {
            SuiteFiles::Disk => files::read_snapshot(&self.path),
            SuiteFiles::Embedded(_) if !self.files.exists(&self.path) => Ok(None),
            SuiteFiles::Embedded(_) => {
                let shown = self.path.display().to_string();
                let file = self
                    .files
                    .read_text(&self.path)
                    .map_err(|error| anyhow::anyhow!(error.message_with_file(&shown)))?;
                let text = files::text_of_snapshot_file(&file);
                text.map(Some).with_context(|| format!("{shown} is not an insta snapshot"))
            }
        }
    }

    /// What to do with a text that is new or differs: a snapshot in the program is never written.
    fn allowed_update(&self, update: SnapshotUpdate) -> SnapshotUpdate {
        if self.files.is_on_disk() { update } else { SnapshotUpdate::No }
    }

    /// How to review a text that was not written.
    fn review_hint(&self) -> String {
        match self.files {
            SuiteFiles::Disk => "to review it, run again without CI and INSTA_UPDATE=no".to_owned(),
            SuiteFiles::Embedded(suite) => {
                format!("this snapshot is part of schedlab {} and not written", suite.version)
            }
        }
    }
}

/// Compares the canonical form of a text with that of its snapshot, and writes nothing. If the text
/// has no canonical form, the result is [`SnapshotComparison::Same`].
pub(crate) fn compare_canonical(
    file: &SnapshotFile,
    text: &str,
    form: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<SnapshotComparison> {
    let Some(now) = form(text) else { return Ok(SnapshotComparison::Same) };
    let Some(old) = file.read()?.as_deref().and_then(form) else {
        return Ok(SnapshotComparison::New(format!(
            "{} does not contain this placement; the snapshot is written on the emulator with seed 1:\n{now}",
            file.path.display()
        )));
    };
    if old == now {
        return Ok(SnapshotComparison::Same);
    }
    let diff = line_diff(&old, &now);
    Ok(SnapshotComparison::Differs(format!(
        "{} differs, even up to symmetry (- snapshot, + now):\n{diff}",
        file.path.display()
    )))
}

/// Whether a snapshot file contains this text.
pub(crate) fn snapshot_contains(file: &SnapshotFile, part: &str) -> bool {
    let old = file.read().ok().flatten();
    old.is_some_and(|old| old.contains(part.trim_end()))
}

/// Compares a text with its snapshot, and updates the snapshot as `update` says.
pub(crate) fn compare_snapshot(
    file: &SnapshotFile,
    source: &str,
    name: &str,
    text: &str,
    update: SnapshotUpdate,
) -> anyhow::Result<SnapshotComparison> {
    let (path, update) = (&file.path, file.allowed_update(update));
    let old = file.read()?;
    let same = old.as_deref().is_some_and(|old| old.trim_end() == text.trim_end());
    let write = |path: &Path| files::write_snapshot(path, source, name, text);
    match (update, &old) {
        (SnapshotUpdate::Force, _) => {
            write(path)?;
            return Ok(SnapshotComparison::Written);
        }
        (SnapshotUpdate::Always, _) | (SnapshotUpdate::Unseen, None) if !same => {
            write(path)?;
            files::remove_snapshot(&pending_path_of(path))?;
            return Ok(SnapshotComparison::Written);
        }
        _ => {}
    }
    if same {
        files::remove_if_allowed(update, &pending_path_of(path))?;
        return Ok(SnapshotComparison::Same);
    }
    let next = if update == SnapshotUpdate::No {
        file.review_hint()
    } else {
        write(&pending_path_of(path))?;
        format!("review it with: {}", review_command(&pending_path_of(path)))
    };
    Ok(match old {
        None => SnapshotComparison::New(format!("{} is new:\n{text}{next}", path.display())),
        Some(old) => {
            let diff = line_diff(&old, text);
            SnapshotComparison::Differs(format!(
                "{} differs (- snapshot, + now):\n{diff}{next}",
                path.display()
            ))
        }
    })
}

/// The command with which a user reviews a pending snapshot. Snapshots in `snapshots` are found
/// without their path.
pub fn review_command(pending: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = pending.strip_prefix(&here).unwrap_or(pending);
    let path = path.strip_prefix(".").unwrap_or(path);
    if path.starts_with("snapshots") {
        return "schedlab snapshot review".to_owned();
    }
    format!("schedlab snapshot review {}", shell_quoted_word(&path.display().to_string()))
}

/// Replaces a snapshot by its pending version.
///
/// # Errors
/// The file cannot be renamed.
pub fn accept_pending(pending: &Path) -> anyhow::Result<()> {
    std::fs::rename(pending, accepted_path_of(pending))
        .with_context(|| format!("cannot accept {}", pending.display()))
}

/// Deletes a pending snapshot.
///
/// # Errors
/// The file cannot be deleted.
pub fn reject_pending(pending: &Path) -> anyhow::Result<()> {
    files::remove_snapshot(pending)
}

/// How a snapshot would change if its pending version were accepted.
///
/// # Errors
/// A file cannot be read.
pub fn pending_diff(pending: &Path) -> anyhow::Result<String> {
    let new = files::read_snapshot(pending)?.unwrap_or_default();
    let old = files::read_snapshot(&accepted_path_of(pending))?;
    Ok(line_diff(old.as_deref().unwrap_or_default(), &new))
}

/// The path of the pending version: `x.snap.new` for `x.snap`.
fn pending_path_of(path: &Path) -> PathBuf {
    path.with_extension("snap.new")
}

/// The path of the accepted version: `x.snap` for `x.snap.new`.
fn accepted_path_of(pending: &Path) -> PathBuf {
    pending.with_extension("")
}

/// The differing lines with three lines of context; `-` marks the old text, `+` the new one.
pub(crate) fn line_diff(old: &str, new: &str) -> String {
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
    use crate::suite_files::EmbeddedSuite;

    fn compared(path: &Path, text: &str, update: SnapshotUpdate) -> SnapshotComparison {
        let file = SnapshotFile { files: SuiteFiles::Disk, path: path.to_owned() };
        compare_snapshot(&file, "features/f.feature", "a \"gang\"", text, update).unwrap()
    }

    #[test]
    fn an_accepted_snapshot_matches() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("quota/f__a.snap");
        assert!(matches!(
            compared(&path, "n1: 8\n", SnapshotUpdate::New),
            SnapshotComparison::New(_)
        ));
        assert!(!path.exists());
        let waiting = pending_snapshots(&[folder.path().to_path_buf()]);
        assert_eq!(waiting.len(), 1);
        accept_pending(&waiting[0]).unwrap();
        assert_eq!(compared(&path, "n1: 8\n", SnapshotUpdate::New), SnapshotComparison::Same);
        let insta = insta::Snapshot::from_file(&path).unwrap();
        assert_eq!(insta.metadata().expression(), Some("a \"gang\""));
    }

    #[test]
    fn an_embedded_snapshot_is_compared_and_never_written() {
        static SUITE: EmbeddedSuite = EmbeddedSuite {
            version: "1.2.3",
            files: &[("snapshots/f__a.snap", "---\nsource: f\nexpression: a\n---\nn1: 8\n---\n")],
        };
        let compared = |path: &str, text: &str| {
            let file = SnapshotFile { files: SuiteFiles::Embedded(&SUITE), path: path.into() };
            compare_snapshot(&file, "f", "a", text, SnapshotUpdate::Force).unwrap()
        };
        assert_eq!(compared("snapshots/f__a.snap", "n1: 8\n---\n"), SnapshotComparison::Same);
        let hint = "this snapshot is part of schedlab 1.2.3 and not written";
        let SnapshotComparison::Differs(message) = compared("snapshots/f__a.snap", "n1: 7\n---\n")
        else {
            panic!("the texts differ")
        };
        assert!(message.contains("- n1: 8\n+ n1: 7\n") && message.ends_with(hint), "{message}");
        let SnapshotComparison::New(message) = compared("snapshots/f__b.snap", "n1: 7\n") else {
            panic!("there is no such snapshot")
        };
        assert!(message.ends_with(hint), "{message}");
        assert!(!Path::new("snapshots").exists());
    }

    #[test]
    fn the_review_command_finds_the_pending_snapshot() {
        let line = |path: &str| review_command(Path::new(path));
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
        assert_eq!(compared(&path, "n1: 8\n", SnapshotUpdate::Always), SnapshotComparison::Written);
        let SnapshotComparison::Differs(message) = compared(&path, "n1: 7\n", SnapshotUpdate::No)
        else {
            panic!("the texts differ")
        };
        assert!(message.contains("- n1: 8\n+ n1: 7\n"), "{message}");
        assert_eq!(pending_snapshots(&[folder.path().to_path_buf()]), Vec::<PathBuf>::new());
    }

    #[test]
    fn unseen_writes_new_texts_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f__a.snap");
        assert_eq!(compared(&path, "a", SnapshotUpdate::Unseen), SnapshotComparison::Written);
        assert!(matches!(
            compared(&path, "b", SnapshotUpdate::Unseen),
            SnapshotComparison::Differs(_)
        ));
        assert_eq!(pending_snapshots(&[folder.path().to_path_buf()]).len(), 1);
        // Once the text is as accepted again, the pending snapshot is deleted.
        assert_eq!(compared(&path, "a", SnapshotUpdate::Unseen), SnapshotComparison::Same);
        assert_eq!(pending_snapshots(&[folder.path().to_path_buf()]).len(), 0);
    }

    #[test]
    fn ci_never_writes() {
        assert_eq!(SnapshotUpdate::from_env(Some("always"), Ci::Yes), Ok(SnapshotUpdate::No));
        assert_eq!(SnapshotUpdate::from_env(None, Ci::No), Ok(SnapshotUpdate::New));
        assert!(SnapshotUpdate::from_env(Some("perhaps"), Ci::No).is_err());
    }
}
