//! Removes what runs left behind: the resources in their records, and processes with their mark.

use std::collections::BTreeSet;
use std::path::Path;

use schedlab_emulator::clock::Clock;
use serde::Serialize;

use super::docker::DockerClient;
use super::proc::{self, Process};
use super::run_record::{RunRecord, RunState, read_all_records};
use super::{KIND_PREFIX, Resource, cluster, objects};
use crate::api::Api;
use crate::external_tools::{DockerEndpoint, ToolError};

/// Whether a cleanup removes resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupMode {
    /// Resources are removed.
    Remove,
    /// Resources are only reported.
    DryRun,
}

/// A resource, and what the cleanup did to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CleanupResult {
    /// A description of the resource, for people.
    #[serde(rename = "thing")]
    pub resource: String,
    /// What the cleanup did to the resource.
    #[serde(flatten)]
    pub outcome: CleanupOutcome,
}

/// What a cleanup did to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum CleanupOutcome {
    /// The resource was removed.
    Removed,
    /// The resource exists and would be removed.
    #[serde(rename = "there")]
    Present,
    /// The resource does not exist.
    #[serde(rename = "gone")]
    Absent,
    /// The resource does not exist yet, but docker may still create it.
    #[serde(rename = "not-yet")]
    Pending,
    /// The resource could not be removed and still exists.
    Failed {
        /// Why the removal failed, and what the user can do.
        why: String,
    },
    /// Whether the resource exists is unknown.
    Unknown {
        /// Why that is unknown, and what the user can do.
        why: String,
    },
}

impl CleanupOutcome {
    /// Why the resource could not be removed, or why that is unknown; `None` if neither happened.
    pub fn failure_reason(&self) -> Option<&str> {
        match self {
            Self::Failed { why } | Self::Unknown { why } => Some(why),
            Self::Removed | Self::Present | Self::Absent | Self::Pending => None,
        }
    }
}

/// What a cleanup found of one run and did to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The id of the run, or the path of an unreadable record.
    pub run: String,
    /// The subcommand of schedlab that began the run.
    pub verb: String,
    /// Whether the run's process is still alive. Resources of a run that is alive are left
    /// unchanged.
    #[serde(rename = "life")]
    pub state: RunState,
    /// The resources of the run, and what the cleanup did to them.
    #[serde(rename = "things")]
    pub resources: Vec<CleanupResult>,
}

/// Cleans up after every run recorded in a state folder that has ended. The record of a run stays
/// as long as docker may still create something for it.
///
/// # Errors
/// The records in the state folder cannot be read.
pub async fn clean_finished_runs(
    state: &Path,
    mode: CleanupMode,
) -> anyhow::Result<Vec<RunReport>> {
    let now = Clock::real().now();
    let mut reports = Vec::new();
    for (file, record) in read_all_records(state)? {
        let report = match record {
            Err(error) => RunReport {
                run: file.display().to_string(),
                verb: String::new(),
                state: RunState::Ended,
                resources: vec![unreadable_record_result(&error)],
            },
            Ok(record) => {
                let state = record.run_state();
                let resources = match state {
                    RunState::Ended => {
                        let record = RunRecord {
                            process_gone_at: record.process_gone_at.or(Some(now)),
                            ..record.clone()
                        };
                        clean_run(&file, &record, record.resources_that_may_appear(now), mode).await
                    }
                    RunState::Running | RunState::Unreachable => Vec::new(),
                };
                RunReport { run: record.id, verb: record.verb, state, resources }
            }
        };
        reports.push(report);
    }
    Ok(reports)
}

fn unreadable_record_result(error: &anyhow::Error) -> CleanupResult {
    let why = format!("{error:#}; delete the file when nothing of that run is left");
    CleanupResult { resource: "record".to_owned(), outcome: CleanupOutcome::Failed { why } }
}

/// Marked processes, labelled containers and kind clusters of runs that have no record in this
/// state folder. They are only reported, because their owner is unknown. Empty if docker is absent.
///
/// # Errors
/// The records in the state folder cannot be read.
pub fn find_unrecorded_resources(state: &Path) -> anyhow::Result<Vec<String>> {
    let known: BTreeSet<String> = read_all_records(state)?
        .into_iter()
        .filter_map(|(_, record)| Some(record.ok()?.id))
        .collect();
    let processes =
        proc::processes_marked_with_run().into_iter().filter(|(id, _)| !known.contains(id));
    let processes = processes.map(|(id, process)| {
        format!("process {} of run {id}: {}", process.pid, process.command_line())
    });
    let docker = DockerClient(None);
    let containers = docker.run_ids_of_containers().unwrap_or_default().into_iter();
    let containers = containers
        .filter(|id| !known.contains(id))
        .map(|id| format!("containers of run {id}: docker ps -a --filter label=schedlab.run={id}"));
    let clusters = docker.kind_clusters_with_containers().unwrap_or_default().into_iter();
    let clusters = clusters
        .filter(|name| name.strip_prefix(KIND_PREFIX).is_some_and(|run| !known.contains(run)));
    let clusters =
        clusters.map(|name| format!("kind cluster {name}: kind delete cluster --name {name}"));
    Ok(processes.chain(containers).chain(clusters).collect())
}

