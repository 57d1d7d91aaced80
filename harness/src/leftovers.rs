//! What a run makes outside its own memory, noted before it is made, so that `schedlab clean`
//! finds it after a crash. Who makes something, as a cluster or a scheduler of its own, does this:
//!
//! ```text
//! let run = Run::begin("run")?;                        // once a process: one record, one id
//! let folder = run.temp_folder("etcd")?;               // noted, then made
//! let mut etcd = Command::new("etcd");
//! let child = run.spawn(&mut etcd)?;                   // marked, started, noted
//! let (name, value) = run.mark();                      // the same mark for tokio's `Command`;
//! run.started(pid, "etcd")?;                           //   then say its process id
//! run.note(Thing::Docker)?;                            // then `docker run --label {run.label()}`
//! run.note(Thing::KindCluster { name })?;              // then `kind create cluster --name …`
//! run.note(Thing::Image { reference })?;               // then `docker build -t …` of one to drop
//! run.note(Thing::Cluster { kubeconfig, context, uid })?; // then make what bears OBJECT_LABEL there
//! run.note(Thing::KeptCluster { name, kubeconfig })?;  // the same on a kind cluster that stays
//! run.note(Thing::Object { kubeconfig, context, path })?; // then POST, with label OBJECT_LABEL=id
//! run.forget(&thing)?;                                 // once its maker has taken it away itself
//! let problems = run.end().await;                      // takes away all that is still noted
//! ```
//!
//! `Run` is cheap to clone. Dropping it without `end` leaves the record: then the next
//! `schedlab clean` does the work, as after `kill -9`. Names that must be unique on a machine or
//! in a cluster may contain [`Run::id`], which is a DNS label.
//!
//! The record is `${XDG_STATE_HOME:-~/.local/state}/schedlab/runs/<id>.json`. A run lives as long
//! as the process that began it, told by its id and start time: a new process under an old id
//! is somebody else. Processes are marked by an environment variable that their children
//! inherit, so that one that was started and not yet noted is found all the same.

mod cluster;
mod docker;
mod news;
mod objects;
mod processes;
mod record;
mod sweep;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use schedlab_emulator::clock::Clock;
use serde::{Deserialize, Serialize};

use processes::Process;
use record::Record;

use crate::tools::Endpoint;

pub(crate) use cluster::end_guests;
pub use record::{Life, state_folder};
pub use sweep::{Doing, End, RunReport, Swept, clean, unrecorded};

/// Label of docker's things; its value is the run's id.
pub const DOCKER_LABEL: &str = "schedlab.run";
/// Names of kind clusters that go with their run: this and the run's id.
pub const KIND_PREFIX: &str = "schedlab-";
/// Label of objects on a cluster that was there before; its value is the run's id.
pub const OBJECT_LABEL: &str = "schedlab.dev/run";
/// Labels of what runs share on a cluster begin with it, one for each run that uses it.
pub const USE_LABEL: &str = "run.schedlab.dev/";
/// Environment variable of child processes; its value is the run's id.
const MARK: &str = "SCHEDLAB_RUN";

/// Something outside this process that a run made or is about to make.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Thing {
    /// A child process.
    Process {
        /// Its id.
        pid: u32,
        /// When it started, in clock ticks since the machine's boot.
        started: u64,
        /// What it is, for people.
        command: String,
    },
    /// A folder for temporary files, whose name contains the run's id.
    Folder {
        /// Where it is.
        path: PathBuf,
    },
    /// A kubeconfig file that this program writes.
    Kubeconfig {
        /// Where it is.
        path: PathBuf,
        /// To what server it leads, if nobody has written it anew.
        server: String,
    },
    /// Whatever docker has under the run's label: containers, networks, volumes, images.
    Docker,
    /// A kind cluster: containers that kind labels with the cluster's name.
    KindCluster {
        /// Its name.
        name: String,
    },
    /// A docker network that kind made and cannot label; it stays while others use it.
    Network {
        /// Its name.
        name: String,
    },
    /// A docker image that is of no use to a later run.
    Image {
        /// Its name and tag.
        reference: String,
    },
    /// Whatever a cluster that was there before has under the run's label, and what runs share
    /// there once no other run uses it.
    Cluster {
        /// How to reach the cluster.
        kubeconfig: PathBuf,
        /// Which of its contexts, unless the current one.
        context: Option<String>,
        /// Which cluster that was then: the uid of its namespace `kube-system`, if it has one.
        #[serde(default)]
        uid: Option<String>,
    },
    /// The same on a kind cluster that is kept; nothing once somebody has deleted that.
    KeptCluster {
        /// Its name.
        name: String,
        /// How to reach it, in a folder of the run.
        kubeconfig: PathBuf,
    },
    /// An object on a cluster that was there before, cluster-scoped ones and namespaces above
    /// all. It is deleted only if it has the run's label.
    Object {
        /// How to reach the cluster.
        kubeconfig: PathBuf,
        /// Which of its contexts, unless the current one.
        context: Option<String>,
        /// The object's path in the API, as `/api/v1/namespaces/x`.
        path: String,
    },
}

