//! Kartas (`run.ai/v1alpha1`): custom resources that describe the components of a workload kind
//! and how its pods are grouped. The CRD belongs to another project and may be missing. This module
//! parses and evaluates Kartas; [`crate::podgrouper`] turns the result into PodGroups.

mod definition;
mod expression;
mod jq;
mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use crate::parse::{Malformed, name, uid};
pub(crate) use jq::CycleBudget;
pub(crate) use tree::{Karta, SubGroupSpec};

pub(crate) const API_VERSION: &str = "run.ai/v1alpha1";

const EXPECTED_UNIQUE_KIND: &str = "a kind that no other Karta with gangScheduling describes";

/// API version and kind of the workloads that a Karta describes.
pub(crate) type DescribedKind = (Name, Name);

/// A parsed Karta, or the error that makes it unusable.
#[derive(Debug, PartialEq)]
pub(crate) struct KartaRecord {
    uid: Name,
    /// The kind that the Karta describes; `None`: the kind cannot be determined, as the object is
    /// malformed.
    kind: Option<DescribedKind>,
    karta: Result<Karta, Malformed>,
}

impl KartaRecord {
    /// Parses a Karta. `None`: it has no gang scheduling section or is being deleted.
    pub(crate) fn from_object(object: &Value) -> Option<Self> {
        let uid = uid(object);
        let (of, karta) = match definition::read_described_kind(object) {
            Ok(of) => (Some(of?), definition::parse_karta(object)),
            Err(wrong) => (None, Err(wrong)),
        };
        Some(Self { uid, kind: of, karta })
    }
}

/// All Kartas with a gang scheduling section, by name.
#[derive(Debug, Default)]
pub(crate) struct Kartas {
    by_name: BTreeMap<Name, KartaRecord>,
    changed: KartaChanges,
}

/// Kartas that changed since the changes were last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct KartaChanges {
    /// Kinds with a created, changed or deleted Karta.
    pub(crate) kinds: BTreeSet<DescribedKind>,
    /// Names of created or changed Kartas whose kind cannot be determined.
    malformed: BTreeSet<Name>,
}

impl Kartas {
    /// Sets a Karta, or removes it with `None`. Returns whether that is a change.
    pub(crate) fn insert_or_remove(&mut self, name: Name, record: Option<KartaRecord>) -> bool {
        if self.by_name.get(&name) == record.as_ref() {
            return false;
        }
        let before = match record {
            Some(record) => {
                match &record.kind {
                    Some(of) => self.changed.kinds.insert(of.clone()),
                    None => self.changed.malformed.insert(Name::clone(&name)),
                };
                self.by_name.insert(name, record)
            }
            None => self.by_name.remove(&name),
        };
        self.changed.kinds.extend(before.and_then(|record| record.kind));
        true
    }

    /// Removes all Kartas that are not among the listed objects.
    pub(crate) fn retain_listed(&mut self, objects: &[Value]) {
        let listed: BTreeSet<Name> =
            objects.iter().filter_map(|object| name(object, "/metadata/name")).collect();
        let gone: Vec<Name> =
            self.by_name.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.insert_or_remove(name, None);
        }
    }

    pub(crate) fn changes_so_far(&self) -> &KartaChanges {
        &self.changed
    }

    pub(crate) fn take_changes(&mut self) -> KartaChanges {
        mem::take(&mut self.changed)
    }

    /// The valid Karta of a kind. `None` if there are several, as in KAI, or none.
    pub(crate) fn for_kind(&self, api_version: &str, kind: &str) -> Option<&Karta> {
        let mut kartas = self.usable_for_kind(api_version, kind).map(|(_, karta)| karta);
        kartas.next().filter(|_| kartas.next().is_none())
    }

    fn usable_for_kind(
        &self,
        api_version: &str,
        kind: &str,
    ) -> impl Iterator<Item = (&Name, &Karta)> {
        let is_meant = move |of: &DescribedKind| *of.0 == *api_version && *of.1 == *kind;
        let meant = self
            .by_name
            .iter()
            .filter(move |(_, record)| record.kind.as_ref().is_some_and(is_meant));
        meant.filter_map(|(name, record)| Some((name, record.karta.as_ref().ok()?)))
    }

    /// Changed Kartas that are ignored: name, UID and reason.
    pub(crate) fn invalid_kartas(
        &self,
        among: &KartaChanges,
    ) -> impl Iterator<Item = (&Name, &Name, Malformed)> {
        let meant = self.by_name.iter().filter(|(name, record)| match &record.kind {
            Some(of) => among.kinds.contains(of),
            None => among.malformed.contains(*name),
        });
        meant.filter_map(|(name, record)| {
            let alone = || {
                let (api_version, kind) = record.kind.as_ref()?;
                let (other, _) =
                    self.usable_for_kind(api_version, kind).find(|(other, _)| *other != name)?;
                let found = format!("{kind} of {api_version}, also described by Karta {other}");
                Some(Malformed::new(definition::KIND_FIELD, found, EXPECTED_UNIQUE_KIND))
            };
            let wrong = record.karta.as_ref().err().cloned().or_else(alone)?;
            Some((name, &record.uid, wrong))
        })
    }
}
