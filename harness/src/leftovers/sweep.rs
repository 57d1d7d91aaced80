//! Takes away what runs left: the things of their records and processes with their mark.

use std::collections::BTreeSet;
use std::path::Path;

use schedlab_emulator::clock::Clock;
use serde::Serialize;

use super::docker::Docker;
use super::processes::{self, Process};
use super::record::{Life, Record, records};
use super::{KIND_PREFIX, Thing, cluster, objects};
use crate::api::Api;
use crate::tools::{Endpoint, ToolError};

/// Whether to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Take things away.
    Remove,
    /// Only say what would be taken away.
    Look,
}

/// A thing and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// The thing, for people.
    pub thing: String,
    /// What became of it.
    #[serde(flatten)]
    pub end: End,
}

/// What became of a thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum End {
    /// It is gone.
    Removed,
    /// It would be removed.
    There,
    /// It was not there any more, or never.
    Gone,
    /// It was not there, and docker may still be making it.
    NotYet,
    /// It is still there.
    Failed {
        /// Why, and what to do.
        why: String,
    },
    /// Nobody can say whether it is there.
    Unknown {
        /// Why not, and what to do.
        why: String,
    },
}

impl End {
    /// Why it is not known to be gone, where it should be.
    pub fn why_not(&self) -> Option<&str> {
        match self {
            Self::Failed { why } | Self::Unknown { why } => Some(why),
            Self::Removed | Self::There | Self::Gone | Self::NotYet => None,
        }
    }
}

/// What was found of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The run, or the file of a record that cannot be read.
    pub run: String,
    /// What it did.
    pub verb: String,
    /// Whether it lives; one that does is left alone.
    pub life: Life,
    /// Its things.
    pub things: Vec<Swept>,
}

/// Goes through all records of a state folder. That of a run which docker may still make something
/// for stays until that can be no more.
pub async fn clean(state: &Path, doing: Doing) -> anyhow::Result<Vec<RunReport>> {
    let now = Clock::real().now();
    let mut reports = Vec::new();
    for (file, record) in records(state)? {
        let report = match record {
            Err(error) => RunReport {
                run: file.display().to_string(),
                verb: String::new(),
                life: Life::Ended,
                things: vec![unreadable(&error)],
            },
            Ok(record) => {
                let life = record.life();
                let things = match life {
                    Life::Ended => {
                        let record = Record { gone: record.gone.or(Some(now)), ..record.clone() };
                        sweep(&file, &record, record.to_come(now), doing).await
                    }
                    Life::Lives | Life::Elsewhere => Vec::new(),
                };
                RunReport { run: record.id, verb: record.verb, life, things }
            }
        };
        reports.push(report);
    }
    Ok(reports)
}

fn unreadable(error: &anyhow::Error) -> Swept {
    let why = format!("{error:#}; delete the file once nothing of that run is left");
    Swept { thing: "record".to_owned(), end: End::Failed { why } }
}

/// Marked processes, labelled containers and kind clusters of runs without a record in this state folder. Who
/// they belong to is not known here, so they are only told; an empty list when docker is absent.
pub fn unrecorded(state: &Path) -> anyhow::Result<Vec<String>> {
    let known: BTreeSet<String> =
        records(state)?.into_iter().filter_map(|(_, record)| Some(record.ok()?.id)).collect();
    let processes = processes::marked().into_iter().filter(|(id, _)| !known.contains(id));
    let processes = processes
        .map(|(id, process)| format!("process {} of run {id}: {}", process.pid, process.command()));
    let docker = Docker(None);
    let containers = docker.runs().unwrap_or_default().into_iter();
    let containers = containers
        .filter(|id| !known.contains(id))
        .map(|id| format!("containers of run {id}: docker ps -a --filter label=schedlab.run={id}"));
    let clusters = docker.clusters().unwrap_or_default().into_iter();
    let clusters = clusters
        .filter(|name| name.strip_prefix(KIND_PREFIX).is_some_and(|run| !known.contains(run)));
    let clusters =
        clusters.map(|name| format!("kind cluster {name}: kind delete cluster --name {name}"));
    Ok(processes.chain(containers).chain(clusters).collect())
}