/// A run of this program that notes what it makes.
#[derive(Clone, Debug)]
pub struct Run(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: String,
    file: PathBuf,
    record: Mutex<Record>,
}

impl Run {
    /// Begins a record for this process. `verb` says what it does, for people.
    pub fn begin(verb: &str) -> anyhow::Result<Self> {
        Self::begin_in(&state_folder()?, verb)
    }

    /// The same, with the records in a folder of the caller's choice.
    pub fn begin_in(state: &Path, verb: &str) -> anyhow::Result<Self> {
        let (file, record) = Record::begin(state, verb, Clock::real().now())?;
        let id = record.id.clone();
        Ok(Self(Arc::new(Inner { id, file, record: Mutex::new(record) })))
    }

    /// Names this run, also in labels and names of things: a DNS label, unique on this machine.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Begins the names of all that scenarios make on a cluster: see [`name_of`].
    pub fn name(&self) -> String {
        name_of(self.id())
    }

    /// The label for docker's `--label`.
    pub fn label(&self) -> String {
        format!("{DOCKER_LABEL}={}", self.id())
    }

    /// The environment variable that every child process needs to be found by.
    pub fn mark(&self) -> (&'static str, &str) {
        (MARK, self.id())
    }

    /// Notes a thing. Call it before the thing is made.
    pub fn note(&self, thing: Thing) -> anyhow::Result<()> {
        if thing.is_with_docker() && self.record().docker.is_none() {
            let daemon = Endpoint::now();
            self.record().docker = daemon;
        }
        self.change(|things| {
            if !things.contains(&thing) {
                things.push(thing);
            }
        })
    }

    /// A thing that its maker has taken away.
    pub fn forget(&self, thing: &Thing) -> anyhow::Result<()> {
        self.change(|things| things.retain(|known| known != thing))
    }

    /// Makes a folder for temporary files.
    pub fn temp_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = std::env::temp_dir().join(format!("schedlab-{}-{name}", self.id()));
        self.note(Thing::Folder { path: path.clone() })?;
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        Ok(path)
    }

    /// Starts a process.
    pub fn spawn(&self, command: &mut Command) -> anyhow::Result<Child> {
        let program = command.get_program().to_string_lossy().into_owned();
        let (name, id) = self.mark();
        let child = command.env(name, id).spawn();
        let child = child.with_context(|| format!("cannot start {program}"))?;
        self.started(child.id(), &program)?;
        Ok(child)
    }

    /// Notes a process that was started with [`Run::mark`]. One that has ended is no news.
    pub fn started(&self, pid: u32, command: &str) -> anyhow::Result<()> {
        let Some(process) = Process::find(pid) else { return Ok(()) };
        self.note(Thing::Process { pid, started: process.started, command: command.to_owned() })
    }

    /// Takes away everything that is still noted, and the record. Answers what could not be
    /// taken away; that stays in the record.
    pub async fn end(self) -> Vec<Swept> {
        let record = self.record().clone();
        let swept = sweep::sweep(&self.0.file, &record, Vec::new(), Doing::Remove).await;
        swept.into_iter().filter(|one| one.end.why_not().is_some()).collect()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Thing>)) -> anyhow::Result<()> {
        let mut record = self.record();
        change(&mut record.things);
        record.write(&self.0.file)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A word for a run by its id, short and without vowels: it occurs in no other word.
fn name_of(id: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz";
    // FNV-1a: whoever cleans up knows the same word.
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

impl Thing {
    /// Whether only docker's daemon can say what is left of it.
    fn is_with_docker(&self) -> bool {
        self.is_dockers() || matches!(self, Self::Image { .. } | Self::KeptCluster { .. })
    }

    /// Whether docker's daemon makes it, by itself once it was asked.
    fn is_dockers(&self) -> bool {
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

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process { pid, command, .. } => write!(f, "process {pid} ({command})"),
            Self::Folder { path } => write!(f, "folder {}", path.display()),
            Self::Kubeconfig { path, .. } => write!(f, "kubeconfig {}", path.display()),
            Self::Docker => f.write_str("docker's things with the run's label"),
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
