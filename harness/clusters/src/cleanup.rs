//! Cleanup after runs. Everything that a run creates outside its own memory is registered before it
//! is created, so that `schedlab clean` finds it after a crash. Code that creates something does
//! this:
//!
//! ```text
//! let run = Run::begin("run")?;                       // once per process: one record, one id
//! let folder = run.temp_folder("etcd")?;              // registered, then created
//! let mut etcd = Command::new("etcd");
//! let child = run.spawn(&mut etcd)?;                  // marked, started, registered
//! let (name, value) = run.env_var();                  // the same mark for tokio's `Command`;
//! run.register_process(pid, "etcd")?;                 //   then register its pid
//! run.register(Resource::Docker)?;                    // then `docker run --label {run.label()}`
//! run.register(Resource::KindCluster { name })?;      // then `kind create cluster --name …`
//! run.register(Resource::Image { reference })?;       // then `docker build -t …`
//! run.register(Resource::Cluster { kubeconfig, context, uid })?; // then POST with label `labels::RUN`
//! run.register(Resource::KeptCluster { name, kubeconfig })?; // the same on a kept kind cluster
//! run.register(Resource::Object { kubeconfig, context, path })?; // then POST with label `labels::RUN`
//! run.release(&resource)?;                            // after its creator has removed it
//! let problems = run.end().await;                     // removes everything that is registered
//! ```
//!
//! `Run` is cheap to clone. Dropping it without `end` leaves the record, and the next `schedlab
//! clean` removes the resources, as after `kill -9`. Names that must be unique on a machine or in a
//! cluster can contain [`Run::id`], which is a DNS label.
//!
//! The record is `${XDG_STATE_HOME:-~/.local/state}/schedlab/runs/<id>.json`. A run is alive as
//! long as its process, which is identified by pid and start time because pids are reused. Child
//! processes are marked by an inherited environment variable, so that a process that was started
//! and not yet registered is found, too.

mod cluster;
mod docker;
mod events;
mod objects;
mod proc;
mod reaper;
mod run_record;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use serde::{Deserialize, Serialize};

use proc::Process;
use run_record::RunRecord;

use crate::external_tools::DockerEndpoint;

pub(crate) use cluster::delete_foreign_pods;
pub use reaper::{
    CleanupMode, CleanupOutcome, CleanupResult, RunReport, clean_finished_runs,
    find_unrecorded_resources,
};
pub use run_record::{RunState, state_folder};

/// Docker label of everything that a run creates; its value is the run's id.
pub(crate) const DOCKER_LABEL: &str = "schedlab.run";
/// Prefix of the names of kind clusters that are deleted at the end of their run; the run's id
/// follows.
pub(crate) const KIND_PREFIX: &str = "schedlab-";
/// Prefix of labels on objects that several runs use at the same time. Each run that uses such an
/// object adds a label: this prefix and the run's id.
pub(crate) const USE_LABEL_PREFIX: &str = "run.schedlab.dev/";
/// Environment variable that marks the child processes of a run; its value is the run's id.
const RUN_ID_ENV: &str = "SCHEDLAB_RUN";

