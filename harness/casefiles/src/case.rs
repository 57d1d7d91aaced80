//! A case: settings and objects of a captured cluster, its events, and a manifest; and the file that
//! holds them. The file is a zip in the format of KAI's snapshots with two further entries, so
//! tools that read KAI's snapshots read case files too.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Seek, Write},
    path::Path,
};

use schedlab_api::Value;
use schedlab_scheduler::{
    replay::{Replay, replay_loaded},
    snapshot_file::{CapturedCluster, Overrides, SnapshotFileError},
};
use serde::{Deserialize, Serialize};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::change::Change;

/// The version of the layout of case files.
pub const FORMAT: &str = "schedlab.dev/case/v1";
/// The entry of the zip with the manifest.
pub(crate) const MANIFEST_ENTRY: &str = "case.json";
/// The entry of the zip with settings and objects, as in KAI's snapshots.
pub(crate) const SNAPSHOT_ENTRY: &str = "snapshot.json";
/// The entry of the zip with an array of events.
pub(crate) const EVENTS_ENTRY: &str = "events.json";
/// The entry of the zip with an array of recorded changes; missing if none were recorded.
pub(crate) const CHANGES_ENTRY: &str = "changes.json";

/// What a case file says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Manifest {
    /// Version of the layout.
    pub format: String,
    /// When the objects were read, in RFC 3339 format; empty if unknown.
    pub captured_at: String,
    /// Since when changes were recorded, in RFC 3339 format; empty if they were not.
    pub recorded_from: String,
    /// What wrote the file.
    pub captured_by: String,
    /// Where the objects came from: `cluster` or `files`.
    pub source: String,
    /// Version of the API server; empty if unknown.
    pub kubernetes: String,
    /// Images of the scheduler's own pods, which tell its version; empty if unknown.
    pub scheduler_images: Vec<String>,
    /// Whether names were replaced.
    pub redacted: bool,
    /// What the case shows, such as `gang train pending`: one claim a line; empty if the user gave
    /// none.
    pub shows: String,
    /// Whether every element of the case is needed for what it shows.
    pub minimal: bool,
    /// Number of objects by kind.
    pub objects: BTreeMap<String, usize>,
    /// Number of events.
    pub events: usize,
    /// Number of recorded changes.
    pub changes: usize,
    /// Number of objects that were not kept, by kind: decisions do not depend on them.
    pub ignored: BTreeMap<String, usize>,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            format: FORMAT.to_owned(),
            captured_at: String::new(),
            recorded_from: String::new(),
            captured_by: format!("schedlab {}", env!("CARGO_PKG_VERSION")),
            source: "files".to_owned(),
            kubernetes: String::new(),
            scheduler_images: Vec::new(),
            redacted: false,
            shows: String::new(),
            minimal: false,
            objects: BTreeMap::new(),
            events: 0,
            changes: 0,
            ignored: BTreeMap::new(),
        }
    }
}

/// A captured cluster with what is known about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// What the file says about itself.
    pub manifest: Manifest,
    /// Settings and objects.
    pub cluster: CapturedCluster,
    /// Events of the cluster.
    pub events: Vec<Value>,
    /// What changed while the cluster was captured, in order.
    pub changes: Vec<Change>,
}

/// Why a case cannot be replayed or written.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A setting of the case is invalid.
    #[error(transparent)]
    Settings(#[from] SnapshotFileError),
    /// The file cannot be written.
    #[error("{path}: cannot write the case: {source}")]
    Write {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Case {
    /// The objects of an array, such as `pods`.
    pub fn objects(&self, array: &str) -> impl Iterator<Item = &Value> {
        self.cluster.objects.get(array).into_iter().flatten().map(AsRef::as_ref)
    }

    /// Number of objects of all kinds.
    pub fn object_count(&self) -> usize {
        self.cluster.objects.values().map(Vec::len).sum()
    }

    /// Runs at most `cycles` scheduling cycles over the case.
    ///
    /// # Errors
    /// A setting of the case is invalid.
    pub fn replay(&self, overrides: &Overrides, cycles: u32) -> Result<Replay, CaseError> {
        Ok(replay_loaded(self.cluster.load(overrides)?, cycles))
    }

    /// Writes the case file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), CaseError> {
        let failed = |source| CaseError::Write { path: path.display().to_string(), source };
        let file = File::create(path).map_err(failed)?;
        self.write_zip(BufWriter::new(file)).map_err(failed)
    }

    fn write_zip(&self, out: impl Write + Seek) -> io::Result<()> {
        let mut zip = ZipWriter::new(out);
        // The same case gives the same file.
        let options = SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
        zip.start_file(MANIFEST_ENTRY, options)?;
        let mut manifest = self.counted_manifest();
        FORMAT.clone_into(&mut manifest.format);
        serde_json::to_writer_pretty(&mut zip, &manifest)?;
        zip.start_file(SNAPSHOT_ENTRY, options)?;
        let mut snapshot = BufWriter::new(&mut zip);
        self.cluster.write_json(&mut snapshot)?;
        snapshot.flush()?;
        drop(snapshot);
        zip.start_file(EVENTS_ENTRY, options)?;
        serde_json::to_writer(&mut zip, &self.events)?;
        if !self.changes.is_empty() {
            zip.start_file(CHANGES_ENTRY, options)?;
            serde_json::to_writer(&mut zip, &self.changes)?;
        }
        zip.finish()?.flush()
    }

    fn counted_manifest(&self) -> Manifest {
        let kinds = crate::KINDS.iter();
        let counts = kinds.map(|kind| (kind.kind.to_owned(), self.objects(kind.array).count()));
        Manifest {
            objects: counts.filter(|(_, count)| *count > 0).collect(),
            events: self.events.len(),
            changes: self.changes.len(),
            ..self.manifest.clone()
        }
    }
}
