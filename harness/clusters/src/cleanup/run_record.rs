//! The record of a run on disk, and whether the run is still alive.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::Resource;
use super::proc::Process;
use crate::external_tools::DockerEndpoint;

/// The record of a run: its process, and the resources that it created. In the file it is JSON,
/// with the names given by `serde`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// The id of the run.
    pub(super) id: String,
    /// The subcommand of schedlab.
    pub(super) verb: String,
    /// When the run began.
    #[serde(rename = "began")]
    pub(super) began_at: Timestamp,
    /// The process id of the run.
    pub(super) pid: u32,
    /// The start time of the run's process, in clock ticks since the boot.
    pub(super) started: u64,
    /// The pid namespace of the run's process.
    #[serde(rename = "place")]
    pub(super) pid_namespace: PidNamespace,
    /// The resources that the run created, in the order of creation.
    #[serde(rename = "things")]
    pub(super) resources: Vec<Resource>,
    /// The endpoint of docker's daemon, if resources were created there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) docker: Option<DockerEndpoint>,
    /// When the run's process was first found to have ended.
    #[serde(rename = "gone", default, skip_serializing_if = "Option::is_none")]
    pub(super) process_gone_at: Option<Timestamp>,
}

/// How long after the end of a run docker's daemon may still create a resource for it: the daemon
/// completes a request even if the client was killed.
const DOCKER_DELAY_MAX: SignedDuration = SignedDuration::from_mins(10);

/// Where process ids are unambiguous: a pid namespace during one boot of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PidNamespace {
    /// The host name of the machine.
    pub(super) host: String,
    /// The id of the boot, from `/proc/sys/kernel/random/boot_id`.
    pub(super) boot: String,
    /// The pid namespace, as `/proc/self/ns/pid` shows it.
    pub(super) namespace: String,
}

/// Whether a run is still alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// The run's process is running.
    #[serde(rename = "lives")]
    Running,
    /// The run's process has ended.
    Ended,
    /// Unknown: the run's process cannot be inspected from here, because it is on another machine
    /// with the same home folder or in another container.
    #[serde(rename = "elsewhere")]
    Unreachable,
}

impl RunRecord {
    /// Creates a record with a new id for this process, in a new file.
    pub(super) fn create(
        state: &Path,
        verb: &str,
        now: Timestamp,
    ) -> anyhow::Result<(PathBuf, Self)> {
        // Also distinguishes runs of one process that begin in the same second in different state
        // folders.
        static COUNTER: AtomicU32 = AtomicU32::new(1);
        let folder = state.join("runs");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let process =
            Process::from_pid(std::process::id()).context("cannot find this process in /proc")?;
        let base = format!("{}-{}", now.strftime("%Y%m%dt%H%M%S"), process.pid);
        let ids = std::iter::repeat_with(|| match COUNTER.fetch_add(1, Ordering::Relaxed) {
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
                began_at: now,
                pid: process.pid,
                started: process.started,
                pid_namespace: PidNamespace::of_this_process(),
                resources: Vec::new(),
                docker: None,
                process_gone_at: None,
            };
            record.write_record(&file)?;
            return Ok((file, record));
        }
        unreachable!("the iterator of ids is infinite")
    }

    /// Reads a record. `None` if the file does not exist any more or is not written yet.
    pub(super) fn read_record(file: &Path) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if text.is_empty() {
            return Ok(None);
        }
        let record = serde_json::from_str(&text);
        record.map(Some).with_context(|| format!("{} is not the record of a run", file.display()))
    }

    /// Writes the record atomically and syncs it to the disk, so that it survives a crash once this
    /// returns.
    pub(super) fn write_record(&self, file: &Path) -> anyhow::Result<()> {
        let new = file.with_extension("json.new");
        let written = || {
            let mut out = std::fs::File::create(&new)?;
            out.write_all(serde_json::to_string_pretty(self)?.as_bytes())?;
            out.sync_all()?;
            std::fs::rename(&new, file)
        };
        written().with_context(|| format!("cannot write {}", file.display()))
    }

    /// Resources that docker may still create although the run's process has ended.
    pub(super) fn resources_that_may_appear(&self, now: Timestamp) -> Vec<Resource> {
        let is_possible =
            self.process_gone_at.is_none_or(|gone| now.duration_since(gone) <= DOCKER_DELAY_MAX);
        self.resources
            .iter()
            .filter(|resource| is_possible && resource.is_created_by_docker())
            .cloned()
            .collect()
    }

    /// Whether the run's process is still alive.
    pub(super) fn run_state(&self) -> RunState {
        let current = PidNamespace::of_this_process();
        if self.pid_namespace.host != current.host {
            return RunState::Unreachable;
        }
        if self.pid_namespace.boot != current.boot {
            return RunState::Ended;
        }
        if self.pid_namespace.namespace != current.namespace {
            return RunState::Unreachable;
        }
        match Process::from_pid(self.pid) {
            Some(process) if process.started == self.started => RunState::Running,
            Some(_) | None => RunState::Ended,
        }
    }
}

impl PidNamespace {
    /// The pid namespace of this process.
    pub(super) fn of_this_process() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.to_string_lossy().into_owned(),
        }
    }
}

/// All records in a state folder, oldest first. In place of a record that cannot be read is the
/// error.
pub(super) fn read_all_records(
    state: &Path,
) -> anyhow::Result<Vec<(PathBuf, anyhow::Result<RunRecord>)>> {
    let folder = state.join("runs");
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<std::io::Result<Vec<_>>>),
    };
    let entries = entries
        .with_context(|| format!("cannot read the records of runs in {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort_by_key(|file| {
        natural_sort_key(&file.file_stem().unwrap_or_default().to_string_lossy())
    });
    let read = |file: PathBuf| match RunRecord::read_record(&file) {
        Ok(record) => record.map(|record| (file, Ok(record))),
        Err(error) => Some((file, Err(error))),
    };
    Ok(files.into_iter().filter_map(read).collect())
}

/// A sort key for run ids that compares the numbers in them numerically.
fn natural_sort_key(id: &str) -> Vec<(usize, String)> {
    id.split('-').map(|part| (part.len(), part.to_owned())).collect()
}

/// The folder for state that must outlive a crash: `${XDG_STATE_HOME:-~/.local/state}/schedlab`.
///
/// # Errors
/// Neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
pub fn state_folder() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || set("HOME").map(|home| home.join(".local/state"));
    let folder = set("XDG_STATE_HOME").or_else(home);
    let folder = folder.context("no folder for run records: set HOME or XDG_STATE_HOME")?;
    Ok(folder.join("schedlab"))
}
