//! The key of an object, and records by key.

use std::{collections::BTreeMap, fmt};

use schedlab_api::Value;
use schedlab_scheduler_core::model::Name;

use crate::{parse::text, watch::RawObject};

/// Namespace and name of an object; the namespace is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: Name,
    pub(crate) name: Name,
}

impl ObjectKey {
    pub(crate) fn from_object(object: &Value) -> Self {
        let part = |pointer| text(object, pointer).unwrap_or_default().into();
        Self { namespace: part("/metadata/namespace"), name: part("/metadata/name") }
    }

    /// The key of another object of the same namespace.
    pub(crate) fn sibling(&self, name: &Name) -> Self {
        Self { namespace: Name::clone(&self.namespace), name: Name::clone(name) }
    }

    /// Parses the form that `Display` writes: `namespace/name`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        Some(Self { namespace: namespace.into(), name: name.into() })
    }

    pub(crate) fn from_raw(object: &RawObject) -> Self {
        Self { namespace: Name::clone(&object.namespace), name: Name::clone(&object.name) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Inserts a record. Returns whether it differs from the one before.
pub(crate) fn insert_if_changed<K: Ord, R: PartialEq>(
    records: &mut BTreeMap<K, R>,
    key: K,
    record: R,
) -> bool {
    if records.get(&key) == Some(&record) {
        return false;
    }
    records.insert(key, record);
    true
}
