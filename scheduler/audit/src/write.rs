//! A recorded write to the Kubernetes API: the input of the audit.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schedlab_api::Value;

/// An object, shared instead of copied.
pub type Object = Arc<Value>;

/// A successful write. Writes are observed in the order of their revisions.
#[derive(Clone, Debug)]
pub struct Write {
    /// The revision after the write.
    pub revision: u64,
    /// When it was written.
    pub time: Timestamp,
    /// What happened to the object.
    pub kind: WriteKind,
    /// Which object was written.
    pub key: ObjectKey,
    /// The object after the write; for a deletion, its last state.
    pub object: Object,
    /// The object before the write; `None` if it was created.
    pub previous: Option<Object>,
    /// The field manager. A DELETE request has none.
    pub manager: Arc<str>,
}

/// What a write does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Creates it.
    Create,
    /// Changes it.
    Update,
    /// Removes it.
    Delete,
}

/// The identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural name of the kind.
    pub plural: Arc<str>,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// Stores an object's new state. Returns whether its spec changed: most writes change only the
/// status.
pub(crate) fn update_object(
    objects: &mut BTreeMap<Arc<str>, Object>,
    name: &Arc<str>,
    object: Option<&Object>,
) -> bool {
    let known = match object {
        Some(object) => objects.insert(name.clone(), object.clone()),
        None => objects.remove(name),
    };
    match (known, object) {
        (Some(known), Some(now)) => known.get("spec") != now.get("spec"),
        (known, now) => known.is_some() || now.is_some(),
    }
}