/// A resource outside this process that a run has created or is about to create.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Resource {
    /// A child process.
    Process {
        /// The process id.
        pid: u32,
        /// The start time of the process, in clock ticks since the boot.
        started: u64,
        /// The command line, for people.
        command: String,
    },
    /// A folder for temporary files; its name contains the run's id.
    Folder {
        /// The absolute path of the folder.
        path: PathBuf,
    },
    /// A kubeconfig file that this program writes.
    Kubeconfig {
        /// The absolute path of the kubeconfig.
        path: PathBuf,
        /// The server that the kubeconfig names. The file is removed only if it still names this
        /// server.
        server: String,
    },
    /// Everything in docker with the run's label: containers, networks, volumes and images.
    Docker,
    /// A kind cluster: containers that kind labels with the cluster's name.
    KindCluster {
        /// The name of the kind cluster.
        name: String,
    },
    /// A docker network that kind created without a label. It stays while other kind clusters use
    /// it.
    Network {
        /// The name of the network.
        name: String,
    },
    /// A docker image that no later run needs.
    Image {
        /// The name and tag of the image.
        reference: String,
    },
    /// All objects with the run's label on an existing cluster, and the objects there that several
    /// runs use, once no other run uses them.
    Cluster {
        /// A kubeconfig for the cluster.
        kubeconfig: PathBuf,
        /// The context in the kubeconfig; `None` is the current one.
        context: Option<String>,
        /// The uid of the cluster's namespace `kube-system`, if it had one. Cleanup refuses to
        /// touch a cluster with another uid.
        #[serde(default)]
        uid: Option<String>,
    },
    /// Objects of the run on a kind cluster that is kept. If the cluster was deleted meanwhile,
    /// nothing remains.
    KeptCluster {
        /// The name of the kind cluster.
        name: String,
        /// A kubeconfig for the cluster, in a folder of the run.
        kubeconfig: PathBuf,
    },
    /// One object of an existing cluster, usually a namespace or cluster-scoped. It is deleted only
    /// if it has the run's label.
    Object {
        /// A kubeconfig for the cluster.
        kubeconfig: PathBuf,
        /// The context in the kubeconfig; `None` is the current one.
        context: Option<String>,
        /// The path of the object in the API, for example `/api/v1/namespaces/x`.
        path: String,
    },
}

/// One run of schedlab, with the record of the resources that it creates. Clones share the record.
#[derive(Clone, Debug)]
pub struct Run(Arc<RunInner>);

#[derive(Debug)]
struct RunInner {
    id: String,
    file: PathBuf,
    record: Mutex<RunRecord>,
}

impl Run {
    /// Begins a run and writes its record. `verb` is the subcommand, for people.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn begin(verb: &str) -> anyhow::Result<Self> {
        Self::begin_in(&state_folder()?, verb)
    }

    /// Like [`Self::begin`], with the records in another state folder.
    pub(crate) fn begin_in(state: &Path, verb: &str) -> anyhow::Result<Self> {
        let (file, record) = RunRecord::create(state, verb, Clock::real().now())?;
        let id = record.id.clone();
        Ok(Self(Arc::new(RunInner { id, file, record: Mutex::new(record) })))
    }

    /// The id of the run, which is used in labels and names. It is a DNS label and unique on this
    /// machine.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The prefix of all names that scenarios of the run create on a cluster: see
    /// [`short_name_from_run_id`].
    pub(crate) fn name_prefix(&self) -> String {
        short_name_from_run_id(self.id())
    }

    /// The label that marks the run's containers, as the argument of docker's `--label`.
    pub fn docker_label(&self) -> String {
        format!("{DOCKER_LABEL}={}", self.id())
    }

    /// The environment variable, with its value, by which `schedlab clean` recognizes a child
    /// process of the run.
    pub(crate) fn run_id_env(&self) -> (&'static str, &str) {
        (RUN_ID_ENV, self.id())
    }

    /// Adds a resource to the run's record. Call this function before creating the resource.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn register(&self, resource: Resource) -> anyhow::Result<()> {
        if resource.needs_docker_daemon() && self.lock_record().docker.is_none() {
            let daemon = DockerEndpoint::from_docker_context_blocking();
            self.lock_record().docker = daemon;
        }
        self.update_resources(|resources| {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        })
    }

    /// Removes a resource from the run's record, after its creator has removed the resource itself.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn release(&self, resource: &Resource) -> anyhow::Result<()> {
        self.update_resources(|resources| resources.retain(|known| known != resource))
    }

    /// Creates a folder for temporary files and adds it to the run's record.
    ///
    /// # Errors
    /// The folder cannot be created or the record cannot be written.
    pub fn temp_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = std::env::temp_dir().join(format!("schedlab-{}-{name}", self.id()));
        self.register(Resource::Folder { path: path.clone() })?;
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Starts a process and adds it to the run's record.
    ///
    /// # Errors
    /// The process cannot be started or the record cannot be written.
    pub fn spawn(&self, command: &mut Command) -> anyhow::Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (name, id) = self.run_id_env();
        let child = command.env(name, id).spawn();
        let child = child.with_context(|| format!("cannot start {program}"))?;
        self.register_process(child.id(), &program)?;
        Ok(child)
    }

    /// Registers a process that was started with [`Run::run_id_env`]. Does nothing if it has ended.
    pub(crate) fn register_process(&self, pid: u32, command: &str) -> anyhow::Result<()> {
        let Some(process) = Process::from_pid(pid) else { return Ok(()) };
        self.register(Resource::Process {
            pid,
            started: process.started,
            command: command.to_owned(),
        })
    }

    /// Removes all resources of the run's record, and then the record. Returns the resources that
    /// could not be removed; the record keeps them.
    pub async fn end(self) -> Vec<CleanupResult> {
        let record = self.lock_record().clone();
        let results =
            reaper::clean_run(&self.0.file, &record, Vec::new(), CleanupMode::Remove).await;
        results.into_iter().filter(|result| result.outcome.failure_reason().is_some()).collect()
    }

    fn update_resources(&self, change: impl FnOnce(&mut Vec<Resource>)) -> anyhow::Result<()> {
        let mut record = self.lock_record();
        change(&mut record.resources);
        record.write_record(&self.0.file)
    }

    fn lock_record(&self) -> MutexGuard<'_, RunRecord> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A short word derived from the id of a run. It has no vowels, so no other word contains it.
