//! What the actors see: a cache of everything they watch, with the indexes they ask by.
//!
//! It is fed changes in order, from the store's log here and from watches on a real cluster, so
//! an actor cannot tell where it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::kinds::{Kind, Kinds};
use crate::object::{is_metadata_alike, list, name, namespace, text, uid};
use crate::store::{Key, Object, Resource};
use schedlab_json::Value;

/// One thing that happened to one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// The object before; `None` when it is new.
    pub before: Option<Object>,
    /// The object now; `None` when it is gone.
    pub after: Option<Object>,
}

impl Change {
    /// The object before and after, where it is and was there.
    pub fn sides(&self) -> impl Iterator<Item = &Object> {
        self.before.iter().chain(&self.after)
    }
}

/// The plurals of the kinds that controllers adopt.
const ADOPTABLE: [&str; 3] = ["pods", "replicasets", "controllerrevisions"];

/// The cache.
#[derive(Debug, Default)]
pub struct View {
    objects: BTreeMap<Key, Object>,
    age: u64,
    by_uid: BTreeMap<String, Key>,
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    by_namespace: BTreeMap<Arc<str>, BTreeSet<Key>>,
    orphans: BTreeSet<Key>,
    unseen: BTreeSet<Resource>,
    /// Since when nodes are gone that once were there.
    gone: BTreeMap<Key, Timestamp>,
    /// Which kinds there are, by `apiVersion` and `kind`.
    kinds: BTreeMap<(String, String), Arc<Kind>>,
}

impl View {
    /// Takes in a change that is heard of `now`.
    pub fn apply(&mut self, change: &Change, now: Timestamp) {
        self.age += 1;
        self.note_gone(change, now);
        let Some(new) = &change.after else {
            if let Some(old) = self.objects.remove(&change.key) {
                self.unindex(&change.key, &old);
            }
            return;
        };
        let old = match self.objects.get_mut(&change.key) {
            Some(known) => Some(std::mem::replace(known, Arc::clone(new))),
            None => self.objects.insert(change.key.clone(), Arc::clone(new)),
        };
        // Most changes leave an object where it is asked for.
        if old.as_ref().is_some_and(|old| is_asked_alike(&change.key, old, new)) {
            return;
        }
        if let Some(old) = old {
            self.unindex(&change.key, &old);
        }
        self.index(&change.key, new);
    }

    /// How many changes it has taken in.
    pub fn age(&self) -> u64 {
        self.age
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// Since when a node is gone; `None` if it is there, or never was.
    pub fn gone_since(&self, node: &Key) -> Option<Timestamp> {
        self.gone.get(node).copied()
    }

    /// Learns which kinds there are. One that goes is not forgotten: what its objects owned is still
    /// to be collected.
    pub fn learn(&mut self, kinds: &Kinds) {
        for kind in kinds.iter() {
            for version in kind.versions.iter().filter(|version| version.served) {
                let name = (kind.api_version(&version.name), kind.kind.to_string());
                self.kinds.insert(name, Arc::clone(kind));
            }
        }
    }

    /// An owner's kind.
    pub fn kind(&self, owner: &Owner<'_>) -> Option<&Kind> {
        let name = (owner.api_version.to_owned(), owner.kind.to_owned());
        self.kinds.get(&name).map(Arc::as_ref)
    }

    /// How an owner's kind is known. Where no kinds were learned, none is unknown.
    pub fn kind_of(&self, owner: &Owner<'_>) -> OwnerKind {
        match self.kind(owner).map(|kind| kind.namespaced) {
            Some(true) => OwnerKind::Namespaced,
            Some(false) => OwnerKind::ClusterWide,
            None if self.kinds.is_empty() => OwnerKind::ClusterWide,
            None => OwnerKind::Unknown,
        }
    }

    /// From now on, nothing is known of a kind: whatever is asked for may be there.
    pub fn overlook(&mut self, resource: &Resource) {
        self.unseen.insert(resource.clone());
    }

    /// Whether what it does not show of a kind is not there.
    pub fn sees(&self, resource: &Resource) -> bool {
        !self.unseen.contains(resource)
    }

    /// An object with the cache's own key.
    pub fn entry(&self, key: &Key) -> Option<(&Key, &Object)> {
        self.objects.get_key_value(key)
    }

    /// Where all objects are.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, resource: &Resource) -> impl Iterator<Item = (&Key, &Object)> {
        self.from(resource, "").take_while(|(key, _)| key.resource == *resource)
    }