/// Why a thing stays. A cluster that was deleted can never be asked again.
fn why_not(thing: &Thing, record: &Path, error: &anyhow::Error) -> String {
    let Thing::Cluster { .. } = thing else { return format!("{error:#}") };
    let record = record.display();
    format!("{error:#} (if that cluster is gone for good, delete the run's record {record})")
}

/// Takes away a run's things, and its record when nothing is left and nothing is to come.
pub(super) async fn sweep(
    file: &Path,
    record: &Record,
    to_come: Vec<Thing>,
    doing: Doing,
) -> Vec<Swept> {
    let mut swept = end_processes(record, doing);
    let mut left: Vec<Thing> = Vec::new();
    for thing in record.things.iter().rev() {
        if matches!(thing, Thing::Process { .. }) {
            continue;
        }
        let end = match left.iter().find(|stays| is_reached_by(stays, thing)) {
            Some(stays) => End::Failed { why: format!("it is the way to {stays}") },
            None => take_away(thing, record, doing)
                .await
                .unwrap_or_else(|error| End::Failed { why: why_not(thing, file, &error) }),
        };
        let end = if end == End::Gone && to_come.contains(thing) { End::NotYet } else { end };
        if end.why_not().is_some() {
            left.push(thing.clone());
        }
        swept.push(Swept { thing: thing.to_string(), end });
    }
    if doing == Doing::Remove {
        let failed = swept.iter().any(|one| one.end.why_not().is_some());
        let things: Vec<Thing> = record
            .things
            .iter()
            .filter(|one| left.contains(one) || to_come.contains(one))
            .cloned()
            .collect();
        let kept = if failed || !things.is_empty() {
            Record { things, ..record.clone() }.write(file)
        } else {
            std::fs::remove_file(file).map_err(anyhow::Error::from)
        };
        if let Err(error) = kept {
            let why = format!("{}: {error:#}", file.display());
            swept.push(Swept { thing: "record".to_owned(), end: End::Failed { why } });
        }
    }
    swept
}

/// Whether a thing that stays cannot be taken away later without the other.
fn is_reached_by(stays: &Thing, other: &Thing) -> bool {
    match (stays, other) {
        (
            Thing::Cluster { kubeconfig, .. }
            | Thing::KeptCluster { kubeconfig, .. }
            | Thing::Object { kubeconfig, .. },
            Thing::Folder { path },
        ) => kubeconfig.starts_with(path),
        (_, _) => false,
    }
}

/// Ends the processes that are noted or marked, until no new one comes.
fn end_processes(record: &Record, doing: Doing) -> Vec<Swept> {
    let mut swept = Vec::new();
    let mut seen = BTreeSet::new();
    loop {
        let found: Vec<Process> =
            alive(record).into_iter().filter(|one| seen.insert((one.pid, one.started))).collect();
        if found.is_empty() {
            return swept;
        }
        let names: Vec<String> = found
            .iter()
            .map(|process| format!("process {} ({})", process.pid, process.command()))
            .collect();
        let stuck = if doing == Doing::Remove { processes::end(&found) } else { Vec::new() };
        for (process, thing) in found.iter().zip(names) {
            let end = match stuck.iter().find(|(one, _)| one == process) {
                Some((_, why)) => End::Failed { why: why.clone() },
                None if doing == Doing::Remove => End::Removed,
                None => End::There,
            };
            swept.push(Swept { thing, end });
        }
    }
}

fn alive(record: &Record) -> Vec<Process> {
    let noted = record.things.iter().filter_map(|thing| match thing {
        Thing::Process { pid, started, .. } => {
            Process::find(*pid).filter(|process| process.started == *started)
        }
        Thing::Folder { .. }
        | Thing::Kubeconfig { .. }
        | Thing::Docker
        | Thing::KindCluster { .. }
        | Thing::Network { .. }
        | Thing::Image { .. }
        | Thing::Cluster { .. }
        | Thing::KeptCluster { .. }
        | Thing::Object { .. } => None,
    });
    // After a reboot, an id and a start time may by chance mean another process.
    let same_boot = record.place == super::record::Place::here();
    let noted = noted.filter(|_| same_boot);
    let marked = processes::marked().into_iter().filter(|(id, _)| *id == record.id);
    let mut all: Vec<Process> = noted.chain(marked.map(|(_, process)| process)).collect();
    all.retain(|process| process.pid != std::process::id());
    all
}

