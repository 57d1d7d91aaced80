//! Evidence: a zip with what a learner did and the cluster at its end. Each entry has its SHA-256,
//! and the whole has a seal, so that an entry that was edited is found.
//!
//! The seal needs no secret that the learner does not have: it finds edits, not a forger who
//! computes it anew. So [`Evidence::problems`] also computes the answers again, from the cluster at
//! the moment at which the question's task was solved. The evidence names no right answer itself.

use std::collections::BTreeMap;
use std::io::{Cursor, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use schedlab_api::Value;
use schedlab_emulator::store::{EventKind, LogEntry};
use serde::{Deserialize, Serialize};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::digest::sha256;
use crate::lesson::Lesson;
use crate::record::{Record, is_same_answer};

const RECORD_ENTRY: &str = "record.json";
const CLUSTER_ENTRY: &str = "cluster.json";
const HISTORY_ENTRY: &str = "history.jsonl";
const SUMS_ENTRY: &str = "SHA256SUMS";
const SEAL_ENTRY: &str = "seal";

/// What the seal begins with, so that it is no plain digest of the sums.
const SEAL_PREFIX: &str = "schedlab lab evidence v1\n";

/// Maximum size of an entry in bytes.
const ENTRY_BYTES_MAX: u64 = 256 << 20;

/// What a learner did, and the cluster at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How far the learner has come.
    pub record: Record,
    /// The text of each entry, by its name.
    entries: BTreeMap<String, String>,
}

/// A write to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryLine {
    /// Revision of the write.
    pub revision: u64,
    /// When, on the cluster's clock.
    pub time: String,
    /// `added`, `modified` or `deleted`.
    pub change: String,
    /// Kind of the object, as the plural of its resource.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The client that wrote.
    pub by: String,
}

impl Evidence {
    pub(crate) fn new(
        record: &Record,
        cluster: &Value,
        solved_clusters: &BTreeMap<String, String>,
        log: &[Arc<LogEntry>],
        collected: String,
    ) -> Self {
        let mut text = serde_json::to_value(record).unwrap_or_default();
        text["collected"] = collected.into();
        let history = log.iter().filter_map(|entry| history_line(entry));
        let history = history.collect::<Vec<_>>().join("\n");
        let mut entries = BTreeMap::from([
            (RECORD_ENTRY.to_owned(), format!("{text:#}\n")),
            (CLUSTER_ENTRY.to_owned(), format!("{cluster:#}\n")),
            (HISTORY_ENTRY.to_owned(), format!("{history}\n")),
        ]);
        let with_end = |(name, text): (&String, &String)| (name.clone(), format!("{text}\n"));
        entries.extend(solved_clusters.iter().map(with_end));
        Self { record: record.clone(), entries }
    }

