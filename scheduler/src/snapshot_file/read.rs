//! Loads a snapshot, object by object, in two passes, since the settings of the scheduler may
//! follow the objects.

use std::{
    collections::BTreeSet,
    fmt,
    io::{BufReader, Read, Seek},
};

use schedlab_api::Value;
use schedlab_scheduler_core::profile::VictimSearch;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zip::{ZipArchive, result::ZipError};

use super::{
    SNAPSHOT_JSON, SnapshotFileError, array_kind,
    config::{self, CapturedConfig},
    objects, types,
};
use crate::{
    cache::ClusterCache,
    config::{Config, ConfigSource},
    parse::Malformed,
    records::ObjectKey,
    watch::Kind,
};

/// Settings that override those in the snapshot.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// A configuration file, of which only the settings that affect decisions are used.
    pub file: ConfigSource,
    /// Name of the scheduler whose pods are scheduled.
    pub scheduler_name: Option<String>,
    /// Maximum number of evictions that each action of a cycle simulates; `None`: no limit.
    pub simulations_max: Option<usize>,
}

impl Overrides {
    fn victim_search(&self) -> VictimSearch {
        self.simulations_max.map_or(VictimSearch::Unlimited, VictimSearch::AtMost)
    }
}

/// A loaded snapshot: configuration, objects and notes.
#[derive(Debug)]
pub struct LoadedSnapshot {
    pub(crate) config: Config,
    pub(crate) cache: ClusterCache,
    /// Notes on settings without effect and on unusable objects.
    pub(crate) notes: Vec<String>,
}

impl LoadedSnapshot {
    /// The settings of the scheduler.
    pub const fn config(&self) -> &Config {
        &self.config
    }
}

/// Reads a snapshot file in two passes: settings first, then objects.
pub(crate) fn read_snapshot(
    file: impl Read + Seek,
    overrides: &Overrides,
) -> Result<LoadedSnapshot, SnapshotFileError> {
    let mut archive = ZipArchive::new(file).map_err(SnapshotFileError::InvalidZip)?;
    let mut about = ConfigPass::default();
    read_pass(&mut archive, &mut about)?;
    if !about.has_raw_objects {
        let allowed = "an object with an array for each kind";
        let (field, found) = ("rawObjects".to_owned(), "nothing".to_owned());
        return Err(SnapshotFileError::InvalidField { field, found, allowed: allowed.into() });
    }
    load_objects(about.config, overrides, |objects| read_pass(&mut archive, objects))
}

/// Applies the settings, and lets `read_objects` pass all objects to the cache.
pub(super) fn load_objects(
    settings: CapturedConfig,
    overrides: &Overrides,
    read_objects: impl FnOnce(&mut ObjectPass) -> Result<(), SnapshotFileError>,
) -> Result<LoadedSnapshot, SnapshotFileError> {
    let mut loader = ClusterLoader::new(settings, overrides)?;
    read_objects(&mut loader.objects)?;
    let notes = loader.notes();
    Ok(LoadedSnapshot { config: loader.config, cache: loader.objects.cache, notes })
}

/// A captured cluster that is loaded, and follows changes of it.
#[derive(Debug)]
pub struct ClusterLoader {
    pub(crate) config: Config,
    /// Notes on settings without effect.
    setting_notes: Vec<String>,
    pub(super) objects: ObjectPass,
}

impl ClusterLoader {
    /// Applies the settings. No object is loaded yet.
    pub(super) fn new(
        settings: CapturedConfig,
        overrides: &Overrides,
    ) -> Result<Self, SnapshotFileError> {
        let (config, setting_notes) = read_config(settings, overrides)?;
        let cache = ClusterCache::new(&config.scheduler_name)
            .with_pool(config.node_pool.clone())
            .with_workers_only(config.restrict_node_scheduling);
        let objects = ObjectPass {
            cache,
            notes: Vec::new(),
            loaded: BTreeSet::new(),
            mistyped: BTreeSet::new(),
        };
        Ok(Self { config, setting_notes, objects })
    }

    /// The settings of the scheduler.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The time of the captured cluster, in milliseconds since 1970: one second after the latest
    /// time in it.
    pub fn time_after_last_event_millis(&self) -> i64 {
        self.objects.cache.time_after_last_event().0
    }

