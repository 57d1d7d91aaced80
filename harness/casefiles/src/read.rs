//! Reads the files of a customer into one [`Case`]: a snapshot of KAI or of ours, a case file,
//! a bare or gzipped `snapshot.json`, output of `kubectl get -o yaml|json`, a `kubectl cluster-info
//! dump`, and folders of these. Files are told apart by their content.

mod documents;
mod limit;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::bufread::MultiGzDecoder;
use schedlab_api::{Value, annotations::LAST_APPLIED_CONFIGURATION, object};
use zip::{ZipArchive, result::ZipError};

use crate::{
    Case, KINDS, Manifest,
    case::{CHANGES_ENTRY, EVENTS_ENTRY, MANIFEST_ENTRY, SNAPSHOT_ENTRY},
    change::Change,
    kinds::kind_of,
};
use limit::LimitedReader;

/// Maximum size of one file after decompression, unless another is given.
pub const DEFAULT_MAX_BYTES: u64 = 4 << 30;

/// A case that was read, with remarks about the input.
#[derive(Clone, Debug, Default)]
pub struct CaseInput {
    /// The case.
    pub case: Case,
    /// What the reader did not use, and what looks like a mistake.
    pub warnings: Vec<String>,
    /// What decisions need and no file has: nodes, queues, pod groups.
    pub missing: Vec<String>,
}

/// Why an input cannot be read: the file, what it has, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ReadError {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
}

/// Reads all objects of these files and folders.
///
/// # Errors
/// A file cannot be read, is larger than `max_bytes` after decompression, or has no known format.
pub fn read_case(paths: &[PathBuf], max_bytes: u64) -> Result<CaseInput, ReadError> {
    let mut reader = CaseReader { max_bytes, ..CaseReader::default() };
    for path in paths {
        let error = |message| ReadError { path: path.display().to_string(), message };
        let metadata = fs::metadata(path).map_err(|e| error(format!("cannot read it: {e}")))?;
        if metadata.is_dir() {
            reader.read_folder(path)?;
        } else {
            reader.read_file(path)?;
        }
    }
    Ok(reader.finish(paths))
}

