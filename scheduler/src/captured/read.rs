//! Reading a snapshot, object by object, twice: who the scheduler is may stand behind the objects.

use std::{
    collections::BTreeSet,
    fmt,
    io::{BufReader, Read, Seek},
};

use schedlab_json::Value;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zip::{ZipArchive, result::ZipError};

use super::{
    CaptureError, FILE, kind_of, objects,
    set_up::{self, Said},
    types,
};
use crate::{
    config::{Config, GivenFile},
    mirror::{Key, Mirror},
    parse::Malformed,
    watch::Kind,
};

/// What counts more than what a snapshot says of its scheduler.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A configuration file; of its keys those that decide.
    pub file: GivenFile,
    /// Whose pods are scheduled.
    pub scheduler_name: Option<String>,
}

/// A snapshot that was read.
pub(crate) struct Captured {
    pub(crate) config: Config,
    pub(crate) mirror: Mirror,
    /// What it says that is not done, or that cannot be used.
    pub(crate) notes: Vec<String>,
}

/// Reads a snapshot.
pub(crate) fn read(file: impl Read + Seek, wanted: &Wanted) -> Result<Captured, CaptureError> {
    let mut archive = ZipArchive::new(file).map_err(CaptureError::NoZip)?;
    let mut about = About::default();
    pass(&mut archive, &mut about)?;
    if !about.has_objects {
        let allowed = "an object with an array for each kind";
        let (field, found) = ("rawObjects".to_owned(), "nothing".to_owned());
        return Err(CaptureError::Form { field, found, allowed: allowed.into() });
    }
    let mut config = Config::kai();
    let mut notes = set_up::learn(about.said, &mut config)?;
    wanted.file.apply(&mut config, set_up::only_decide)?;
    if let Some(name) = &wanted.scheduler_name {
        config.scheduler_name.clone_from(name);
    }
    let mirror = Mirror::new(&config.scheduler_name)
        .of_pool(config.node_pool.clone())
        .of_workers(config.restrict_node_scheduling);
    let mut objects =
        Objects { mirror, notes: Vec::new(), taken: BTreeSet::new(), mistyped: BTreeSet::new() };
    pass(&mut archive, &mut objects)?;
    notes.extend(objects.notes);
    notes.extend(objects::faults(&objects.mirror, &objects.mistyped));
    Ok(Captured { config, mirror: objects.mirror, notes })
}

/// Reads the whole file once.
fn pass(
    archive: &mut ZipArchive<impl Read + Seek>,
    reader: &mut impl Reader,
) -> Result<(), CaptureError> {
    let entry = archive.by_name(FILE).map_err(|error| {
        let is_other = matches!(error, ZipError::FileNotFound);
        if is_other { CaptureError::NotInside } else { CaptureError::Zip(error) }
    })?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(entry));
    Whole(reader).deserialize(&mut json)?;
    Ok(json.end()?)
}

/// Takes the fields of a snapshot as they come.
trait Reader {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// What it says of its scheduler.
#[derive(Default)]
struct About {
    said: Said,
    has_objects: bool,
}

impl Reader for About {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "config" => self.said.configuration = map.next_value()?,
            "schedulerParams" => self.said.parameters = map.next_value()?,
            "schedlab" => self.said.ours = map.next_value()?,
            _ => {
                map.next_value::<IgnoredAny>()?;
                match key {
                    "rawObjects" => self.has_objects = true,
                    "discovery" => {}
                    strange => self.said.strange.push(strange.to_owned()),
                }
            }
        }
        Ok(())
    }
}

/// What there is in the cluster.
struct Objects {
    mirror: Mirror,
    notes: Vec<String>,
    /// What was taken so far.
    taken: BTreeSet<(Kind, Key)>,
    /// Objects with a value of another type than their kind gives it, of which is told.
    mistyped: BTreeSet<(Kind, Key)>,
}

impl Reader for Objects {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "rawObjects" => map.next_value_seed(Lists(self)),
            _ => map.next_value::<IgnoredAny>().map(|_| ()),
        }
    }
}

impl Objects {
    fn object(&mut self, (list, at): (&str, usize), object: &Value) {
        let Some(kind) = kind_of(list) else { return };
        if let Some(fault) = objects::fault((list, at), object) {
            return self.wrong(&fault);
        }
        let key = Key::of(object);
        if !self.taken.insert((kind, key.clone())) {
            let found = format!("{} again", objects::called(kind, &key));
            let field = format!("rawObjects.{list}[{at}]");
            return self.wrong(&Malformed::new(field, found, "each object once"));
        }
        self.named(kind, object);
    }

