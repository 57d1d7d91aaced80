//! The input of the scheduler as a file, in the format of KAI's snapshots: a zip with
//! `snapshot.json`. It holds `config` and `schedulerParams` with the settings of the scheduler
//! (`schedlab` has them in the format of our configuration file), and under `rawObjects` arrays of
//! plain Kubernetes objects. Objects are written and read one by one, so that a large cluster needs
//! no more memory than its largest list.

mod captured;
mod config;
mod objects;
mod read;
mod types;
mod write;

use std::{borrow::Cow, collections::BTreeMap, fmt, io::Cursor, sync::Arc};

use kube::Client;
use schedlab_api::{Value, json};
use thiserror::Error;
use zip::{ZipWriter, result::ZipError, write::SimpleFileOptions};

pub use crate::records::required_config_maps;
pub use captured::{CapturedCluster, array_names};
pub(crate) use read::read_snapshot;
pub use read::{ClusterLoader, LoadedSnapshot, Overrides};

use crate::{
    api::{ApiClient, ApiError, request_json},
    config::{Config, ConfigSourceError, FileError, Flavor},
    parse::Malformed,
    watch::{Kind, ResponseForm, StorageKind, Watched as _},
};

const SNAPSHOT_JSON: &str = "snapshot.json";

/// The cluster of a scheduler, with the settings of that scheduler.
#[derive(Clone)]
pub struct SnapshotSource {
    /// A client of the cluster.
    pub client: Client,
    /// The settings of the scheduler.
    pub config: Config,
}

/// Why a snapshot cannot be captured or loaded.
#[derive(Debug, Error)]
pub enum SnapshotFileError {
    /// A kind of objects could not be listed.
    #[error("cannot list {path}: {reason}")]
    List {
        /// API path of the list.
        path: String,
        /// The error of the API server.
        reason: String,
    },
    /// The file is not a complete zip.
    #[error("got no complete zip ({0}), expected a zip with {SNAPSHOT_JSON} in it")]
    InvalidZip(ZipError),
    /// The zip lacks `snapshot.json`.
    #[error("{SNAPSHOT_JSON}: got no file of that name in the zip, expected a zip with it")]
    MissingEntry,
    /// The zip cannot be written or read.
    #[error(transparent)]
    Zip(#[from] ZipError),
    /// The snapshot file cannot be written or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// `snapshot.json` is not JSON, or not in the format of a snapshot.
    #[error("{SNAPSHOT_JSON}: {0}")]
    Json(serde_json::Error),
    /// A field is malformed.
    #[error("{SNAPSHOT_JSON}: {field}: got {found}, expected {allowed}")]
    InvalidField {
        /// Path of the field.
        field: String,
        /// The invalid value.
        found: String,
        /// The allowed values.
        allowed: Cow<'static, str>,
    },
    /// The settings under `schedlab` are invalid.
    #[error("{SNAPSHOT_JSON}: schedlab.{0}")]
    SchedlabConfig(FileError),
    /// The overriding configuration file is invalid.
    #[error(transparent)]
    ConfigFile(#[from] ConfigSourceError),
}

impl From<FileError> for SnapshotFileError {
    fn from(error: FileError) -> Self {
        Self::SchedlabConfig(error)
    }
}

impl From<serde_json::Error> for SnapshotFileError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl SnapshotFileError {
    /// The message of the error, with the name of the zip if the error is in the zip.
    pub fn message_for(&self, zip_name: &str) -> String {
        match self {
            Self::ConfigFile(error) => error.to_string(),
            Self::List { .. }
            | Self::InvalidZip(_)
            | Self::MissingEntry
            | Self::Zip(_)
            | Self::Io(_)
            | Self::Json(_)
            | Self::InvalidField { .. }
            | Self::SchedlabConfig(_) => format!("{zip_name}: {self}"),
        }
    }

    fn invalid_field(field: &str, found: &Value, allowed: &'static str) -> Self {
        let Malformed { field, found, allowed } = Malformed::new(field, found, allowed);
        Self::InvalidField { field, found, allowed: allowed.into() }
    }
}

/// Applies KAI's configuration (actions, tiers of plugins with arguments) to `config`. Returns
/// notes on settings without effect.
///
/// # Errors
/// A field of the configuration has the wrong type.
pub fn apply_kai_configuration(
    configuration: Value,
    config: &mut Config,
) -> Result<Vec<String>, SnapshotFileError> {
    config::apply_config(
        config::CapturedConfig { configuration, ..config::CapturedConfig::default() },
        config,
    )
}

impl fmt::Debug for SnapshotSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("config", &self.config).finish_non_exhaustive()
    }
}

