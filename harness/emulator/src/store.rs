//! The object store: all objects, one revision counter for all of them, and the log of changes.
//!
//! Synchronous. It contains no API rules: `requests` decides what a write means and applies every
//! change through `Store::commit`.

pub mod watch;

pub(crate) mod shared;
pub(crate) mod watch_notifier;

mod continue_token;
mod delete_options;
mod id_generator;
mod list;
mod request;
mod webhook_context;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::api_types::error::ApiError;
use crate::api_types::feature_gates::FeatureGates;
use crate::api_types::kinds::Kinds;
use schedlab_api::{Value, object};

pub use crate::api_types::resource::{Key, Object, Resource};
pub(crate) use id_generator::IdGenerator;
pub use list::{ListPage, ListQuery};
pub(crate) use request::PendingRules;
pub use request::{
    DeleteOptions, DuplicateFields, EventKind, FieldValidation, LogEntry, Op, PatchBody,
    Preconditions, Propagation, RuleEvaluation, RuleVerdict, Subresource, Write, WriteOutcome,
};
pub(crate) use webhook_context::{
    CompletedCall, FirstAttempt, PendingCall, Webhook, WebhookContext, WebhookVerdict, WriteError,
};

/// The namespace and name of an object.
type NamespacedName = (Arc<str>, Arc<str>);
type Collection = BTreeMap<NamespacedName, Object>;

/// The state of the API server. A clone shares the objects; later changes are independent.
#[derive(Clone, Debug)]
pub struct Store {
    kinds: Kinds,
    collections: BTreeMap<Resource, Collection>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Key>>,
    log: Vec<Arc<LogEntry>>,
    compacted: u64,
    pub(crate) ids: IdGenerator,
    /// The version of the API and its feature gates.
    pub(crate) feature_gates: FeatureGates,
}

/// Error: the requested revision is older than the change log. The API reports it as 410 Gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Compacted {
    /// The requested revision.
    pub requested: u64,
    /// The oldest revision that the log still covers.
    pub oldest: u64,
}

impl From<Compacted> for ApiError {
    fn from(compacted: Compacted) -> Self {
        Self::too_old(compacted.requested, compacted.oldest)
    }
}

/// A change of an object that has passed admission and validation.
pub(crate) struct Commit<'w> {
    pub(crate) key: &'w Key,
    /// The new state; `None` removes the object.
    pub(crate) object: Option<Value>,
    pub(crate) now: Timestamp,
    pub(crate) manager: &'w Arc<str>,
    pub(crate) subresource: Subresource,
}

impl Store {
    /// Creates an empty store with the defaults of the newest version. Equal seeds give equal uids
    /// and generated names.
    pub fn new(seed: u64) -> Self {
        Self::with_feature_gates(seed, FeatureGates::default())
    }

    /// An empty store of a version with feature gates.
    pub fn with_feature_gates(seed: u64, feature_gates: FeatureGates) -> Self {
        Self {
            kinds: Kinds::served_with(&feature_gates),
            collections: BTreeMap::new(),
            dependents: BTreeMap::new(),
            log: Vec::new(),
            compacted: 1,
            ids: IdGenerator::new(seed),
            feature_gates,
        }
    }

    /// Whether a feature gate is enabled.
    pub(crate) fn is_enabled(&self, gate: &str) -> bool {
        self.feature_gates.is_enabled(gate)
    }