    /// The objects of a kind in a namespace, by name.
    pub fn within<'v>(
        &'v self,
        resource: &'v Resource,
        namespace: &'v str,
    ) -> impl Iterator<Item = (&'v Key, &'v Object)> {
        self.from(resource, namespace)
            .take_while(move |(key, _)| key.resource == *resource && &*key.namespace == namespace)
    }

    /// Whatever there is in a namespace.
    pub fn contents(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    /// The object with a uid.
    pub fn by_uid(&self, uid: &str) -> Option<&Key> {
        self.by_uid.get(uid)
    }

    /// The objects that name a uid among their owners.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Key, &Object)> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    /// The objects that name an owner that is not there.
    pub fn bereft(&self) -> impl Iterator<Item = &Key> {
        let lost = self.by_owner.iter().filter(|(uid, _)| !self.by_uid.contains_key(*uid));
        lost.flat_map(|(_, keys)| keys)
    }

    /// The objects of a kind whose controller has a uid.
    pub fn controlled<'v>(
        &'v self,
        uid: &'v str,
        resource: &'v Resource,
    ) -> impl Iterator<Item = (&'v Key, &'v Object)> {
        self.dependents(uid).filter(move |(key, object)| {
            key.resource == *resource && controller(object).is_some_and(|owner| owner.uid == uid)
        })
    }

    /// The objects of an adoptable kind in a namespace that nobody controls.
    pub fn orphans<'v>(
        &'v self,
        resource: &'v Resource,
        namespace: &'v str,
    ) -> impl Iterator<Item = (&'v Key, &'v Object)> {
        let first = Key::new(resource.clone(), namespace, "");
        let keys = self
            .orphans
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |key| key.resource == *resource && &*key.namespace == namespace);
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    /// The pods bound to a node.
    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &Object)> {
        let keys = self.by_node.get(node).into_iter().flatten();
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    fn from(&self, resource: &Resource, namespace: &str) -> impl Iterator<Item = (&Key, &Object)> {
        let first =
            Key { resource: resource.clone(), namespace: namespace.into(), name: "".into() };
        self.objects.range((Bound::Included(first), Bound::Unbounded))
    }

    fn note_gone(&mut self, change: &Change, now: Timestamp) {
        if !change.key.resource.is("", "nodes") {
            return;
        }
        if change.after.is_some() {
            self.gone.remove(&change.key);
        } else {
            self.gone.insert(change.key.clone(), now);
        }
    }

    fn index(&mut self, key: &Key, object: &Object) {
        self.by_uid.insert(uid(object).to_owned(), key.clone());
        for owner in owner_uids(object) {
            self.by_owner.entry(owner.to_owned()).or_default().insert(key.clone());
        }
        if let Some(node) = node_of(key, object) {
            self.by_node.entry(node.to_owned()).or_default().insert(key.clone());
        }
        if !key.namespace.is_empty() {
            self.by_namespace.entry(Arc::clone(&key.namespace)).or_default().insert(key.clone());
        }
        if ADOPTABLE.contains(&&*key.resource.plural) && controller(object).is_none() {
            self.orphans.insert(key.clone());
        }
    }

    fn unindex(&mut self, key: &Key, object: &Object) {
        if self.by_uid.get(uid(object)) == Some(key) {
            self.by_uid.remove(uid(object));
        }
        for owner in owner_uids(object) {
            drop_from(&mut self.by_owner, owner, key);
        }
        if let Some(node) = node_of(key, object) {
            drop_from(&mut self.by_node, node, key);
        }
        drop_from(&mut self.by_namespace, &key.namespace, key);
        self.orphans.remove(key);
    }
}

/// Whether both states of an object stand in the same places of every index.
fn is_asked_alike(key: &Key, old: &Value, new: &Value) -> bool {
    is_metadata_alike(old, new, |field| matches!(field, "uid" | "ownerReferences"))
        && node_of(key, old) == node_of(key, new)
}

fn drop_from<K: Ord + std::borrow::Borrow<str>>(
    index: &mut BTreeMap<K, BTreeSet<Key>>,
    at: &str,
    key: &Key,
) {
    let Some(keys) = index.get_mut(at) else { return };
    keys.remove(key);
    if keys.is_empty() {
        index.remove(at);
    }
}

fn node_of<'v>(key: &Key, object: &'v Value) -> Option<&'v str> {
    let node = key.resource.is("", "pods").then(|| text(object, &["spec", "nodeName"]))?;
    (!node.is_empty()).then_some(node)
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'v> {
    /// `apiVersion`.
    pub api_version: &'v str,
    /// `apiVersion` without the version.
    pub group: &'v str,
    /// `kind`.
    pub kind: &'v str,
    /// `name`.
    pub name: &'v str,
    /// `uid`.
    pub uid: &'v str,
    /// `controller`.
    pub controls: bool,
    /// `blockOwnerDeletion`.
    pub blocks: bool,
}

/// What is known of the kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// Its objects live in namespaces.
    Namespaced,
    /// They do not.
    ClusterWide,
    /// There is no such kind, or not in this version.
    Unknown,
}

/// The owners of an object.
pub fn owners(object: &Value) -> impl Iterator<Item = Owner<'_>> {
    list(object, &["metadata", "ownerReferences"]).iter().map(|entry| {
        let version = text(entry, &["apiVersion"]);
        Owner {
            api_version: version,
            group: version.rsplit_once('/').map_or("", |(group, _)| group),
            kind: text(entry, &["kind"]),
            name: name_of(entry),
            uid: text(entry, &["uid"]),
            controls: entry.get("controller") == Some(&Value::Bool(true)),
            blocks: entry.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        }
    })
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "ownerReferences"]).iter().map(|entry| text(entry, &["uid"]))
}

/// The owner that controls an object.
pub fn controller(object: &Value) -> Option<Owner<'_>> {
    owners(object).find(|owner| owner.controls)
}

fn name_of(entry: &Value) -> &str {
    text(entry, &["name"])
}

/// Where an object of a kind lives.
pub fn key_of(resource: &Resource, object: &Value) -> Key {
    Key {
        resource: resource.clone(),
        namespace: namespace(object).into(),
        name: name(object).into(),
    }
}