fn short_name_from_run_id(id: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz";
    // FNV-1a: another build that cleans up computes the same word.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut name = "q".to_owned();
    for _ in 0..5 {
        let index = usize::try_from(hash % LETTERS.len() as u64).unwrap_or(0);
        hash /= LETTERS.len() as u64;
        name.push(char::from(LETTERS[index]));
    }
    name
}

impl Resource {
    /// Whether only docker's daemon can tell whether the resource exists.
    fn needs_docker_daemon(&self) -> bool {
        self.is_created_by_docker() || matches!(self, Self::Image { .. } | Self::KeptCluster { .. })
    }

    /// Whether docker's daemon creates the resource. It may do so even after the docker client was
    /// killed.
    fn is_created_by_docker(&self) -> bool {
        match self {
            Self::Docker | Self::KindCluster { .. } | Self::Network { .. } => true,
            Self::Process { .. }
            | Self::Folder { .. }
            | Self::Kubeconfig { .. }
            | Self::Image { .. }
            | Self::Cluster { .. }
            | Self::KeptCluster { .. }
            | Self::Object { .. } => false,
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, command, .. } => write!(f, "process {pid} ({command})"),
            Self::Folder { path } => write!(f, "folder {}", path.display()),
            Self::Kubeconfig { path, .. } => write!(f, "kubeconfig {}", path.display()),
            Self::Docker => f.write_str("docker objects with the run's label"),
            Self::KindCluster { name } => write!(f, "kind cluster {name}"),
            Self::Network { name } => write!(f, "docker network {name}"),
            Self::Image { reference } => write!(f, "docker image {reference}"),
            Self::Cluster { kubeconfig, context, .. } => {
                write!(f, "objects on the cluster of {}", kubeconfig.display())?;
                context.as_ref().map_or(Ok(()), |context| write!(f, " ({context})"))
            }
            Self::KeptCluster { name, .. } => write!(f, "objects on kind cluster {name}"),
            Self::Object { kubeconfig, context, path } => {
                write!(f, "{path} of {}", kubeconfig.display())?;
                context.as_ref().map_or(Ok(()), |context| write!(f, " ({context})"))
            }
        }
    }
}

#[cfg(test)]
mod tests;