#[derive(Default)]
struct CaseReader {
    max_bytes: u64,
    case: Case,
    /// Whether a snapshot or case file was read.
    has_snapshot: bool,
    /// Objects that were read: array, namespace and name.
    known: BTreeSet<(&'static str, String, String)>,
    duplicates: usize,
    ignored: BTreeMap<String, usize>,
    warnings: Vec<String>,
    missing: Vec<String>,
}

impl CaseReader {
    /// Reads all files of a folder that may hold objects; of a `cluster-info dump` these are the JSON
    /// files, beside logs.
    fn read_folder(&mut self, folder: &Path) -> Result<(), ReadError> {
        let error = |e: std::io::Error| ReadError {
            path: folder.display().to_string(),
            message: format!("cannot read it: {e}"),
        };
        let entries = fs::read_dir(folder).map_err(error)?;
        let mut paths = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, std::io::Error>>()
            .map_err(error)?;
        paths.sort();
        for path in paths {
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if matches!(extension, Some("json" | "yaml" | "yml" | "zip" | "gz")) {
                self.read_file(&path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ReadError> {
        self.read_content(path).map_err(|message| {
            let message =
                if message.contains(limit::EXCEEDED) { self.size_message() } else { message };
            ReadError { path: path.display().to_string(), message }
        })
    }

    fn size_message(&self) -> String {
        format!(
            "got more than {} MiB after decompression, expected at most that; --max-size raises the \
             limit",
            self.max_bytes >> 20
        )
    }

    fn read_content(&mut self, path: &Path) -> Result<(), String> {
        let file = File::open(path).map_err(|error| format!("cannot read it: {error}"))?;
        let mut start = BufReader::new(file);
        let magic = start.fill_buf().map_err(|error| format!("cannot read it: {error}"))?;
        let magic: Vec<u8> = magic.iter().take(4).copied().collect();
        if magic.is_empty() {
            self.warnings.push(format!("{}: the file is empty", path.display()));
            return Ok(());
        }
        if magic.starts_with(b"PK") {
            let file = File::open(path).map_err(|error| format!("cannot read it: {error}"))?;
            return self.read_zip(file);
        }
        if magic.starts_with(&[0x1f, 0x8b]) {
            let content = MultiGzDecoder::new(start);
            return self.read_text(LimitedReader::new(content, self.max_bytes));
        }
        self.read_text(LimitedReader::new(start, self.max_bytes))
    }

    /// Reads a zip: a snapshot or case file, or files of `kubectl`.
    fn read_zip(&mut self, file: File) -> Result<(), String> {
        let mut archive = ZipArchive::new(file)
            .map_err(|error| format!("got no complete zip ({error}), expected a whole one"))?;
        if archive.index_for_name(SNAPSHOT_ENTRY).is_none() {
            let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
            let is_read =
                |name: &&String| [".json", ".yaml", ".yml"].iter().any(|e| name.ends_with(e));
            let names: Vec<&String> = names.iter().filter(is_read).collect();
            if names.is_empty() {
                return Err(format!(
                    "{SNAPSHOT_ENTRY}: got no file of that name in the zip, expected a zip with it, \
                     or with output of kubectl"
                ));
            }
            return names.into_iter().try_for_each(|name| self.read_entry(&mut archive, name));
        }
        if archive.index_for_name(MANIFEST_ENTRY).is_some() {
            let manifest = self.entry_text(&mut archive, MANIFEST_ENTRY)?;
            let manifest: Manifest = serde_json::from_str(&manifest)
                .map_err(|error| format!("{MANIFEST_ENTRY}: {error}"))?;
            self.take_manifest(manifest)?;
        }
        self.read_entry(&mut archive, SNAPSHOT_ENTRY)?;
        if archive.index_for_name(EVENTS_ENTRY).is_some() {
            let events = self.entry_text(&mut archive, EVENTS_ENTRY)?;
            let events: Vec<Value> = serde_json::from_str(&events)
                .map_err(|error| format!("{EVENTS_ENTRY}: {error}"))?;
            self.case.events.extend(events);
        }
        if archive.index_for_name(CHANGES_ENTRY).is_some() {
            let changes = self.entry_text(&mut archive, CHANGES_ENTRY)?;
            let changes: Vec<Change> = serde_json::from_str(&changes)
                .map_err(|error| format!("{CHANGES_ENTRY}: {error}"))?;
            self.case.changes.extend(changes);
        }
        Ok(())
    }

    fn take_manifest(&mut self, manifest: Manifest) -> Result<(), String> {
        let format = &manifest.format;
        if format != crate::FORMAT {
            let expected = crate::FORMAT;
            return Err(format!("{MANIFEST_ENTRY}: format: got {format}, expected {expected}"));
        }
        self.ignored.extend(manifest.ignored.clone());
        self.case.manifest = manifest;
        Ok(())
    }

    fn read_entry(&mut self, archive: &mut ZipArchive<File>, name: &str) -> Result<(), String> {
        let entry = archive.by_name(name).map_err(|error: ZipError| format!("{name}: {error}"))?;
        let limited = LimitedReader::new(BufReader::new(entry), self.max_bytes);
        self.read_text(limited).map_err(|message| format!("{name}: {message}"))
    }

    fn entry_text(&self, archive: &mut ZipArchive<File>, name: &str) -> Result<String, String> {
        let entry = archive.by_name(name).map_err(|error: ZipError| format!("{name}: {error}"))?;
        let mut text = String::new();
        let mut limited = LimitedReader::new(BufReader::new(entry), self.max_bytes);
        limited.read_to_string(&mut text).map_err(|error| format!("{name}: {error}"))?;
        Ok(text)
    }

    /// Reads JSON or YAML.
    fn read_text(&mut self, reader: impl Read) -> Result<(), String> {
        documents::read_documents(reader, &mut |document| self.take_document(document))
    }

    fn take_document(&mut self, document: Value) -> Result<(), String> {
        if document.get("rawObjects").is_some() {
            return self.take_snapshot(document);
        }
        match document {
            Value::Null => Ok(()),
            Value::Array(items) => items.into_iter().try_for_each(|item| self.take_document(item)),
            Value::Object(_) => self.take_object(document, None),
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Err(format!(
                "got {}, expected a snapshot, or objects of Kubernetes as kubectl prints them",
                shortened(&other.to_string())
            )),
        }
    }

    fn take_snapshot(&mut self, mut snapshot: Value) -> Result<(), String> {
        self.has_snapshot = true;
        let Value::Object(arrays) = snapshot["rawObjects"].take() else {
            return Err(
                "rawObjects: got no object, expected an object with an array for each kind"
                    .to_owned(),
            );
        };
        let cluster = &mut self.case.cluster;
        for (field, target) in [
            ("config", &mut cluster.config),
            ("schedulerParams", &mut cluster.scheduler_params),
            ("schedlab", &mut cluster.schedlab),
            ("discovery", &mut cluster.discovery),
        ] {
            if let Some(value) = snapshot.get_mut(field).filter(|value| !value.is_null()) {
                *target = value.take();
            }
        }
        for (array, objects) in arrays {
            let items = match objects {
                Value::Null => continue,
                Value::Array(items) => items,
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                    return Err(format!(
                        "rawObjects.{array}: got no array, expected an array of objects, or null"
                    ));
                }
            };
            match KINDS.iter().find(|kind| kind.array == array.as_str()) {
                Some(kind) => items.into_iter().for_each(|item| self.add(kind.array, item)),
                None => *self.ignored.entry(array.to_string()).or_default() += items.len(),
            }
        }
        Ok(())
    }

    /// Takes an object or a list; `list_kind` is the kind of the objects of a list that do not say it.
    fn take_object(
        &mut self,
        mut object: Value,
        list_kind: Option<(&str, &str)>,
    ) -> Result<(), String> {
        let own = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = match list_kind {
            Some(of_list) if own("kind").is_empty() => of_list,
            Some(_) | None => (own("apiVersion"), own("kind")),
        };
        if kind.is_empty() {
            let found =
                object.as_object().map(|map| map.keys().take(3).map(AsRef::as_ref).collect());
            let found: Vec<&str> = found.unwrap_or_default();
            return Err(format!(
                "got an object without kind (its fields: {}), expected a snapshot, or objects of \
                 Kubernetes as kubectl prints them",
                found.join(", ")
            ));
        }
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        if let Some(item_kind) = kind.strip_suffix("List")
            && let Some(Value::Array(items)) = object.get_mut("items").map(Value::take)
        {
            let of_items = (!item_kind.is_empty()).then_some((&*api_version, item_kind));
            return items.into_iter().try_for_each(|item| self.take_object(item, of_items));
        }
        if kind == "Event" {
            drop_bulk(&mut object);
            self.case.events.push(object);
        } else if let Some(known) = kind_of(&api_version, &kind) {
            self.add(known.array, object);
        } else {
            *self.ignored.entry(kind).or_default() += 1;
        }
        Ok(())
    }

    fn add(&mut self, array: &'static str, mut item: Value) {
        drop_bulk(&mut item);
        let key = (array, object::namespace(&item).to_owned(), object::name(&item).to_owned());
        // A folder of kubectl output often has an object twice; the first one is kept. A snapshot is
        // kept as it is, as its reader reports duplicates.
        if !self.known.insert(key) && !self.has_snapshot {
            self.duplicates += 1;
            return;
        }
        self.case.cluster.objects.entry(array.to_owned()).or_default().push(Arc::new(item));
    }

    fn finish(mut self, paths: &[PathBuf]) -> CaseInput {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let names = names.join(", ");
        let count = |array: &str| self.case.objects(array).count();
        if self.case.object_count() == 0 {
            self.warnings.push(format!(
                "{names}: nothing was read: got no object that decisions depend on, expected nodes, \
                 queues, pod groups and pods"
            ));
        } else {
            let missing = |array: &str, what: &str| {
                (count(array) == 0).then(|| format!("{names}: no {what}; add them to the input"))
            };
            let grouped = count("pods") > 0;
            let groups = missing("podGroups", "PodGroups (scheduling.run.ai)").filter(|_| grouped);
            let found = [missing("nodes", "nodes"), missing("queues", "queues"), groups];
            self.missing.extend(found.into_iter().flatten());
        }
        if self.duplicates > 0 {
            self.warnings.push(format!("{} objects were there twice", self.duplicates));
        }
        self.case.manifest.ignored = self.ignored;
        if !self.case.manifest.ignored.is_empty() {
            let kinds = self.case.manifest.ignored.iter();
            let kinds: Vec<String> = kinds.map(|(kind, n)| format!("{n} {kind}")).collect();
            self.warnings.push(format!("not used: {}", kinds.join(", ")));
        }
        CaseInput { case: self.case, warnings: self.warnings, missing: self.missing }
    }
}

/// Drops fields that are large and never read.
fn drop_bulk(item: &mut Value) {
    if let Some(metadata) = item.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED_CONFIGURATION);
        }
    }
}

/// The start of a text, for messages.
fn shortened(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    let end = if text.starts_with('"') { "…\"" } else { "…" };
    if short.len() < text.len() { short + end } else { short }
}

#[cfg(test)]
mod tests;