    pub(crate) const fn cache(&mut self) -> &mut ClusterCache {
        &mut self.objects.cache
    }

    /// Notes on settings without effect and on unusable objects.
    pub(crate) fn notes(&self) -> Vec<String> {
        let ObjectPass { cache, notes, mistyped, .. } = &self.objects;
        let malformed = objects::malformed_object_notes(cache, mistyped);
        let notes = notes.iter().map(|note| &note.text);
        self.setting_notes.iter().chain(notes).cloned().chain(malformed).collect()
    }
}

/// The configuration with the settings of a snapshot and those that override them, and notes on
/// settings without effect.
pub(super) fn read_config(
    settings: CapturedConfig,
    overrides: &Overrides,
) -> Result<(Config, Vec<String>), SnapshotFileError> {
    let mut config = Config::kai();
    let notes = config::apply_config(settings, &mut config)?;
    overrides.file.apply(&mut config, config::keep_decision_settings)?;
    if let Some(name) = &overrides.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    config.profile.victim_search = overrides.victim_search();
    Ok((config, notes))
}

/// Passes all top-level fields of the file to `reader`.
fn read_pass(
    archive: &mut ZipArchive<impl Read + Seek>,
    reader: &mut impl FieldReader,
) -> Result<(), SnapshotFileError> {
    let entry = archive.by_name(SNAPSHOT_JSON).map_err(|error| {
        let is_other = matches!(error, ZipError::FileNotFound);
        if is_other { SnapshotFileError::MissingEntry } else { SnapshotFileError::Zip(error) }
    })?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(entry));
    FileVisitor(reader).deserialize(&mut json)?;
    Ok(json.end()?)
}

/// Reads the top-level fields of a snapshot file, in the order of the file.
trait FieldReader {
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error>;
}

/// The first pass over the file: the settings of the scheduler.
#[derive(Default)]
struct ConfigPass {
    config: CapturedConfig,
    has_raw_objects: bool,
}

impl FieldReader for ConfigPass {
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "config" => self.config.configuration = map.next_value()?,
            "schedulerParams" => self.config.parameters = map.next_value()?,
            "schedlab" => self.config.schedlab = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
                match key {
                    "rawObjects" => self.has_raw_objects = true,
                    "discovery" => {}
                    unknown => self.config.unknown_keys.push(unknown.to_owned()),
                }
            }
        }
        Ok(())
    }
}

/// A note on an object or on a list of objects.
#[derive(Debug)]
struct ObjectNote {
    /// Kind and key of the object; `None`: the note is on a list, or on an object that is ignored.
    object: Option<(Kind, ObjectKey)>,
    text: String,
}

/// The second pass over the file: the objects.
#[derive(Debug)]
pub(super) struct ObjectPass {
    cache: ClusterCache,
    notes: Vec<ObjectNote>,
    /// Kinds and keys of the objects loaded so far.
    loaded: BTreeSet<(Kind, ObjectKey)>,
    /// Objects with a value of the wrong type, which have a note.
    mistyped: BTreeSet<(Kind, ObjectKey)>,
}

impl FieldReader for ObjectPass {
    fn read_field<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "rawObjects" => map.next_value_seed(RawObjectsVisitor(self)),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

impl ObjectPass {
    /// Loads all objects of an array.
    pub(super) fn load_list<'v>(&mut self, list: &str, objects: impl Iterator<Item = &'v Value>) {
        if array_kind(list).is_none() {
            return self.record_ignored_list(list, objects.count());
        }
        for (index, object) in objects.enumerate() {
            self.load_object(list, index, object);
        }
    }

    /// Removes an object, and what was noted about it.
    pub(super) fn remove_object(&mut self, list: &str, object: &Value) {
        let Some(kind) = array_kind(list) else { return };
        let key = ObjectKey::from_object(object);
        self.cache.remove(kind, key.clone(), u64::MAX);
        let removed = (kind, key);
        self.notes.retain(|note| note.object.as_ref() != Some(&removed));
        self.mistyped.remove(&removed);
        self.loaded.remove(&removed);
    }