    /// The registered kinds, built-in and custom.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    pub(crate) fn kinds_mut(&mut self) -> &mut Kinds {
        &mut self.kinds
    }

    /// The revision of the last change. An empty store is at 1.
    pub fn revision(&self) -> u64 {
        self.compacted + self.log.len() as u64
    }

    /// Looks up an object.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub fn get(&self, key: &Key) -> Result<Object, ApiError> {
        self.find(key).cloned().ok_or_else(|| ApiError::not_found(&key.resource, &key.name))
    }

    /// Looks up an object; `None` if it does not exist. The key must use the storage resource: an
    /// alias such as `events.k8s.io` events is not resolved.
    pub fn find(&self, key: &Key) -> Option<&Object> {
        let namespaced_name = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.collections.get(&key.resource)?.get(&namespaced_name)
    }

    /// The objects of a collection, ordered by namespace and name.
    pub fn list<'s>(
        &'s self,
        resource: &Resource,
        namespace: Option<&'s str>,
    ) -> impl Iterator<Item = &'s Object> + use<'s> {
        let start: NamespacedName = (Arc::from(namespace.unwrap_or_default()), Arc::from(""));
        self.collections
            .get(resource)
            .into_iter()
            .flat_map(move |collection| collection.range(start.clone()..))
            .take_while(move |((of, _), _)| namespace.is_none_or(|namespace| **of == *namespace))
            .map(|(_, object)| object)
    }

    /// The number of objects of a collection.
    pub fn count(&self, resource: &Resource) -> usize {
        self.collections.get(resource).map_or(0, BTreeMap::len)
    }

    /// The resources that ever had an object, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.collections.keys()
    }

    /// The keys of the objects that name `uid` in their owner references, in order.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// The changes after `revision`, oldest first.
    ///
    /// # Errors
    ///
    /// The log no longer reaches back to `revision`: it was compacted.
    pub fn log_since(&self, revision: u64) -> Result<&[Arc<LogEntry>], Compacted> {
        let Some(skipped) = revision.checked_sub(self.compacted) else {
            return Err(Compacted { requested: revision, oldest: self.compacted });
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.log.get(skipped..).unwrap_or_default())
    }

    /// The number of changes in the log.
    pub fn log_len(&self) -> usize {
        self.log.len()
    }

    /// Drops the entries of the change log up to and including `revision`.
    pub fn compact_to(&mut self, revision: u64) {
        let revision = revision.min(self.revision());
        let dropped = revision.saturating_sub(self.compacted);
        self.log.drain(..usize::try_from(dropped).expect("compaction drops at most the whole log"));
        self.compacted += dropped;
    }

    /// The last revision that was written before `time`.
    pub fn revision_before(&self, time: Timestamp) -> u64 {
        self.compacted + self.log.partition_point(|entry| entry.time < time) as u64
    }

    /// Applies a change under the next revision: updates the object, the owner index and the log.
    pub(crate) fn commit(&mut self, change: Commit<'_>) -> Object {
        let revision = self.revision() + 1;
        let Commit { key, object, now, manager, subresource: part } = change;
        let namespaced_name = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        let collection = self.collections.entry(key.resource.clone()).or_default();
        let (kind, object, previous) = if let Some(value) = object {
            let object = Arc::new(with_resource_version(value, revision));
            let previous = collection.insert(namespaced_name, Arc::clone(&object));
            let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
            (kind, object, previous)
        } else {
            let last =
                collection.remove(&namespaced_name).expect("only existing objects are removed");
            let object = Arc::new(with_resource_version(Value::clone(&last), revision));
            (EventKind::Deleted, object, Some(last))
        };
        let before = previous.as_deref();
        let after = (kind != EventKind::Deleted).then_some(&*object);
        self.update_owner_index(key, before, after);
        self.log.push(Arc::new(LogEntry {
            revision,
            time: now,
            kind,
            key: key.clone(),
            object: Arc::clone(&object),
            previous,
            manager: Arc::clone(manager),
            subresource: part,
        }));
        object
    }

    fn update_owner_index(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
        let owners = |object: Option<&Value>| -> Vec<Arc<str>> {
            let references = object
                .map_or(&[][..], |object| object::list(object, &["metadata", "ownerReferences"]));
            references.iter().map(|owner| object::text(owner, &["uid"]).into()).collect()
        };
        let (before, after) = (owners(before), owners(after));
        if before == after {
            return;
        }
        for uid in before {
            let before = self.dependents.entry(Arc::clone(&uid)).or_default();
            before.remove(key);
            if before.is_empty() {
                self.dependents.remove(&uid);
            }
        }
        for uid in after {
            self.dependents.entry(uid).or_default().insert(key.clone());
        }
    }
}

/// Sets `metadata.resourceVersion`.
fn with_resource_version(mut object: Value, revision: u64) -> Value {
    object::set(&mut object, &["metadata", "resourceVersion"], revision.to_string().into());
    object
}