/// Why a resource could not be removed. For a cluster the message adds what to do if the cluster
/// was deleted, since it can then never be cleaned up.
fn cleanup_failure_text(resource: &Resource, record: &Path, error: &anyhow::Error) -> String {
    let Resource::Cluster { .. } = resource else { return format!("{error:#}") };
    let record = record.display();
    format!("{error:#} (if that cluster no longer exists, delete the run's record {record})")
}

/// Removes the resources of a run, and the run's record once no resource remains or may still
/// appear.
pub(super) async fn clean_run(
    file: &Path,
    record: &RunRecord,
    may_still_appear: Vec<Resource>,
    mode: CleanupMode,
) -> Vec<CleanupResult> {
    let mut results = end_processes_of_run(record, mode);
    let mut remaining: Vec<Resource> = Vec::new();
    for resource in record.resources.iter().rev() {
        if matches!(resource, Resource::Process { .. }) {
            continue;
        }
        let outcome = match remaining.iter().find(|blocker| needs_for_removal(blocker, resource)) {
            Some(blocker) => CleanupOutcome::Failed {
                why: format!("the folder contains the kubeconfig for {blocker}"),
            },
            None => remove_resource(resource, record, mode).await.unwrap_or_else(|error| {
                CleanupOutcome::Failed { why: cleanup_failure_text(resource, file, &error) }
            }),
        };
        let outcome = if outcome == CleanupOutcome::Absent && may_still_appear.contains(resource) {
            CleanupOutcome::Pending
        } else {
            outcome
        };
        if outcome.failure_reason().is_some() {
            remaining.push(resource.clone());
        }
        results.push(CleanupResult { resource: resource.to_string(), outcome });
    }
    if mode == CleanupMode::Remove {
        let failed = results.iter().any(|one| one.outcome.failure_reason().is_some());
        let resources: Vec<Resource> = record
            .resources
            .iter()
            .filter(|one| remaining.contains(one) || may_still_appear.contains(one))
            .cloned()
            .collect();
        let result = if failed || !resources.is_empty() {
            RunRecord { resources, ..record.clone() }.write_record(file)
        } else {
            std::fs::remove_file(file).map_err(anyhow::Error::from)
        };
        if let Err(error) = result {
            let why = format!("{}: {error:#}", file.display());
            results.push(CleanupResult {
                resource: "record".to_owned(),
                outcome: CleanupOutcome::Failed { why },
            });
        }
    }
    results
}

/// Whether removing `remaining` needs `other`: the folder that contains the kubeconfig.
fn needs_for_removal(remaining: &Resource, other: &Resource) -> bool {
    match (remaining, other) {
        (
            Resource::Cluster { kubeconfig, .. }
            | Resource::KeptCluster { kubeconfig, .. }
            | Resource::Object { kubeconfig, .. },
            Resource::Folder { path },
        ) => kubeconfig.starts_with(path),
        (_, _) => false,
    }
}

/// Terminates the registered and the marked processes of a run until no new one appears.
fn end_processes_of_run(record: &RunRecord, mode: CleanupMode) -> Vec<CleanupResult> {
    let mut results = Vec::new();
    let mut seen = BTreeSet::new();
    loop {
        let found: Vec<Process> = live_processes_of_run(record)
            .into_iter()
            .filter(|one| seen.insert((one.pid, one.started)))
            .collect();
        if found.is_empty() {
            return results;
        }
        let names: Vec<String> = found
            .iter()
            .map(|process| format!("process {} ({})", process.pid, process.command_line()))
            .collect();
        let stuck =
            if mode == CleanupMode::Remove { proc::terminate_all(&found) } else { Vec::new() };
        for (process, name) in found.iter().zip(names) {
            let outcome = match stuck.iter().find(|(one, _)| one == process) {
                Some((_, why)) => CleanupOutcome::Failed { why: why.clone() },
                None if mode == CleanupMode::Remove => CleanupOutcome::Removed,
                None => CleanupOutcome::Present,
            };
            results.push(CleanupResult { resource: name, outcome });
        }
    }
}

fn live_processes_of_run(record: &RunRecord) -> Vec<Process> {
    let registered = record.resources.iter().filter_map(|resource| match resource {
        Resource::Process { pid, started, .. } => {
            Process::from_pid(*pid).filter(|process| process.started == *started)
        }
        Resource::Folder { .. }
        | Resource::Kubeconfig { .. }
        | Resource::Docker
        | Resource::KindCluster { .. }
        | Resource::Network { .. }
        | Resource::Image { .. }
        | Resource::Cluster { .. }
        | Resource::KeptCluster { .. }
        | Resource::Object { .. } => None,
    });
    // After a reboot, a pid and a start time may belong to another process by chance.
    let same_boot = record.pid_namespace == super::run_record::PidNamespace::of_this_process();
    let registered = registered.filter(|_| same_boot);
    let marked = proc::processes_marked_with_run().into_iter().filter(|(id, _)| *id == record.id);
    let mut all: Vec<Process> = registered.chain(marked.map(|(_, process)| process)).collect();
    all.retain(|process| process.pid != std::process::id());
    all
}