async fn take_away(thing: &Thing, record: &Record, doing: Doing) -> anyhow::Result<End> {
    let (run, daemon) = (&*record.id, record.docker.as_ref());
    let docker = Docker(daemon);
    match thing {
        Thing::Process { .. } => Ok(End::Gone),
        Thing::Folder { path } => remove_folder(path, run, doing),
        Thing::Kubeconfig { path, server } => remove_kubeconfig(path, server, doing),
        Thing::Docker => match docker.of_run(run) {
            Err(error) => Ok(unknown(&error, daemon)),
            Ok(found) => act(!found.is_empty(), doing, || Ok(docker.remove_run(run)?)),
        },
        Thing::KindCluster { name } => match docker.of_cluster(name) {
            Err(error) => Ok(unknown(&error, daemon)),
            Ok(found) => act(!found.is_empty(), doing, || Ok(docker.remove_cluster(name)?)),
        },
        Thing::Network { name } => match docker.has_network(name) {
            Err(error) => Ok(unknown(&error, daemon)),
            Ok(there) => act(there, doing, || Ok(docker.remove_network(name)?)),
        },
        Thing::Image { reference } => match docker.has_image(reference) {
            Err(error) => Ok(unknown(&error, daemon)),
            Ok(there) => act(there, doing, || Ok(docker.remove_image(reference)?)),
        },
        Thing::Cluster { kubeconfig, context, uid } => {
            let api = objects::connect(kubeconfig, context.as_deref()).await?;
            objects::is_still(&api, uid.as_deref()).await?;
            leave_cluster(&api, run, doing).await
        }
        Thing::KeptCluster { name, kubeconfig } => match docker.of_cluster(name) {
            Err(error) => Ok(unknown(&error, daemon)),
            Ok(found) if found.is_empty() => Ok(End::Gone),
            Ok(_) => leave_cluster(&objects::connect(kubeconfig, None).await?, run, doing).await,
        },
        Thing::Object { kubeconfig, context, path } => {
            let api = objects::connect(kubeconfig, context.as_deref()).await?;
            match objects::own(&api, path, run).await? {
                None => Ok(End::Gone),
                Some(_) if doing == Doing::Look => Ok(End::There),
                Some(object) => objects::remove(&api, path, &object).await.map(|()| End::Removed),
            }
        }
    }
}

/// A daemon that tells nothing may have the thing, or an earlier clean may have taken it away.
fn unknown(error: &ToolError, daemon: Option<&Endpoint>) -> End {
    let asked = daemon.map_or_else(String::new, |daemon| format!("{daemon}: "));
    End::Unknown { why: format!("{asked}{error}") }
}

async fn leave_cluster(api: &Api, run: &str, doing: Doing) -> anyhow::Result<End> {
    match cluster::has_any(api, run).await? {
        false => Ok(End::Gone),
        true if doing == Doing::Look => Ok(End::There),
        true => cluster::remove_all(api, run).await.map(|()| End::Removed),
    }
}

fn remove_folder(path: &Path, run: &str, doing: Doing) -> anyhow::Result<End> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A record that somebody edited must not cost him his files.
    anyhow::ensure!(name.contains(run), "its name does not contain {run}: delete it yourself");
    act(path.is_dir(), doing, || Ok(std::fs::remove_dir_all(path)?))
}

fn remove_kubeconfig(path: &Path, server: &str, doing: Doing) -> anyhow::Result<End> {
    // It may have been replaced by another file since.
    let ours = std::fs::read_to_string(path).is_ok_and(|text| text.contains(server));
    act(ours, doing, || Ok(std::fs::remove_file(path)?))
}

fn act(
    there: bool,
    doing: Doing,
    remove: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<End> {
    match (there, doing) {
        (false, _) => Ok(End::Gone),
        (true, Doing::Look) => Ok(End::There),
        (true, Doing::Remove) => remove().map(|()| End::Removed),
    }
}
