//! Reading a snapshot, object by object, twice: who the scheduler is may stand behind the objects.

use std::{
    fmt,
    io::{BufReader, Read, Seek},
};

use schedlab_json::Value;
use schedlab_scheduler_core::{framework::Plugins, profile::Action};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use zip::ZipArchive;

use super::{CaptureError, FILE, kind_of};
use crate::{
    config::Config,
    mirror::Mirror,
    parse::{list, text},
};

/// What is known when everything was read.
struct Reading<'a> {
    pass: Pass,
    config: &'a mut Config,
    /// The user said which scheduler it is.
    name_is_given: bool,
    mirror: Mirror,
}

/// What is looked for; the rest is skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    SetUp,
    Objects,
}

/// Reads a snapshot into a mirror; `config` learns what the snapshot's scheduler did.
pub(crate) fn read(
    file: impl Read + Seek,
    config: &mut Config,
    name_is_given: bool,
) -> Result<Mirror, CaptureError> {
    let mut archive = ZipArchive::new(file)?;
    let mirror = Mirror::new(&config.scheduler_name);
    let pass = Pass::SetUp;
    let mut reading = Reading { pass, config, name_is_given, mirror };
    for pass in [Pass::SetUp, Pass::Objects] {
        reading.pass = pass;
        let entry = BufReader::new(archive.by_name(FILE)?);
        let mut json = serde_json::Deserializer::from_reader(entry);
        Whole(&mut reading).deserialize(&mut json)?;
        json.end()?;
    }
    Ok(reading.mirror)
}

impl Reading<'_> {
    fn parameters(&mut self, parameters: &Value) {
        let fields = parameters.as_object().into_iter().flatten();
        let mut named = fields.filter(|(key, _)| key.eq_ignore_ascii_case("schedulerName"));
        let name = named.find_map(|(_, name)| name.as_str()).filter(|name| !name.is_empty());
        if let Some(name) = name.filter(|_| !self.name_is_given) {
            name.clone_into(&mut self.config.scheduler_name);
            self.mirror = Mirror::new(name);
        }
    }

    /// `actions` as KAI writes them, in one text; plugins in tiers.
    fn set_up(&mut self, config: &Value) {
        let actions = text(config, "/actions").unwrap_or_default().split(',').map(str::trim);
        let all = [
            Action::Allocate,
            Action::Consolidate,
            Action::Reclaim,
            Action::Preempt,
            Action::StaleGangEviction,
        ];
        let known = |name: &str| all.into_iter().find(|action| action.as_str() == name);
        let actions: Vec<Action> = actions.filter_map(known).collect();
        if !actions.is_empty() {
            self.config.profile.actions = actions;
        }
        let tiers = list(config, "/tiers").iter().flat_map(|tier| list(tier, "/plugins"));
        let plugins: Vec<&str> = tiers.filter_map(|plugin| text(plugin, "/name")).collect();
        if !plugins.is_empty() {
            self.config.profile.plugins = Plugins::kai_with(|name| plugins.contains(&name));
        }
    }

    fn take(&mut self, name: &str, object: &Value) {
        if let Some(kind) = kind_of(name) {
            self.mirror.upsert(kind, object);
        }
    }
}

/// The object that is the whole file.
struct Whole<'r, 'c>(&'r mut Reading<'c>);

/// `rawObjects`.
struct Objects<'r, 'c>(&'r mut Reading<'c>);

/// One array in it.
struct Array<'r, 'c, 'n>(&'r mut Reading<'c>, &'n str);

impl<'de> DeserializeSeed<'de> for Whole<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with config, schedulerParams and rawObjects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (key.as_str(), self.0.pass) {
                ("config", Pass::SetUp) => {
                    let config: Value = map.next_value()?;
                    self.0.set_up(&config);
                }
                ("schedulerParams", Pass::SetUp) => {
                    let parameters: Value = map.next_value()?;
                    self.0.parameters(&parameters);
                }
                ("rawObjects", Pass::Objects) => map.next_value_seed(Objects(&mut *self.0))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Objects<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Objects<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array for each kind")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            map.next_value_seed(Array(&mut *self.0, &name))?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Array<'_, '_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Array<'_, '_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: an array of objects, or null", self.1)
    }

    /// Go writes an empty list as null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if kind_of(self.1).is_none() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        while let Some(object) = items.next_element::<Value>()? {
            self.0.take(self.1, &object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn zipped(name: &str, json: &str) -> Cursor<Vec<u8>> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(json.as_bytes()).unwrap();
        zip.finish().unwrap()
    }

    fn wrong(name: &str, json: &str) -> String {
        let read = read(zipped(name, json), &mut Config::kai(), false);
        read.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        assert_eq!(wrong("other.json", "{}"), "the zip: specified file not found in archive");
        let told = wrong(FILE, "{\"rawObjects\":{\"pods\":{}}}");
        assert!(told.contains("pods: an array of objects, or null at line 1 column"), "{told}");
        assert!(wrong(FILE, "[]").contains("expected an object with config"));
        let broken = read(Cursor::new(b"no zip".to_vec()), &mut Config::kai(), false);
        assert!(broken.is_err());
    }

    #[test]
    fn a_pod_with_a_bind_request_is_on_its_way_and_the_schedulers_name_is_learned() {
        let json = schedlab_json::json!({
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
        let mut config = Config::kai();
        let mirror = read(zipped(FILE, &json.to_string()), &mut config, false).unwrap();
        let pod = mirror.pods.values().next().unwrap();
        assert_eq!((pod.ours, pod.node.as_deref()), (true, Some("n1")));
        assert_eq!(config.scheduler_name, "theirs");
        assert_eq!(config.profile.actions, [Action::Allocate, Action::Reclaim]);
    }
}