    /// Writes the zip.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let bytes = self.to_zip().context("cannot make a zip")?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    fn to_zip(&self) -> anyhow::Result<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
        let sums = sums_text(&self.entries);
        let own = [(SUMS_ENTRY, sums.clone()), (SEAL_ENTRY, seal_of(&sums) + "\n")];
        let entries = self.entries.iter().map(|(name, text)| (name.as_str(), text.clone()));
        for (name, text) in entries.chain(own) {
            zip.start_file(name, options)?;
            zip.write_all(text.as_bytes())?;
        }
        Ok(zip.finish()?.into_inner())
    }

    /// Reads a zip.
    ///
    /// # Errors
    /// The file is no evidence, or it was edited; the message names the entry.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path)?;
        let mut entries = read_entries(&bytes)?;
        let mut take = |name: &str| {
            entries.remove(name).with_context(|| format!("no evidence: it has no {name}"))
        };
        let (sums, seal) = (take(SUMS_ENTRY)?, take(SEAL_ENTRY)?);
        if seal.trim() != seal_of(&sums) {
            return Err(anyhow!("edited: {SUMS_ENTRY} does not fit the seal"));
        }
        check_sums(&sums, &entries)?;
        let record = entries.get(RECORD_ENTRY).context("no evidence: it has no record.json")?;
        let record =
            serde_json::from_str(record).map_err(|error| anyhow!("{RECORD_ENTRY}: {error}"))?;
        Ok(Self { record, entries })
    }

    /// Where the evidence is written, so that no other work is lost: `path`, or the first of
    /// `NAME-2.zip`, `NAME-3.zip`, … that does not exist or may be overwritten.
    pub fn free_path(&self, path: &Path) -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = (2..).map(|number| path.with_file_name(format!("{stem}-{number}.zip")));
        let mut candidates = std::iter::once(path.to_owned()).chain(numbered);
        candidates.find(|path| self.may_overwrite(path)).expect("there is no last number")
    }

    /// Whether a file can be written without losing work: it does not exist, it is evidence in which
    /// nothing is solved, or an earlier state of the same session.
    pub fn may_overwrite(&self, path: &Path) -> bool {
        if !path.exists() {
            return true;
        }
        let Ok(Self { record, .. }) = Self::read(path) else { return false };
        let is_earlier = record.session == self.record.session
            && record.progress() <= self.record.progress()
            && record.resets == self.record.resets;
        record.progress() == (0, 0) || is_earlier
    }

    /// The SHA-256 of the entries, equal for copies of a file.
    pub(crate) fn digest(&self) -> String {
        sha256(sums_text(&self.entries).as_bytes())
    }

    /// The cluster at the end, as questions see it.
    pub fn cluster(&self) -> &str {
        self.entries.get(CLUSTER_ENTRY).map_or("{}", String::as_str)
    }

    /// The writes to the cluster.
    ///
    /// # Errors
    /// A line cannot be read.
    pub fn history(&self) -> anyhow::Result<Vec<HistoryLine>> {
        let text = self.entries.get(HISTORY_ENTRY).map_or("", String::as_str);
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
        lines
            .map(|(index, line)| {
                serde_json::from_str(line)
                    .map_err(|error| anyhow!("{HISTORY_ENTRY}:{}: {error}", index + 1))
            })
            .collect()
    }

    /// What does not fit together: the lesson is another one, an answer counts as right and is not,
    /// or a task is solved and no client ever wrote to the cluster.
    pub fn problems(&self, lesson: &Lesson) -> Vec<String> {
        let mut problems = Vec::new();
        if self.record.lesson_digest != lesson.digest() {
            problems.push(format!("it is of another version of lesson {}", lesson.id));
        }
        let titles = lesson.tasks.iter().map(super::lesson::Task::title);
        if !titles.eq(self.record.tasks.iter().map(|task| task.title.as_str())) {
            problems.push("its tasks are not those of the lesson".to_owned());
        }
        problems.extend(self.answer_problems(lesson));
        match self.history() {
            Err(error) => problems.push(error.to_string()),
            Ok(history) => problems.extend(self.history_problems(&history)),
        }
        problems
    }

    /// Computes right answers again.
    fn answer_problems(&self, lesson: &Lesson) -> Vec<String> {
        let mut problems = Vec::new();
        for (index, answer) in self.record.answers.iter().enumerate().filter(|(_, it)| it.is_right)
        {
            let cluster = answer.cluster.as_ref().and_then(|entry| self.entries.get(entry));
            let expected = match (lesson.quiz.get(index), cluster) {
                (Some(question), Some(cluster)) => question.answers.results(cluster),
                (None, _) | (_, None) => Ok(Vec::new()),
            };
            let given = answer.given.as_deref().unwrap_or_default();
            let is_right = expected.iter().flatten().any(|one| is_same_answer(one, given));
            if !is_right {
                problems.push(format!("answer {} counts as right and is not", index + 1));
            }
        }
        problems
    }

    fn history_problems(&self, history: &[HistoryLine]) -> Vec<String> {
        let mut problems = Vec::new();
        if history.windows(2).any(|pair| pair[0].revision >= pair[1].revision) {
            problems.push("the revisions of its history do not grow".to_owned());
        }
        let last = history.last().map(|line| line.time.as_str()).unwrap_or_default();
        for task in self.record.tasks.iter().filter(|task| task.is_solved()) {
            let solved = task.solved_at.as_deref().unwrap_or_default();
            let started = self.record.started.as_str();
            if parse_time(solved) < parse_time(started) || history.is_empty() || last.is_empty() {
                problems.push(format!("task {:?} was solved before the lesson began", task.title));
            }
        }
        problems
    }
}

fn parse_time(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}

/// A write as one line; `None` for writes that say nothing, such as renewed leases.
fn history_line(entry: &LogEntry) -> Option<String> {
    if matches!(&*entry.key.resource.plural, "leases" | "customresourcedefinitions") {
        return None;
    }
    let change = match entry.kind {
        EventKind::Added => "added",
        EventKind::Modified => "modified",
        EventKind::Deleted => "deleted",
    };
    let line = HistoryLine {
        revision: entry.revision,
        time: entry.time.to_string(),
        change: change.to_owned(),
        kind: entry.key.resource.plural.to_string(),
        namespace: entry.key.namespace.to_string(),
        name: entry.key.name.to_string(),
        by: entry.manager.to_string(),
    };
    serde_json::to_string(&line).ok()
}

fn sums_text(entries: &BTreeMap<String, String>) -> String {
    let line = |(name, text): (&String, &String)| format!("{}  {name}\n", sha256(text.as_bytes()));
    entries.iter().map(line).collect()
}

fn seal_of(sums: &str) -> String {
    sha256(format!("{SEAL_PREFIX}{sums}").as_bytes())
}

fn check_sums(sums: &str, entries: &BTreeMap<String, String>) -> anyhow::Result<()> {
    let expected: BTreeMap<&str, &str> = sums
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, name)| (name, sum))
        .collect();
    for (name, text) in entries {
        match expected.get(name.as_str()) {
            None => return Err(anyhow!("edited: {name} was added")),
            Some(sum) if *sum != sha256(text.as_bytes()) => {
                return Err(anyhow!("edited: {name} does not have the content that was collected"));
            }
            Some(_) => {}
        }
    }
    match expected.keys().find(|name| !entries.contains_key(**name)) {
        Some(name) => Err(anyhow!("edited: {name} was removed")),
        None => Ok(()),
    }
}

fn read_entries(bytes: &[u8]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut archive = ZipArchive::new(Cursor::new(bytes))
        .map_err(|error| anyhow!("no evidence: got no zip ({error})"))?;
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name().to_owned();
        let mut text = String::new();
        entry
            .by_ref()
            .take(ENTRY_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| anyhow!("{name}: {error}"))?;
        entries.insert(name, text);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
