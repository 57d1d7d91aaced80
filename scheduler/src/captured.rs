//! The scheduler's input as one file, in the layout of KAI's snapshots: a zip with
//! `snapshot.json`, in it `config` and `schedulerParams`, which say how the scheduler is set up
//! (`schedlab` says it in words of our own), and, under `rawObjects`, arrays of plain Kubernetes
//! objects. Objects are written and read one by one, so that a large cluster costs no
//! more memory than its largest list.

mod objects;
mod read;
mod set_up;
mod types;
mod written;

use std::{
    borrow::Cow,
    fmt,
    io::{Cursor, Seek, Write},
};

use kube::Client;
use schedlab_json::{Value, json};
use thiserror::Error;
use zip::{ZipWriter, result::ZipError, write::SimpleFileOptions};

pub use read::Wanted;
pub(crate) use read::{Captured, read};

use crate::{
    api::{Api, ApiError, tree_of},
    config::{Config, FileError, Flavor, GivenError},
    parse::Malformed,
    watch::{Asking, Kind, Storage},
};

const FILE: &str = "snapshot.json";

/// Where a snapshot is taken: the cluster of a scheduler, and how that one is set up.
#[derive(Clone)]
pub struct Source {
    /// The cluster.
    pub client: Client,
    /// The scheduler's set-up.
    pub config: Config,
}

/// Why there is no snapshot.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The cluster did not answer.
    #[error("cannot list {path}: {reason}")]
    List {
        /// What was asked for.
        path: String,
        /// What it said.
        reason: String,
    },
    /// It is no zip, or not all of one.
    #[error("found no whole zip ({0}), allowed: a zip with {FILE} in it")]
    NoZip(ZipError),
    /// It is another zip.
    #[error("{FILE}: found no file of that name in the zip, allowed: a zip with it")]
    NotInside,
    /// The zip cannot be written or read.
    #[error(transparent)]
    Zip(#[from] ZipError),
    /// It cannot be written or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Inside there is no JSON, or not of that form.
    #[error("{FILE}: {0}")]
    Json(serde_json::Error),
    /// A part of it is not of that form.
    #[error("{FILE}: {field}: found {found}, allowed: {allowed}")]
    Form {
        /// Where.
        field: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        allowed: Cow<'static, str>,
    },
    /// What it says of the scheduler cannot be.
    #[error("{FILE}: schedlab.{0}")]
    SetUp(FileError),
    /// The file with which it is read says what cannot be.
    #[error(transparent)]
    Config(#[from] GivenError),
}

impl From<FileError> for CaptureError {
    fn from(error: FileError) -> Self {
        Self::SetUp(error)
    }
}

impl From<serde_json::Error> for CaptureError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl CaptureError {
    /// With the name of the zip, where that is wrong.
    pub fn in_zip(&self, shown: &str) -> String {
        match self {
            Self::Config(error) => error.to_string(),
            Self::List { .. }
            | Self::NoZip(_)
            | Self::NotInside
            | Self::Zip(_)
            | Self::Io(_)
            | Self::Json(_)
            | Self::Form { .. }
            | Self::SetUp(_) => format!("{shown}: {self}"),
        }
    }

    fn form(field: &str, found: &Value, allowed: &'static str) -> Self {
        let Malformed { field, found, allowed } = Malformed::new(field, found, allowed);
        Self::Form { field, found, allowed: allowed.into() }
    }
}

/// `config` becomes what KAI's configuration (actions, tiers of plugins with arguments) says. Answers
/// what of it nothing here goes by.
///
/// # Errors
/// It is not of the form in which KAI has it.
pub fn learn_configuration(
    configuration: Value,
    config: &mut Config,
) -> Result<Vec<String>, CaptureError> {
    set_up::learn(set_up::Said { configuration, ..set_up::Said::default() }, config)
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Source {
    /// The zip, as bytes.
    ///
    /// # Errors
    /// The cluster cannot be read.
    pub async fn take(&self) -> Result<Vec<u8>, CaptureError> {
        let api = Api::new(self.client.clone(), self.config.scheduler_name.clone());
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(FILE, SimpleFileOptions::default())?;
        write!(
            zip,
            "{{\"config\":{},\"schedulerParams\":{},\"schedlab\":{},\"discovery\":{},\"rawObjects\":{{",
            written::configuration(&self.config),
            written::parameters(&self.config),
            written::ours(&self.config),
            discovery(&api).await,
        )?;
        let mut separator = "";
        for kind in Kind::watched(self.config.flavor) {
            if let Some(name) = name_of(*kind) {
                let objects = list(&api, *kind).await?;
                zip.write_all(separator.as_bytes())?;
                array(&mut zip, name, crate::parse::list(&objects, "/items"))?;
                separator = ",";
            }
        }
        zip.write_all(b"}}")?;
        Ok(zip.finish()?.into_inner())
    }
}

/// Which server it is, if it says so.
async fn discovery(api: &Api) -> Value {
    json!({ "serverVersion": api.get("/version").await.unwrap_or_default(), "resources": null })
}

/// A kind that does not exist has no objects.
async fn list(api: &Api, kind: Kind) -> Result<Value, CaptureError> {
    let path = kind.path();
    match tree_of(&api.client, kind.asks_for(&path, Asking::List)).await {
        Ok(list) => Ok(list),
        Err(ApiError::NotFound(_)) => Ok(Value::Null),
        Err(error) => Err(CaptureError::List { path, reason: error.to_string() }),
    }
}

fn array<W: Write + Seek>(
    zip: &mut ZipWriter<W>,
    name: &str,
    objects: &[Value],
) -> Result<(), CaptureError> {
    write!(zip, "\"{name}\":[")?;
    for (at, object) in objects.iter().enumerate() {
        if at > 0 {
            zip.write_all(b",")?;
        }
        serde_json::to_writer(&mut *zip, object)?;
    }
    Ok(zip.write_all(b"]")?)
}

/// What KAI calls the array of a kind; `None`: it has none.
const fn name_of(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::PriorityClass => Some("priorityClasses"),
        Kind::Queue => Some("queues"),
        Kind::Topology => Some("topologies"),
        Kind::Node => Some("nodes"),
        Kind::NodeResourceTopology => Some("nodeResourceTopologies"),
        Kind::PodGroup => Some("podGroups"),
        Kind::BindRequest => Some("bindRequests"),
        Kind::Pod => Some("pods"),
        Kind::DeviceClass => Some("deviceClasses"),
        Kind::ResourceSlice => Some("resourceSlices"),
        Kind::Storage(Storage::Class) => Some("storageClasses"),
        Kind::Storage(Storage::Volume) => Some("persistentVolumes"),
        Kind::Storage(Storage::Claim) => Some("persistentVolumeClaims"),
        Kind::Storage(Storage::Driver) => Some("csiDrivers"),
        Kind::Storage(Storage::Capacity) => Some("csiStorageCapacities"),
        // KAI has none: its snapshots are read without.
        Kind::Storage(Storage::Node) => Some("csiNodes"),
        Kind::Storage(Storage::Attachment) => Some("volumeAttachments"),
        Kind::ConfigMap => Some("configMaps"),
        Kind::ResourceClaim => Some("resourceClaims"),
        Kind::Namespace | Kind::Karta | Kind::PodDisruptionBudget => None,
    }
}

/// The kind that KAI calls so, if decisions depend on it.
fn kind_of(name: &str) -> Option<Kind> {
    Kind::watched(Flavor::Kai).iter().copied().find(|kind| name_of(*kind) == Some(name))
}