async fn remove_resource(
    resource: &Resource,
    record: &RunRecord,
    mode: CleanupMode,
) -> anyhow::Result<CleanupOutcome> {
    let (run, daemon) = (&*record.id, record.docker.as_ref());
    let docker = DockerClient(daemon);
    match resource {
        Resource::Process { .. } => Ok(CleanupOutcome::Absent),
        Resource::Folder { path } => remove_folder(path, run, mode),
        Resource::Kubeconfig { path, server } => remove_kubeconfig(path, server, mode),
        Resource::Docker => match docker.resources_of_run(run) {
            Err(error) => Ok(docker_failure_outcome(&error, daemon)),
            Ok(found) => remove_if_present(!found.is_empty(), mode, || {
                Ok(docker.remove_resources_of_run(run)?)
            }),
        },
        Resource::KindCluster { name } => match docker.containers_of_kind_cluster(name) {
            Err(error) => Ok(docker_failure_outcome(&error, daemon)),
            Ok(found) => {
                remove_if_present(!found.is_empty(), mode, || Ok(docker.remove_kind_cluster(name)?))
            }
        },
        Resource::Network { name } => match docker.has_network(name) {
            Err(error) => Ok(docker_failure_outcome(&error, daemon)),
            Ok(there) => remove_if_present(there, mode, || Ok(docker.remove_network(name)?)),
        },
        Resource::Image { reference } => match docker.has_image(reference) {
            Err(error) => Ok(docker_failure_outcome(&error, daemon)),
            Ok(there) => remove_if_present(there, mode, || Ok(docker.remove_image(reference)?)),
        },
        Resource::Cluster { kubeconfig, context, uid } => {
            let api = objects::connect_to_context(kubeconfig, context.as_deref()).await?;
            objects::check_cluster_uid(&api, uid.as_deref()).await?;
            clean_objects_of_run(&api, run, mode).await
        }
        Resource::KeptCluster { name, kubeconfig } => match docker.containers_of_kind_cluster(name)
        {
            Err(error) => Ok(docker_failure_outcome(&error, daemon)),
            Ok(found) if found.is_empty() => Ok(CleanupOutcome::Absent),
            Ok(_) => {
                clean_objects_of_run(
                    &objects::connect_to_context(kubeconfig, None).await?,
                    run,
                    mode,
                )
                .await
            }
        },
        Resource::Object { kubeconfig, context, path } => {
            let api = objects::connect_to_context(kubeconfig, context.as_deref()).await?;
            match objects::get_if_owned(&api, path, run).await? {
                None => Ok(CleanupOutcome::Absent),
                Some(_) if mode == CleanupMode::DryRun => Ok(CleanupOutcome::Present),
                Some(object) => objects::delete_and_wait(&api, path, &object)
                    .await
                    .map(|()| CleanupOutcome::Removed),
            }
        }
    }
}

/// The outcome if docker's daemon cannot be reached: the resource may still exist, or an earlier
/// cleanup may have removed it.
fn docker_failure_outcome(error: &ToolError, daemon: Option<&DockerEndpoint>) -> CleanupOutcome {
    let endpoint = daemon.map_or_else(String::new, |daemon| format!("{daemon}: "));
    CleanupOutcome::Unknown { why: format!("{endpoint}{error}") }
}

async fn clean_objects_of_run(
    api: &Api,
    run: &str,
    mode: CleanupMode,
) -> anyhow::Result<CleanupOutcome> {
    match cluster::has_objects_of_run(api, run).await? {
        false => Ok(CleanupOutcome::Absent),
        true if mode == CleanupMode::DryRun => Ok(CleanupOutcome::Present),
        true => cluster::delete_objects_of_run(api, run).await.map(|()| CleanupOutcome::Removed),
    }
}

fn remove_folder(path: &Path, run: &str, mode: CleanupMode) -> anyhow::Result<CleanupOutcome> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A manually edited record must not delete the user's own files.
    anyhow::ensure!(
        name.contains(run),
        "the folder's name does not contain {run}: delete it manually"
    );
    remove_if_present(path.is_dir(), mode, || Ok(std::fs::remove_dir_all(path)?))
}

fn remove_kubeconfig(
    path: &Path,
    server: &str,
    mode: CleanupMode,
) -> anyhow::Result<CleanupOutcome> {
    // The file may have been replaced since.
    let is_ours = std::fs::read_to_string(path).is_ok_and(|text| text.contains(server));
    remove_if_present(is_ours, mode, || Ok(std::fs::remove_file(path)?))
}

fn remove_if_present(
    exists: bool,
    mode: CleanupMode,
    remove: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<CleanupOutcome> {
    match (exists, mode) {
        (false, _) => Ok(CleanupOutcome::Absent),
        (true, CleanupMode::DryRun) => Ok(CleanupOutcome::Present),
        (true, CleanupMode::Remove) => remove().map(|()| CleanupOutcome::Removed),
    }
}
