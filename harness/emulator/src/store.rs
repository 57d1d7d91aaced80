//! Objects, one revision for all of them, and the log of what happened. No `async` here, and no
//! rules: what a write means is in `write`, which ends every change in `Store::commit`.

mod consult;
mod list;
mod names;
mod op;
mod options;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::error::ApiError;
use crate::kinds::Kinds;
use crate::object;
use schedlab_json::Value;

pub use crate::kinds::Resource;
pub(crate) use consult::{Answer, Begun, Consultation, Question, Said, Stop, Webhook};
pub use list::{ListQuery, Listed};
pub(crate) use names::Names;
pub use op::{
    DeleteOptions, EventKind, FieldValidation, Key, LogEntry, Object, Op, PatchBody, Preconditions,
    Propagation, Slips, Subresource, Write, Written,
};

/// Namespace and name.
type Place = (Arc<str>, Arc<str>);
type Collection = BTreeMap<Place, Object>;

/// Everything the API server remembers. A copy shares the objects and goes its own way.
#[derive(Clone, Debug)]
pub struct Store {
    kinds: Kinds,
    collections: BTreeMap<Resource, Collection>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Key>>,
    log: Vec<Arc<LogEntry>>,
    compacted: u64,
    pub(crate) names: Names,
    /// Features that are on although Kubernetes 1.35 has them off, by the names of their gates.
    pub(crate) features: Vec<&'static str>,
}

/// The log no longer reaches back that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {asked} ({oldest})")]
pub struct Compacted {
    /// The revision asked for.
    pub asked: u64,
    /// The oldest one that can be asked for.
    pub oldest: u64,
}

impl From<Compacted> for ApiError {
    fn from(compacted: Compacted) -> Self {
        Self::too_old(compacted.asked, compacted.oldest)
    }
}

/// A change that every rule has let through.
pub(crate) struct Change<'w> {
    pub(crate) key: &'w Key,
    /// `None` takes the object away.
    pub(crate) object: Option<Value>,
    pub(crate) now: Timestamp,
    pub(crate) manager: &'w Arc<str>,
    pub(crate) part: Subresource,
}

impl Store {
    /// An empty store. Equal seeds give equal uids and generated names.
    pub fn new(seed: u64) -> Self {
        Self {
            kinds: Kinds::built_in(),
            collections: BTreeMap::new(),
            dependents: BTreeMap::new(),
            log: Vec::new(),
            compacted: 1,
            names: Names::new(seed),
            features: Vec::new(),
        }
    }

    /// The kinds it knows now.
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

    /// One object, or `NotFound`.
    pub fn get(&self, key: &Key) -> Result<Object, ApiError> {
        self.find(key).cloned().ok_or_else(|| ApiError::not_found(&key.resource, &key.name))
    }

    /// One object, if it is there. Views (`events.k8s.io`) are not followed: ask for the home.
    pub fn find(&self, key: &Key) -> Option<&Object> {
        let place = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        self.collections.get(&key.resource)?.get(&place)
    }

    /// The objects of a collection, ordered by namespace and name.
    pub fn list<'s>(
        &'s self,
        resource: &Resource,
        namespace: Option<&'s str>,
    ) -> impl Iterator<Item = &'s Object> + use<'s> {
        let start: Place = (Arc::from(namespace.unwrap_or_default()), Arc::from(""));
        self.collections
            .get(resource)
            .into_iter()
            .flat_map(move |collection| collection.range(start.clone()..))
            .take_while(move |((of, _), _)| namespace.is_none_or(|wanted| **of == *wanted))
            .map(|(_, object)| object)
    }

    /// How many objects a collection has.
    pub fn count(&self, resource: &Resource) -> usize {
        self.collections.get(resource).map_or(0, BTreeMap::len)
    }

    /// The collections that ever had an object, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.collections.keys()
    }

    /// The objects that name `uid` in their owner references, in order.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// What happened after `revision`, oldest first.
    pub fn log_since(&self, revision: u64) -> Result<&[Arc<LogEntry>], Compacted> {
        let Some(skipped) = revision.checked_sub(self.compacted) else {
            return Err(Compacted { asked: revision, oldest: self.compacted });
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.log.get(skipped..).unwrap_or_default())
    }

    /// How many changes the log holds.
    pub fn log_len(&self) -> usize {
        self.log.len()
    }

    /// Forgets what happened up to and including `revision`.
    pub fn compact_to(&mut self, revision: u64) {
        let revision = revision.min(self.revision());
        let dropped = revision.saturating_sub(self.compacted);
        self.log.drain(..usize::try_from(dropped).expect("no more than the log has"));
        self.compacted += dropped;
    }

    /// The revision up to which everything happened before `time`.
    pub fn revision_before(&self, time: Timestamp) -> u64 {
        self.compacted + self.log.partition_point(|entry| entry.time < time) as u64
    }

    /// Makes a change: the next revision, the object with it, the owner index, one log entry.
    pub(crate) fn commit(&mut self, change: Change<'_>) -> Object {
        let revision = self.revision() + 1;
        let Change { key, object, now, manager, part } = change;
        let place = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        let collection = self.collections.entry(key.resource.clone()).or_default();
        let (kind, object, previous) = if let Some(value) = object {
            let object = Arc::new(stamped(value, revision));
            let previous = collection.insert(place, Arc::clone(&object));
            let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
            (kind, object, previous)
        } else {
            let last = collection.remove(&place).expect("only what is there is taken away");
            let object = Arc::new(stamped(Value::clone(&last), revision));
            (EventKind::Deleted, object, Some(last))
        };
        let left = previous.as_deref();
        let came = (kind != EventKind::Deleted).then_some(&*object);
        self.reindex(key, left, came);
        self.log.push(Arc::new(LogEntry {
            revision,
            time: now,
            kind,
            key: key.clone(),
            object: Arc::clone(&object),
            previous,
            manager: Arc::clone(manager),
            part,
        }));
        object
    }

    fn reindex(&mut self, key: &Key, before: Option<&Value>, after: Option<&Value>) {
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
            let left = self.dependents.entry(Arc::clone(&uid)).or_default();
            left.remove(key);
            if left.is_empty() {
                self.dependents.remove(&uid);
            }
        }
        for uid in after {
            self.dependents.entry(uid).or_default().insert(key.clone());
        }
    }
}

/// The object with its revision.
fn stamped(mut object: Value, revision: u64) -> Value {
    object::set(&mut object, &["metadata", "resourceVersion"], revision.to_string().into());
    object
}