impl SnapshotSource {
    /// Captures the snapshot. Returns the content of the zip file.
    ///
    /// # Errors
    /// A kind of objects cannot be listed.
    pub async fn capture(&self) -> Result<Vec<u8>, SnapshotFileError> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(SNAPSHOT_JSON, SimpleFileOptions::default())?;
        self.read_cluster().await?.write_json(&mut zip)?;
        Ok(zip.finish()?.into_inner())
    }

    /// Lists the objects that decisions depend on.
    ///
    /// # Errors
    /// A kind of objects cannot be listed.
    pub async fn read_cluster(&self) -> Result<CapturedCluster, SnapshotFileError> {
        let api = ApiClient::new(self.client.clone(), self.config.scheduler_name.clone());
        let mut cluster = CapturedCluster {
            config: write::configuration_json(&self.config),
            scheduler_params: write::scheduler_params_json(&self.config),
            schedlab: write::schedlab_settings_json(&self.config),
            discovery: discovery_json(&api).await,
            objects: BTreeMap::new(),
        };
        for kind in Kind::watched(self.config.flavor) {
            if let Some(name) = array_name(*kind) {
                let mut list = list_objects(&api, *kind).await?;
                let items = list.get_mut("items").and_then(Value::as_array_mut);
                let items = items.map(std::mem::take).unwrap_or_default();
                let items = items.into_iter().map(Arc::new);
                cluster.objects.insert(name.to_owned(), items.collect());
            }
        }
        Ok(cluster)
    }
}

/// Field `discovery` of a snapshot: the version of the API server, if it returns one.
async fn discovery_json(api: &ApiClient) -> Value {
    json!({ "serverVersion": api.get("/version").await.unwrap_or_default(), "resources": null })
}

/// Lists objects; a kind that does not exist has none.
async fn list_objects(api: &ApiClient, kind: Kind) -> Result<Value, SnapshotFileError> {
    let path = kind.path();
    match request_json(&api.client, kind.get_request(&path, ResponseForm::List)).await {
        Ok(list) => Ok(list),
        Err(ApiError::NotFound(_)) => Ok(Value::Null),
        Err(error) => Err(SnapshotFileError::List { path, reason: error.to_string() }),
    }
}

/// KAI's name of the array of a kind in `rawObjects`; `None` if KAI has none.
const fn array_name(kind: Kind) -> Option<&'static str> {
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
        Kind::Storage(StorageKind::Class) => Some("storageClasses"),
        Kind::Storage(StorageKind::Volume) => Some("persistentVolumes"),
        Kind::Storage(StorageKind::Claim) => Some("persistentVolumeClaims"),
        Kind::Storage(StorageKind::Driver) => Some("csiDrivers"),
        Kind::Storage(StorageKind::Capacity) => Some("csiStorageCapacities"),
        // KAI has no arrays for these kinds; its snapshots are read without them.
        Kind::Storage(StorageKind::Node) => Some("csiNodes"),
        Kind::Storage(StorageKind::Attachment) => Some("volumeAttachments"),
        Kind::ConfigMap => Some("configMaps"),
        Kind::ResourceClaim => Some("resourceClaims"),
        Kind::DeviceTaintRule => Some("deviceTaintRules"),
        // The PodGroups that are derived from them decide.
        Kind::SchedulingGroup | Kind::Namespace | Kind::Karta | Kind::PodDisruptionBudget => None,
    }
}

/// The kind of an array in `rawObjects`; `None` if decisions do not depend on the kind.
fn array_kind(name: &str) -> Option<Kind> {
    Kind::watched(Flavor::Kai).iter().copied().find(|kind| array_name(*kind) == Some(name))
}