    fn named(&mut self, kind: Kind, object: &Value) {
        self.notes.extend(objects::doubts(kind, object));
        let Some(wrong) = types::fault(kind, object) else {
            return self.mirror.upsert(kind, object);
        };
        let wrong = self.mirror.upsert_mistyped(kind, object, wrong);
        let key = Key::of(object);
        let (whose, instead) = (objects::called(kind, &key), objects::instead(kind, object));
        self.notes.push(format!("{whose}: {wrong}; {instead}"));
        self.mistyped.insert((kind, key));
    }

    fn wrong(&mut self, fault: &Malformed) {
        self.notes.push(format!("{fault}; it is left out"));
    }

    /// A list of a kind that nothing here depends on, so many objects long.
    fn passed_over(&mut self, list: &str, length: usize) {
        if length > 0 {
            self.notes.push(format!("rawObjects.{list}: nothing here goes by it"));
        }
    }
}

/// The object that is the whole file.
struct Whole<'r, R>(&'r mut R);

/// `rawObjects`.
struct Lists<'r>(&'r mut Objects);

/// One array in it.
struct Array<'r, 'n>(&'r mut Objects, &'n str);

impl<'de, R: Reader> DeserializeSeed<'de> for Whole<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, R: Reader> Visitor<'de> for Whole<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with config, schedulerParams and rawObjects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            self.0.take(&key, &mut map)?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Lists<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Lists<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rawObjects: an object with an array for each kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(Array(&mut *self.0, &name))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Array<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Array<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rawObjects.{}: an array of objects, or null", self.1)
    }

    /// Go writes an empty list as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut length = 0;
        if kind_of(self.1).is_none() {
            while items.next_element::<IgnoredAny>()?.is_some() {
                length += 1;
            }
            self.0.passed_over(self.1, length);
            return Ok(());
        }
        while let Some(object) = items.next_element::<Value>()? {
            self.0.object((self.1, length), &object);
            length += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use insta::assert_snapshot;
    use schedlab_json::json;
    use schedlab_scheduler_core::profile::Action;
    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn zipped(name: &str, json: &str) -> Cursor<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(json.as_bytes()).unwrap();
        zip.finish().unwrap()
    }

    fn wrong(name: &str, json: &str) -> String {
        told(zipped(name, json))
    }

    /// As the command line tells it.
    fn told(file: Cursor<Vec<u8>>) -> String {
        let error = read(file, &Wanted::default()).map(|_| ()).unwrap_err();
        format!("{:#}", anyhow::Error::from(error))
    }

    fn notes(snapshot: &Value) -> String {
        let file = zipped(FILE, &snapshot.to_string());
        read(file, &Wanted::default()).unwrap().notes.join("\n")
    }

    #[test]
    fn what_cannot_be_read_is_told_once_with_its_place() {
        assert_snapshot!(wrong("other.json", "{}"), @"snapshot.json: found no file of that name in the zip, allowed: a zip with it");
        assert_snapshot!(wrong(FILE, "{}"), @"snapshot.json: rawObjects: found nothing, allowed: an object with an array for each kind");
        assert_snapshot!(wrong(FILE, "[]"), @"snapshot.json: invalid type: sequence, expected an object with config, schedulerParams and rawObjects at line 1 column 1");
        assert_snapshot!(wrong(FILE, r#"{"rawObjects":{"pods":{}}}"#), @"snapshot.json: invalid type: map, expected rawObjects.pods: an array of objects, or null at line 1 column 24");
        assert_snapshot!(wrong(FILE, r#"{"rawObjects":"x"}"#), @r#"snapshot.json: invalid type: string "x", expected rawObjects: an object with an array for each kind at line 1 column 17"#);
        assert_snapshot!(wrong(FILE, r#"{"config":"x","rawObjects":{}}"#), @r#"snapshot.json: config: found "x", allowed: an object, as KAI writes it"#);
        assert_snapshot!(wrong(FILE, r#"{"schedlab":{"kValue":-2},"rawObjects":{}}"#), @"snapshot.json: schedlab.kValue: found -2, allowed: 0 to 1000");
        assert_snapshot!(told(Cursor::new(b"no zip".to_vec())), @"found no whole zip (invalid Zip archive: Could not find EOCD), allowed: a zip with snapshot.json in it");
        let mut half = zipped(FILE, "{}").into_inner();
        half.truncate(half.len() / 2);
        assert_snapshot!(told(Cursor::new(half)), @"found no whole zip (invalid Zip archive: Could not find EOCD), allowed: a zip with snapshot.json in it");
    }

    #[test]
    fn an_object_that_stands_twice_counts_once_and_is_noted() {
        let queue = |name: &str, quota: u32| json!({ "metadata": { "name": name }, "spec": { "resources": { "gpu": { "quota": quota } } } });
        let pod = |namespace: &str| json!({ "metadata": { "namespace": namespace, "name": "p" } });
        let objects = json!({
            "queues": [queue("a", 1), queue("b", 1), queue("a", 100)],
            "pods": [pod("x"), pod("y"), pod("x")],
        });
        assert_snapshot!(notes(&json!({ "rawObjects": objects })), @r"
        rawObjects.pods[2]: found Pod x/p again, allowed: each object once; it is left out
        rawObjects.queues[2]: found Queue a again, allowed: each object once; it is left out
        ");
    }

    #[test]
    fn objects_that_cannot_be_used_are_noted_by_field() {
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
        future: nothing here goes by it
        rawObjects.pods[0]: found 3, allowed: an object; it is left out
        rawObjects.pods[1].metadata.name: found nothing, allowed: a name; it is left out
        rawObjects.unicorns: nothing here goes by it
        Node n: status.allocatable.cpu: found "many", allowed: a quantity such as 2, 500m, 1.5Gi or 1e3; it counts as nothing
        Queue below: spec.parentQueue: found "round", which leads back to it, allowed: a queue that exists and is not below this one, or none; nothing runs in it or below it
        Queue lost: spec.parentQueue: found "nobody", which does not exist, allowed: a queue that exists and is not below this one, or none; nothing runs in it or below it
        Queue round: spec.parentQueue: found "round", which leads back to it, allowed: a queue that exists and is not below this one, or none; nothing runs in it or below it
        Queue short: spec.resources.gpu.quota: found -7, allowed: -1 (unlimited), or 0 to 9200000000000000 devices; nothing runs in it or below it
        PodGroup ns/g: spec.minMember: found -3, allowed: an integer from 0 to 2147483647; none of its pods is placed
        PodGroup ns/h: spec.subGroups[0].minMember: found -2, allowed: an integer from 0 to 2147483647; none of its pods is placed
        "#);
    }

    #[test]
    fn a_moment_that_is_none_and_a_priority_out_of_bounds_are_noted() {
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
        PodGroup ns/g: metadata.creationTimestamp: found "yesterday", allowed: a time such as 2026-01-31T12:00:00Z; it counts as the oldest
        Pod ns/g: metadata.creationTimestamp: found 3, allowed: a time such as 2026-01-31T12:00:00Z; it counts as the oldest
        PriorityClass big: value: found 99999999999, allowed: an integer from -2147483648 to 2147483647; it counts as 0
        "#);
    }

    #[test]
    fn a_bind_request_that_names_no_node_is_noted() {
        let request = |name: &str, spec: Value| json!({ "metadata": { "namespace": "ns", "name": name }, "spec": spec });
        let none = json!({ "metadata": { "namespace": "ns", "name": "c" } });
        let requests = [
            request("a", json!({ "podName": "a" })),
            request("b", json!({ "podName": "b", "selectedNode": "" })),
            none,
            request("d", json!({ "podName": "d", "selectedNode": 5 })),
        ];
        assert_snapshot!(notes(&json!({ "rawObjects": { "bindRequests": requests } })), @r"
        BindRequest ns/a: spec.selectedNode: found nothing, allowed: the name of a node; it sends its pod nowhere
        BindRequest ns/b: spec.selectedNode: found nothing, allowed: the name of a node; it sends its pod nowhere
        BindRequest ns/c: spec.selectedNode: found nothing, allowed: the name of a node; it sends its pod nowhere
        BindRequest ns/d: spec.selectedNode: found 5, allowed: a string; it is left out
        ");
    }

    #[test]
    fn a_slice_that_cannot_be_used_is_noted() {
        let spec = json!({ "driver": "gpu.x", "pool": { "name": "n", "generation": 1 },
                           "nodeName": "n", "allNodes": true });
        let slices = [json!({ "metadata": { "name": "s" }, "spec": spec })];
        assert_snapshot!(notes(&json!({ "rawObjects": { "resourceSlices": slices } })), @"ResourceSlice s: spec: found nodeName and allNodes, allowed: exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection; none of its devices is used");
    }

    #[test]
    fn a_pod_with_a_bind_request_is_on_its_way_and_the_schedulers_name_is_learned() {
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
        let file = || zipped(FILE, &json.to_string());
        let Captured { config, mirror, notes } = read(file(), &Wanted::default()).unwrap();
        let pod = mirror.pods.values().next().unwrap();
        assert_eq!((pod.ours, pod.node.as_deref()), (true, Some("n1")));
        assert_eq!(config.scheduler_name, "theirs");
        assert_eq!(config.profile.actions, [Action::Allocate, Action::Reclaim]);
        assert!(notes.is_empty(), "{notes:?}");
        let name = "mine".to_owned();
        let mine = Wanted { scheduler_name: Some(name.clone()), ..Wanted::default() };
        assert_eq!(read(file(), &mine).unwrap().config.scheduler_name, name);
    }

    #[test]
    fn a_configuration_file_wins_over_the_snapshot_and_our_words_in_it_over_kais() {
        let json = json!({
            "schedulerParams": { "maxNumberConsolidationPreemptees": 1 },
            "config": { "actions": "allocate", "tiers": [{ "plugins": [
                { "name": "proportion", "arguments": { "kValue": "2" } }] }] },
            "schedlab": { "kValue": 3, "maxConsolidationVictims": 3 },
            "rawObjects": {},
        });
        let wanted = |file: &str| {
            let file = GivenFile::parse("own.yaml".to_owned(), file.to_owned()).unwrap();
            Wanted { file, scheduler_name: None }
        };
        let zip = || zipped(FILE, &json.to_string());
        let config = read(zip(), &wanted("kValue: 4")).unwrap().config;
        assert_eq!(config.profile.k_value_milli, 4000);
        assert_eq!(config.profile.consolidation_victims_max, 3);
        assert_eq!(config.profile.actions, [Action::Allocate]);
        let error = read(zip(), &wanted("usageHalfLife: 6h")).map(|_| ()).unwrap_err();
        assert_eq!(
            error.in_zip("s.zip"),
            "own.yaml: usageHalfLife: found one without usageWindow, allowed: one beside \
             usageWindow at line 1 column 16"
        );
        let error = read(zipped(FILE, "[]"), &wanted("")).map(|_| ()).unwrap_err();
        assert!(error.in_zip("s.zip").starts_with("s.zip: snapshot.json: "), "{error}");
    }

    #[test]
    fn only_nodes_and_pods_of_the_schedulers_pool_are_there() {
        let node = |name: &str, pool: &str| json!({ "metadata": { "name": name, "labels": { "pool": pool } } });
        let json = json!({
            "schedulerParams":
                { "partitionParams": { "NodePoolLabelKey": "pool", "NodePoolLabelValue": "a" } },
            "rawObjects": { "nodes": [node("mine", "a"), node("theirs", "b")] },
        });
        let captured = read(zipped(FILE, &json.to_string()), &Wanted::default()).unwrap();
        let nodes: Vec<&str> = captured.mirror.nodes.keys().map(|name| &**name).collect();
        assert_eq!(nodes, ["mine"]);
    }

    #[test]
    fn nodes_that_are_no_workers_are_left_out_where_the_scheduler_keeps_to_workers() {
        let of = |labels: Value| json!({ "metadata": { "name": "n", "labels": labels } });
        let seen = |says: Value, node: Value| {
            let json = json!({ "schedulerParams": says, "rawObjects": { "nodes": [node] } });
            let captured = read(zipped(FILE, &json.to_string()), &Wanted::default()).unwrap();
            captured.mirror.nodes.len()
        };
        let worker = || of(json!({ "node-role.kubernetes.io/gpu-worker": "" }));
        let restricted = || json!({ "restrictSchedulingNodes": true });
        assert_eq!(seen(restricted(), worker()), 1);
        assert_eq!(seen(restricted(), of(json!({}))), 0);
        assert_eq!(seen(json!({}), of(json!({}))), 1);
    }
}
