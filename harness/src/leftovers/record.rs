//! A run's record on disk, and whether the run still lives.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Thing;
use super::processes::Process;
use crate::tools::Endpoint;

/// What is known of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Names it.
    pub(super) id: String,
    /// What it does.
    pub(super) verb: String,
    /// When it began.
    pub(super) began: Timestamp,
    /// The process that began it.
    pub(super) pid: u32,
    /// When that process started, in clock ticks since the boot.
    pub(super) started: u64,
    /// Where process ids mean something.
    pub(super) place: Place,
    /// What it made, in that order.
    pub(super) things: Vec<Thing>,
    /// Where docker's daemon listens, if it made something there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) docker: Option<Endpoint>,
    /// When its process was first found gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) gone: Option<Timestamp>,
}

/// How long after its run a thing may still come: docker's daemon goes on with what it was asked for
/// when whoever asked was killed.
const LATE: SignedDuration = SignedDuration::from_mins(10);

/// A set of process ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The machine.
    pub(super) host: String,
    /// One of its boots.
    pub(super) boot: String,
    /// A namespace of process ids on it.
    pub(super) namespace: String,
}

/// Whether a run still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// Its process runs.
    Lives,
    /// Its process is gone.
    Ended,
    /// It runs or ran where its process cannot be seen from here: on another machine with the
    /// same home folder, or in another container.
    Elsewhere,
}

impl Record {
    /// A record for this process under an id of its own, in a new file.
    pub(super) fn begin(
        state: &Path,
        verb: &str,
        now: Timestamp,
    ) -> anyhow::Result<(PathBuf, Self)> {
        // Unique also among runs of one process and second that keep their records apart.
        static BEGUN: AtomicU32 = AtomicU32::new(1);
        let folder = state.join("runs");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let process =
            Process::find(std::process::id()).context("/proc does not know this process")?;
        let base = format!("{}-{}", now.strftime("%Y%m%dt%H%M%S"), process.pid);
        let ids = std::iter::repeat_with(|| match BEGUN.fetch_add(1, Ordering::Relaxed) {
            1 => base.clone(),
            n => format!("{base}-{n}"),
        });
        for id in ids {
            let file = folder.join(format!("{id}.json"));
            match std::fs::File::create_new(&file) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot write {}", file.display()));
                }
            }
            let record = Self {
                id,
                verb: verb.to_owned(),
                began: now,
                pid: process.pid,
                started: process.started,
                place: Place::here(),
                things: Vec::new(),
                docker: None,
                gone: None,
            };
            record.write(&file)?;
            return Ok((file, record));
        }
        unreachable!("numbers do not end")
    }

    /// Reads a record; `None` if it is not there any more, or not written yet.
    pub(super) fn read(file: &Path) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if text.is_empty() {
            return Ok(None);
        }
        let record = serde_json::from_str(&text);
        record.map(Some).with_context(|| format!("{} is no run's record", file.display()))
    }

    /// Writes it: whole or not at all, and on the disk before anything is made.
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let new = file.with_extension("json.new");
        let written = || {
            let mut out = std::fs::File::create(&new)?;
            out.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            out.sync_all()?;
            std::fs::rename(&new, file)
        };
        written().with_context(|| format!("cannot write {}", file.display()))
    }

    /// Those of its things that may be made although its process is gone.
    pub(super) fn to_come(&self, now: Timestamp) -> Vec<Thing> {
        let late = self.gone.is_none_or(|gone| now.duration_since(gone) <= LATE);
        self.things.iter().filter(|thing| late && thing.is_dockers()).cloned().collect()
    }

    /// Whether the run still lives.
    pub(super) fn life(&self) -> Life {
        let here = Place::here();
        if self.place.host != here.host {
            return Life::Elsewhere;
        }
        if self.place.boot != here.boot {
            return Life::Ended;
        }
        if self.place.namespace != here.namespace {
            return Life::Elsewhere;
        }
        match Process::find(self.pid) {
            Some(process) if process.started == self.started => Life::Lives,
            Some(_) | None => Life::Ended,
        }
    }
}

impl Place {
    /// Where this process is.
    pub(super) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
        }
    }
}

/// Every record in a state folder, the oldest first; what cannot be read comes with why.
pub(super) fn records(state: &Path) -> anyhow::Result<Vec<(PathBuf, anyhow::Result<Record>)>> {
    let folder = state.join("runs");
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<std::io::Result<Vec<_>>>),
    };
    let entries = entries
        .with_context(|| format!("the records of runs cannot be read in {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort_by_key(|file| in_order(&file.file_stem().unwrap_or_default().to_string_lossy()));
    let read = |file: PathBuf| match Record::read(&file) {
        Ok(record) => record.map(|record| (file, Ok(record))),
        Err(error) => Some((file, Err(error))),
    };
    Ok(files.into_iter().filter_map(read).collect())
}

/// The parts of an id so that numbers are in the order of numbers.
fn in_order(id: &str) -> Vec<(usize, String)> {
    id.split('-').map(|part| (part.len(), part.to_owned())).collect()
}

/// Where this program keeps what must outlive a crash:
/// `${XDG_STATE_HOME:-~/.local/state}/schedlab`.
pub fn state_folder() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || set("HOME").map(|home| home.join(".local/state"));
    let folder = set("XDG_STATE_HOME").or_else(home);
    let folder = folder.context("no folder for run records: set HOME or XDG_STATE_HOME")?;
    Ok(folder.join("schedlab"))
}