    pub(super) fn load_object(&mut self, list: &str, index: usize, object: &Value) {
        let Some(kind) = array_kind(list) else { return };
        if let Some(fault) = objects::object_error(list, index, object) {
            return self.record_error(&fault);
        }
        let key = ObjectKey::from_object(object);
        if !self.loaded.insert((kind, key.clone())) {
            let found = format!("{} again", objects::object_name(kind, &key));
            let field = format!("rawObjects.{list}[{index}]");
            return self.record_error(&Malformed::new(field, found, "each object once"));
        }
        self.load_named_object(kind, object);
    }

    fn load_named_object(&mut self, kind: Kind, object: &Value) {
        let key = ObjectKey::from_object(object);
        for text in objects::value_warnings(kind, object) {
            self.notes.push(ObjectNote { object: Some((kind, key.clone())), text });
        }
        let Some(wrong) = types::type_error(kind, object) else {
            return self.cache.upsert(kind, object);
        };
        let wrong = self.cache.upsert_mistyped(kind, object, wrong);
        let (object_label, consequence) =
            (objects::object_name(kind, &key), objects::mistype_consequence(kind, object));
        let text = format!("{object_label}: {wrong}; {consequence}");
        self.notes.push(ObjectNote { object: Some((kind, key.clone())), text });
        self.mistyped.insert((kind, key));
    }

    fn record_error(&mut self, fault: &Malformed) {
        let text = format!("{fault}; it is ignored");
        self.notes.push(ObjectNote { object: None, text });
    }

    /// Adds a note on an ignored list: one of a kind that is not used, with this many objects.
    fn record_ignored_list(&mut self, list: &str, length: usize) {
        if length > 0 {
            let text = format!("rawObjects.{list}: it has no effect");
            self.notes.push(ObjectNote { object: None, text });
        }
    }
}

/// Visits the top-level object of the file.
struct FileVisitor<'r, R>(&'r mut R);

/// Visits `rawObjects`.
struct RawObjectsVisitor<'r>(&'r mut ObjectPass);

/// Visits an array in `rawObjects`.
struct ArrayVisitor<'r, 'n>(&'r mut ObjectPass, &'n str);

