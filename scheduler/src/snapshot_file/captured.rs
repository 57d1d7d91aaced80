//! A captured cluster in memory: what `snapshot.json` contains.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, Write},
    sync::Arc,
};

use schedlab_api::{Text, Value, object};

use super::{
    ClusterLoader, LoadedSnapshot, Overrides, SnapshotFileError, array_name,
    config::CapturedConfig,
    read::{load_objects, read_config},
    write,
};
use crate::{
    config::{Config, Flavor},
    watch::Kind,
};

/// Settings that name objects of a cluster, or that a replay does not use.
const SETTINGS_OF_A_CLUSTER: [&str; 5] =
    ["schedulerName", "nodePool", "gpuReservation", "usageWindow", "usageHalfLife"];

/// Settings of a scheduler, and the objects of its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedCluster {
    /// The configuration of KAI's scheduler; null if unknown.
    pub config: Value,
    /// The flags of KAI's scheduler; null if unknown.
    pub scheduler_params: Value,
    /// The settings in the format of our configuration file; null if unknown.
    pub schedlab: Value,
    /// The version of the API server; null if unknown.
    pub discovery: Value,
    /// The objects, by the name of their array in `rawObjects`.
    pub objects: BTreeMap<String, Vec<Arc<Value>>>,
}

impl CapturedCluster {
    /// Builds the state of a scheduler from the captured objects.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn load(&self, overrides: &Overrides) -> Result<LoadedSnapshot, SnapshotFileError> {
        load_objects(self.settings(), overrides, |pass| {
            for (list, objects) in &self.objects {
                pass.load_list(list, objects.iter().map(AsRef::as_ref));
            }
            Ok(())
        })
    }

    /// Like [`Self::load`], for a state that follows changes of the cluster.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn loader(&self, overrides: &Overrides) -> Result<ClusterLoader, SnapshotFileError> {
        let mut loader = ClusterLoader::new(self.settings(), overrides)?;
        for (list, objects) in &self.objects {
            loader.objects.load_list(list, objects.iter().map(AsRef::as_ref));
        }
        Ok(loader)
    }

    fn settings(&self) -> CapturedConfig {
        CapturedConfig {
            configuration: self.config.clone(),
            parameters: self.scheduler_params.clone(),
            schedlab: self.schedlab.clone(),
            unknown_keys: Vec::new(),
        }
    }

    /// The settings that differ from the defaults and that decisions on another cluster depend on, in
    /// the format of our configuration file. Left out are names of this cluster: of the scheduler and
    /// of its node pool.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn changed_settings(&self, overrides: &Overrides) -> Result<Value, SnapshotFileError> {
        let (config, _) = read_config(self.settings(), overrides)?;
        let mut changed = write::schedlab_settings_json(&config);
        for field in SETTINGS_OF_A_CLUSTER {
            object::remove(&mut changed, &[field]);
        }
        keep_changed(&mut changed, &write::schedlab_settings_json(&Config::kai()));
        Ok(changed)
    }

    /// Writes the cluster in the format of `snapshot.json`.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_json(&self, mut out: impl Write) -> io::Result<()> {
        write!(
            out,
            "{{\"config\":{},\"schedulerParams\":{},\"schedlab\":{},\"discovery\":{},\"rawObjects\":{{",
            self.config, self.scheduler_params, self.schedlab, self.discovery
        )?;
        for (at, (list, objects)) in self.objects.iter().enumerate() {
            write!(out, "{}\"{list}\":[", separator(at))?;
            for (at, object) in objects.iter().enumerate() {
                out.write_all(separator(at).as_bytes())?;
                serde_json::to_writer(&mut out, object.as_ref())?;
            }
            out.write_all(b"]")?;
        }
        out.write_all(b"}}")
    }
}

impl ClusterLoader {
    /// Follows the changes from one cluster, which is loaded, to another with the same settings.
    /// Costs what differs: objects that both share ([`Arc::ptr_eq`]) are not read again.
    pub fn update(&mut self, from: &CapturedCluster, to: &CapturedCluster) {
        let addresses = |objects: &[Arc<Value>]| -> BTreeSet<*const Value> {
            objects.iter().map(Arc::as_ptr).collect()
        };
        let lists: BTreeSet<&String> = from.objects.keys().chain(to.objects.keys()).collect();
        for list in lists {
            let old = from.objects.get(list).map_or(&[][..], Vec::as_slice);
            let new = to.objects.get(list).map_or(&[][..], Vec::as_slice);
            let (known, kept) = (addresses(old), addresses(new));
            for object in old.iter().filter(|object| !kept.contains(&Arc::as_ptr(object))) {
                self.objects.remove_object(list, object);
            }
            let added = new.iter().enumerate();
            for (index, object) in added.filter(|(_, one)| !known.contains(&Arc::as_ptr(one))) {
                self.objects.load_object(list, index, object);
            }
        }
    }
}

/// Removes the fields that are null or equal to those of `default`.
fn keep_changed(settings: &mut Value, default: &Value) {
    let Some(fields) = settings.as_object_mut() else { return };
    let same = |field: &Text, value: &Value| {
        value.is_null() || default.get(field.as_str()).is_some_and(|default| default == value)
    };
    let keys: Vec<Text> = fields.keys().cloned().collect();
    for key in keys {
        let Some(value) = fields.get_mut(key.as_str()) else { continue };
        if same(&key, value) {
            fields.remove(key.as_str());
            continue;
        }
        keep_changed(value, default.get(key.as_str()).unwrap_or(&Value::Null));
    }
}

/// What JSON has before the item at this index.
const fn separator(at: usize) -> &'static str {
    if at == 0 { "" } else { "," }
}

/// The names of the arrays in `rawObjects` that decisions depend on.
pub fn array_names() -> impl Iterator<Item = &'static str> {
    Kind::watched(Flavor::Kai).iter().filter_map(|kind| array_name(*kind))
}
