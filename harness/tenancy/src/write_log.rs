//! Attributes writes to their writers, because a watch does not report field managers. Also keeps
//! the highest `resourceVersion` written per collection, so that a reader can wait until it has
//! seen it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedlab_api::Value;

use super::RequestTarget;

/// Who made the writes of one scenario. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct WriteAttribution(Arc<Mutex<AttributionState>>);

#[derive(Debug, Default)]
struct AttributionState {
    writers: BTreeMap<u64, Arc<str>>,
    deleters: BTreeMap<String, Arc<str>>,
    binders: BTreeMap<(String, String), Arc<str>>,
    watermarks: Watermarks,
}

/// Up to which revision each collection was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The highest `resourceVersion` by [`collection_key`].
    pub newest: BTreeMap<String, u64>,
    /// The uids of deleted objects, and their [`collection_key`].
    pub deleted: BTreeMap<String, String>,
}

/// Name of a collection: KAI and Kubernetes both have `podgroups`.
pub fn collection_key(group: &str, plural: &str) -> String {
    format!("{plural}.{group}")
}

impl WriteAttribution {
    /// Records a successful write by `writer`; `response` is what the API server answered.
    pub(super) fn record_write(&self, target: &RequestTarget, response: &Value, writer: &Arc<str>) {
        let mut state = self.lock_state();
        if target.subresource.as_deref() == Some("binding")
            && let (Some(namespace), Some(name)) = (&target.namespace, &target.name)
        {
            state.binders.insert((namespace.clone(), name.clone()), Arc::clone(writer));
        }
        let text = |at: &str| response.pointer(at).and_then(Value::as_str);
        if response["kind"] == "Status" {
            if let Some(uid) = text("/details/uid") {
                state.deleters.insert(uid.to_owned(), Arc::clone(writer));
                let group = text("/details/group").unwrap_or_default();
                let collection = collection_key(group, &target.plural);
                state.watermarks.deleted.insert(uid.to_owned(), collection);
            }
            return;
        }
        let revision = text("/metadata/resourceVersion").and_then(|text| text.parse().ok());
        let Some(revision) = revision else { return };
        state.writers.insert(revision, Arc::clone(writer));
        let version = text("/apiVersion").unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let collection = collection_key(group, &target.plural);
        let newest = state.watermarks.newest.entry(collection).or_default();
        *newest = revision.max(*newest);
        if let Some(uid) = text("/metadata/uid")
            && text("/metadata/deletionTimestamp").is_some()
        {
            state.deleters.insert(uid.to_owned(), Arc::clone(writer));
        }
    }

    /// The writer of the change with this revision; `None` if the change was not made through the
    /// scenario's clients.
    pub fn writer_of_revision(&self, revision: u64) -> Option<Arc<str>> {
        self.lock_state().writers.get(&revision).cloned()
    }

    /// The writer that requested the deletion of the object with this uid.
    pub fn deleter_of_uid(&self, uid: &str) -> Option<Arc<str>> {
        self.lock_state().deleters.get(uid).cloned()
    }

    /// The writer that bound a pod to its node.
    pub fn binder_of_pod(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        self.lock_state().binders.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Up to which revision each collection was written.
    pub fn watermarks(&self) -> Watermarks {
        self.lock_state().watermarks.clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, AttributionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