impl<'de, R: FieldReader> DeserializeSeed<'de> for FileVisitor<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, R: FieldReader> Visitor<'de> for FileVisitor<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with config, schedulerParams and rawObjects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.0.read_field(&key, &mut map)?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for RawObjectsVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RawObjectsVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rawObjects: an object with an array for each kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(ArrayVisitor(&mut *self.0, &name))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ArrayVisitor<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArrayVisitor<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rawObjects.{}: an array of objects, or null", self.1)
    }

    /// An empty list: Go writes it as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut length = 0;
        if array_kind(self.1).is_none() {
            while items.next_element::<IgnoredAny>()?.is_some() {
                length += 1;
            }
            self.0.record_ignored_list(self.1, length);
            return Ok(());
        }
        while let Some(object) = items.next_element::<Value>()? {
            self.0.load_object(self.1, length, &object);
            length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use insta::assert_snapshot;
    use schedlab_api::json;
    use schedlab_scheduler_core::profile::Action;
    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn zipped(name: &str, json: &str) -> Cursor<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(json.as_bytes()).unwrap();
        zip.finish().unwrap()
    }

    #[test]
    fn a_removed_object_takes_only_its_own_notes_with_it() {
        let class = |name: &str| json!({ "metadata": { "name": name }, "value": "much" });
        let mut loader =
            ClusterLoader::new(CapturedConfig::default(), &Overrides::default()).unwrap();
        for (index, name) in ["a", "a: b"].iter().enumerate() {
            loader.objects.load_object("priorityClasses", index, &class(name));
        }
        loader.objects.remove_object("priorityClasses", &class("a"));
        let notes = loader.notes();
        assert!(!notes.is_empty());
        assert!(notes.iter().all(|note| note.starts_with("PriorityClass a: b: ")), "{notes:?}");
    }

    fn wrong(name: &str, json: &str) -> String {
        rendered(zipped(name, json))
    }

    /// The error as the command line prints it.
    fn rendered(file: Cursor<Vec<u8>>) -> String {
        let error = read_snapshot(file, &Overrides::default()).map(|_| ()).unwrap_err();
        format!("{:#}", anyhow::Error::from(error))
    }

    fn notes(snapshot: &Value) -> String {
        let file = zipped(SNAPSHOT_JSON, &snapshot.to_string());
        read_snapshot(file, &Overrides::default()).unwrap().notes.join("\n")
    }

    #[test]
    fn an_unreadable_file_is_reported_once_with_the_field() {
        assert_snapshot!(wrong("other.json", "{}"), @"snapshot.json: got no file of that name in the zip, expected a zip with it");
        assert_snapshot!(wrong(SNAPSHOT_JSON, "{}"), @"snapshot.json: rawObjects: got nothing, expected an object with an array for each kind");
        assert_snapshot!(wrong(SNAPSHOT_JSON, "[]"), @"snapshot.json: invalid type: sequence, expected an object with config, schedulerParams and rawObjects at line 1 column 1");
        assert_snapshot!(wrong(SNAPSHOT_JSON, r#"{"rawObjects":{"pods":{}}}"#), @"snapshot.json: invalid type: map, expected rawObjects.pods: an array of objects, or null at line 1 column 24");
        assert_snapshot!(wrong(SNAPSHOT_JSON, r#"{"rawObjects":"x"}"#), @r#"snapshot.json: invalid type: string "x", expected rawObjects: an object with an array for each kind at line 1 column 17"#);
        assert_snapshot!(wrong(SNAPSHOT_JSON, r#"{"config":"x","rawObjects":{}}"#), @r#"snapshot.json: config: got "x", expected an object, as KAI writes it"#);
        assert_snapshot!(wrong(SNAPSHOT_JSON, r#"{"schedlab":{"kValue":-2},"rawObjects":{}}"#), @"snapshot.json: schedlab.kValue: got -2, expected 0 to 1000");
        assert_snapshot!(rendered(Cursor::new(b"no zip".to_vec())), @"got no complete zip (invalid Zip archive: Could not find EOCD), expected a zip with snapshot.json in it");
        let mut half = zipped(SNAPSHOT_JSON, "{}").into_inner();
        half.truncate(half.len() / 2);
        assert_snapshot!(rendered(Cursor::new(half)), @"got no complete zip (invalid Zip archive: Could not find EOCD), expected a zip with snapshot.json in it");
    }

    #[test]
    fn a_duplicate_object_is_skipped_with_a_note() {
        let queue = |name: &str, quota: u32| json!({ "metadata": { "name": name }, "spec": { "resources": { "gpu": { "quota": quota } } } });
        let pod = |namespace: &str| json!({ "metadata": { "namespace": namespace, "name": "p" } });
        let objects = json!({
            "queues": [queue("a", 1), queue("b", 1), queue("a", 100)],
            "pods": [pod("x"), pod("y"), pod("x")],
        });
        assert_snapshot!(notes(&json!({ "rawObjects": objects })), @r"
        rawObjects.pods[2]: got Pod x/p again, expected each object once; it is ignored
        rawObjects.queues[2]: got Queue a again, expected each object once; it is ignored
        ");
    }

    #[test]
    fn unusable_objects_are_noted_with_their_field() {
        let queue = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
        let short = json!({ "resources": { "gpu": { "quota": -7 } } });
        assert_snapshot!(notes(&json!({
            "future": 1,
            "rawObjects": {
                "pods": [3, { "metadata": { "namespace": "ns" } }],
                "queues": [
                    queue("short", short),
                    queue("round", json!({ "parentQueue": "round" })),
                    queue("below", json!({ "parentQueue": "round" })),
                    queue("lost", json!({ "parentQueue": "nobody" })),
                ],
                "podGroups": [{ "metadata": { "namespace": "ns", "name": "g" },
                                "spec": { "minMember": -3 } },
                              { "metadata": { "namespace": "ns", "name": "h" },
                                "spec": { "subGroups": [{ "name": "s", "minMember": -2 }] } }],
                "nodes": [{ "metadata": { "name": "n" }, "status": { "allocatable": { "cpu": "many" } } }],
                "unicorns": [{}],
                "griffins": [],
            },
        })), @r#"
        future: it has no effect
        rawObjects.pods[0]: got 3, expected an object; it is ignored
        rawObjects.pods[1].metadata.name: got nothing, expected a name; it is ignored
        rawObjects.unicorns: it has no effect
        Node n: status.allocatable.cpu: got "many", expected a quantity such as 2, 500m, 1.5Gi or 1e3; it counts as 0
        Queue below: spec.parentQueue: got "round", which leads back to this queue, expected a queue that exists and is not below this one, or none; no workloads run in it or its children
        Queue lost: spec.parentQueue: got "nobody", which does not exist, expected a queue that exists and is not below this one, or none; no workloads run in it or its children
        Queue round: spec.parentQueue: got "round", which leads back to this queue, expected a queue that exists and is not below this one, or none; no workloads run in it or its children
        Queue short: spec.resources.gpu.quota: got -7, expected -1 (unlimited), or 0 to 9200000000000000 devices; no workloads run in it or its children
        PodGroup ns/g: spec.minMember: got -3, expected an integer from 0 to 2147483647; none of its pods is placed
        PodGroup ns/h: spec.subGroups[0].minMember: got -2, expected an integer from 0 to 2147483647; none of its pods is placed
        "#);
    }

    #[test]
    fn an_invalid_time_and_a_priority_out_of_range_are_noted() {
        let created =
            |at: Value| json!({ "namespace": "ns", "name": "g", "creationTimestamp": at });
        assert_snapshot!(notes(&json!({
            "rawObjects": {
                "priorityClasses": [{ "metadata": { "name": "big" }, "value": 99_999_999_999_i64 },
                                    { "metadata": { "name": "good" }, "value": -7 }],
                "podGroups": [{ "metadata": created(json!("yesterday")) }],
                "pods": [{ "metadata": created(json!(3)) }],
                "queues": [{ "metadata": { "name": "new", "creationTimestamp": null } }],
            },
        })), @r#"
        PodGroup ns/g: metadata.creationTimestamp: got "yesterday", expected a time such as 2026-01-31T12:00:00Z; the object counts as the oldest
        Pod ns/g: metadata.creationTimestamp: got 3, expected a time such as 2026-01-31T12:00:00Z; the object counts as the oldest
        PriorityClass big: value: got 99999999999, expected an integer from -2147483648 to 2147483647; it counts as 0
        "#);
    }

    #[test]
    fn a_bind_request_without_node_is_noted() {
        let request = |name: &str, spec: Value| json!({ "metadata": { "namespace": "ns", "name": name }, "spec": spec });
        let none = json!({ "metadata": { "namespace": "ns", "name": "c" } });
        let requests = [
            request("a", json!({ "podName": "a" })),
            request("b", json!({ "podName": "b", "selectedNode": "" })),
            none,
            request("d", json!({ "podName": "d", "selectedNode": 5 })),
        ];
        assert_snapshot!(notes(&json!({ "rawObjects": { "bindRequests": requests } })), @r"
        BindRequest ns/a: spec.selectedNode: got nothing, expected the name of a node; it selects no node
        BindRequest ns/b: spec.selectedNode: got nothing, expected the name of a node; it selects no node
        BindRequest ns/c: spec.selectedNode: got nothing, expected the name of a node; it selects no node
        BindRequest ns/d: spec.selectedNode: got 5, expected a string; it is ignored
        ");
    }

    #[test]
    fn an_unusable_slice_is_noted() {
        let spec = json!({ "driver": "gpu.x", "pool": { "name": "n", "generation": 1 },
                           "nodeName": "n", "allNodes": true });
        let slices = [json!({ "metadata": { "name": "s" }, "spec": spec })];
        assert_snapshot!(notes(&json!({ "rawObjects": { "resourceSlices": slices } })), @"ResourceSlice s: spec: got nodeName and allNodes, expected exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used");
    }

    #[test]
    fn scheduler_name_actions_and_bind_requests_are_read_from_the_snapshot() {
        let json = json!({
            "schedulerParams": { "SchedulerName": "theirs" },
            "config": { "actions": "allocate, reclaim" },
            "discovery": { "resources": [] },
            "rawObjects": {
                "pods": [{ "metadata": { "namespace": "ns", "name": "p" },
                           "spec": { "schedulerName": "theirs" } }],
                "queues": null,
                "configMaps": [{ "metadata": { "name": "c" } }],
                "bindRequests": [{ "metadata": { "namespace": "ns", "name": "p" },
                                   "spec": { "podName": "p", "selectedNode": "n1" } }],
            },
        });
        let file = || zipped(SNAPSHOT_JSON, &json.to_string());
        let LoadedSnapshot { config, cache, notes } =
            read_snapshot(file(), &Overrides::default()).unwrap();
        let pod = cache.pods.values().next().unwrap();
        assert_eq!((pod.is_ours, pod.node.as_deref()), (true, Some("n1")));
        assert_eq!(config.scheduler_name, "theirs");
        assert_eq!(config.profile.actions, [Action::Allocate, Action::Reclaim]);
        assert!(notes.is_empty(), "{notes:?}");
        let name = "mine".to_owned();
        let mine = Overrides { scheduler_name: Some(name.clone()), ..Overrides::default() };
        assert_eq!(read_snapshot(file(), &mine).unwrap().config.scheduler_name, name);
    }

    #[test]
    fn a_configuration_file_overrides_the_snapshot_and_schedlab_overrides_kai() {
        let json = json!({
            "schedulerParams": { "maxNumberConsolidationPreemptees": 1 },
            "config": { "actions": "allocate", "tiers": [{ "plugins": [
                { "name": "proportion", "arguments": { "kValue": "2" } }] }] },
            "schedlab": { "kValue": 3, "maxConsolidationVictims": 3 },
            "rawObjects": {},
        });
        let overrides = |file: &str| {
            let file = ConfigSource::parse("own.yaml".to_owned(), file.to_owned()).unwrap();
            Overrides { file, ..Overrides::default() }
        };
        let zip = || zipped(SNAPSHOT_JSON, &json.to_string());
        let config = read_snapshot(zip(), &overrides("kValue: 4")).unwrap().config;
        assert_eq!(config.profile.k_value_milli, 4000);
        assert_eq!(config.profile.consolidation_victims_max, 3);
        assert_eq!(config.profile.actions, [Action::Allocate]);
        let error = read_snapshot(zip(), &overrides("usageHalfLife: 6h")).map(|_| ()).unwrap_err();
        assert_eq!(
            error.message_for("s.zip"),
            "own.yaml: usageHalfLife: got a value without usageWindow, expected usageWindow to be \
             set, too at line 1 column 16"
        );
        let error =
            read_snapshot(zipped(SNAPSHOT_JSON, "[]"), &overrides("")).map(|_| ()).unwrap_err();
        assert!(error.message_for("s.zip").starts_with("s.zip: snapshot.json: "), "{error}");
    }

    #[test]
    fn only_nodes_of_the_schedulers_pool_are_loaded() {
        let node = |name: &str, pool: &str| json!({ "metadata": { "name": name, "labels": { "pool": pool } } });
        let json = json!({
            "schedulerParams":
                { "partitionParams": { "NodePoolLabelKey": "pool", "NodePoolLabelValue": "a" } },
            "rawObjects": { "nodes": [node("mine", "a"), node("theirs", "b")] },
        });
        let captured =
            read_snapshot(zipped(SNAPSHOT_JSON, &json.to_string()), &Overrides::default()).unwrap();
        let nodes: Vec<&str> = captured.cache.nodes.keys().map(|name| &**name).collect();
        assert_eq!(nodes, ["mine"]);
    }

    #[test]
    fn only_worker_nodes_are_loaded_when_scheduling_is_restricted_to_them() {
        let of = |labels: Value| json!({ "metadata": { "name": "n", "labels": labels } });
        let seen = |says: Value, node: Value| {
            let json = json!({ "schedulerParams": says, "rawObjects": { "nodes": [node] } });
            let captured =
                read_snapshot(zipped(SNAPSHOT_JSON, &json.to_string()), &Overrides::default())
                    .unwrap();
            captured.cache.nodes.len()
        };
        let worker = || of(json!({ "node-role.kubernetes.io/gpu-worker": "" }));
        let restricted = || json!({ "restrictSchedulingNodes": true });
        assert_eq!(seen(restricted(), worker()), 1);
        assert_eq!(seen(restricted(), of(json!({}))), 0);
        assert_eq!(seen(json!({}), of(json!({}))), 1);
    }
}
