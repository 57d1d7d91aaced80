//! Who wrote what: a watch does not tell it. And up to where everybody has written, so that
//! somebody who reads can wait until he has seen it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedlab_json::Value;

use super::Place;

/// The writes of one scenario. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    by_revision: BTreeMap<u64, Arc<str>>,
    by_uid: BTreeMap<String, Arc<str>>,
    bound: BTreeMap<(String, String), Arc<str>>,
    marks: Marks,
}

/// Up to where collections were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The newest revision by collection.
    pub(crate) newest: BTreeMap<String, u64>,
    /// Objects that were deleted, by uid, and their collection.
    pub(crate) deleted: BTreeMap<String, String>,
}

impl Ledger {
    /// A write that the cluster took; `answer` is what it said.
    pub(super) fn note(&self, place: &Place, answer: &Value, writer: &Arc<str>) {
        let mut state = self.state();
        if place.part.as_deref() == Some("binding")
            && let (Some(namespace), Some(name)) = (&place.namespace, &place.name)
        {
            state.bound.insert((namespace.clone(), name.clone()), Arc::clone(writer));
        }
        let text = |at: &str| answer.pointer(at).and_then(Value::as_str);
        if answer["kind"] == "Status" {
            if let Some(uid) = text("/details/uid") {
                state.by_uid.insert(uid.to_owned(), Arc::clone(writer));
                state.marks.deleted.insert(uid.to_owned(), place.plural.clone());
            }
            return;
        }
        let revision = text("/metadata/resourceVersion").and_then(|text| text.parse().ok());
        let Some(revision) = revision else { return };
        state.by_revision.insert(revision, Arc::clone(writer));
        let newest = state.marks.newest.entry(place.plural.clone()).or_default();
        *newest = revision.max(*newest);
        if let Some(uid) = text("/metadata/uid")
            && text("/metadata/deletionTimestamp").is_some()
        {
            state.by_uid.insert(uid.to_owned(), Arc::clone(writer));
        }
    }

    /// Who made a change, as far as it was one of us.
    pub(crate) fn writer(&self, revision: u64) -> Option<Arc<str>> {
        self.state().by_revision.get(&revision).cloned()
    }

    /// Who had an object deleted.
    pub(crate) fn deleter(&self, uid: &str) -> Option<Arc<str>> {
        self.state().by_uid.get(uid).cloned()
    }

    /// Who bound a pod.
    pub(crate) fn binder(&self, namespace: &str, name: &str) -> Option<Arc<str>> {
        self.state().bound.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Up to where it was written.
    pub(crate) fn marks(&self) -> Marks {
        self.state().marks.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
