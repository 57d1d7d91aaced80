//! A recorded write to the Kubernetes API: the input of the audit.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schedlab_api::Value;

/// A Kubernetes object as JSON; clones share the data.
pub type Object = Arc<Value>;

/// A successful write to the Kubernetes API. Writes are observed in the order of their revisions.
#[derive(Clone, Debug)]
pub struct Write {
    /// The revision of the API server's store after the write.
    pub revision: u64,
    /// Time of the write.
    pub time: Timestamp,
    /// What the write does to the object.
    pub kind: WriteKind,
    /// Identity of the object that was written.
    pub key: ObjectKey,
    /// The object after the write; for a deletion, its last state.
    pub object: Object,
    /// The object before the write; `None` if it was created.
    pub previous: Option<Object>,
    /// The field manager that made the write. A DELETE request has none.
    pub manager: Arc<str>,
}

/// What a write does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The write creates the object.
    Create,
    /// The write changes the object.
    Update,
    /// The write removes the object.
    Delete,
}

/// The identity of a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural name of the kind, such as `pods`.
    pub plural: Arc<str>,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
}

/// Stores an object's new state in `objects`. Returns whether the spec changed: most writes change
/// only the status.
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
