//! Kartas (`run.ai/v1alpha1`): what a kind of workload is made of, and how its pods are grouped,
//! in the words of whoever knows the kind. They are another project's, and need not be there.

mod ask;
mod jq;
mod read;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use schedlab_json::Value;
use schedlab_scheduler_core::model::Name;

use crate::parse::{Malformed, name, uid};
pub(crate) use jq::Allowance;
pub(crate) use tree::{Karta, Part};

pub(crate) const API_VERSION: &str = "run.ai/v1alpha1";

const ALONE: &str = "a kind that no other Karta with gangScheduling describes";

/// API version and kind.
pub(crate) type Described = (Name, Name);

/// A Karta as it is kept.
#[derive(Debug, PartialEq)]
pub(crate) struct KartaRecord {
    uid: Name,
    /// The kind that it describes; `None`: it is not found, as it is malformed.
    of: Option<Described>,
    karta: Result<Karta, Malformed>,
}

impl KartaRecord {
    /// `None`: it groups nothing.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let uid = uid(object);
        let (of, karta) = match read::described(object) {
            Ok(of) => (Some(of?), read::karta(object)),
            Err(wrong) => (None, Err(wrong)),
        };
        Some(Self { uid, of, karta })
    }
}

/// All Kartas that group pods, or are to, by name.
#[derive(Debug, Default)]
pub(crate) struct Kartas {
    known: BTreeMap<Name, KartaRecord>,
    changed: Changed,
}

/// What is different since somebody took it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// Kinds of which a Karta came, changed or went.
    pub(crate) kinds: BTreeSet<Described>,
    /// Kartas that came or changed, and are not found.
    unfound: BTreeSet<Name>,
}

impl Kartas {
    /// Answers whether anything is different now.
    pub(crate) fn put(&mut self, name: Name, record: Option<KartaRecord>) -> bool {
        if self.known.get(&name) == record.as_ref() {
            return false;
        }
        let before = match record {
            Some(record) => {
                match &record.of {
                    Some(of) => self.changed.kinds.insert(of.clone()),
                    None => self.changed.unfound.insert(Name::clone(&name)),
                };
                self.known.insert(name, record)
            }
            None => self.known.remove(&name),
        };
        self.changed.kinds.extend(before.and_then(|record| record.of));
        true
    }

    /// Takes away those that are not among these objects.
    pub(crate) fn keep(&mut self, objects: &[Value]) {
        let kept: BTreeSet<Name> =
            objects.iter().filter_map(|object| name(object, "/metadata/name")).collect();
        let gone: Vec<Name> =
            self.known.keys().filter(|name| !kept.contains(*name)).cloned().collect();
        for name in gone {
            self.put(name, None);
        }
    }

    pub(crate) fn changed(&self) -> &Changed {
        &self.changed
    }

    pub(crate) fn take_changed(&mut self) -> Changed {
        mem::take(&mut self.changed)
    }

    /// The one that says how pods of this kind are grouped. Of several none counts, as in KAI.
    pub(crate) fn of(&self, api_version: &str, kind: &str) -> Option<&Karta> {
        let mut kartas = self.usable(api_version, kind).map(|(_, karta)| karta);
        kartas.next().filter(|_| kartas.next().is_none())
    }

    fn usable(&self, api_version: &str, kind: &str) -> impl Iterator<Item = (&Name, &Karta)> {
        let is_meant = move |of: &Described| *of.0 == *api_version && *of.1 == *kind;
        let meant =
            self.known.iter().filter(move |(_, record)| record.of.as_ref().is_some_and(is_meant));
        meant.filter_map(|(name, record)| Some((name, record.karta.as_ref().ok()?)))
    }

    /// Kartas among these that count as not there: name, UID, and why.
    pub(crate) fn wrong(&self, among: &Changed) -> impl Iterator<Item = (&Name, &Name, Malformed)> {
        let meant = self.known.iter().filter(|(name, record)| match &record.of {
            Some(of) => among.kinds.contains(of),
            None => among.unfound.contains(*name),
        });
        meant.filter_map(|(name, record)| {
            let alone = || {
                let (api_version, kind) = record.of.as_ref()?;
                let (other, _) =
                    self.usable(api_version, kind).find(|(other, _)| *other != name)?;
                let found = format!("{kind} of {api_version}, as in Karta {other}");
                Some(Malformed::new(read::KIND, found, ALONE))
            };
            let wrong = record.karta.as_ref().err().cloned().or_else(alone)?;
            Some((name, &record.uid, wrong))
        })
    }
}
