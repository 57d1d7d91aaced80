//! The informer cache of the controllers: all watched objects, with indexes.
//!
//! It receives changes in order: from the store's log in the emulator, from watches on a real
//! cluster. So controllers do not depend on where they run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::api_types::kinds::{Kind, Kinds};
use crate::store::{Key, Object, Resource};
use schedlab_api::{
    Value,
    object::{list, metadata_fields_equal, name, namespace, text, uid},
};

/// A change of an object.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// The key of the changed object.
    pub key: Key,
    /// The object before the change; `None` if it is new.
    pub before: Option<Object>,
    /// The object after the change; `None` if it was deleted.
    pub after: Option<Object>,
}

impl ObjectChange {
    /// The states of the object before and after the change, as far as they exist.
    pub fn states(&self) -> impl Iterator<Item = &Object> {
        self.before.iter().chain(&self.after)
    }
}

/// The plurals of the kinds that controllers adopt.
const ADOPTABLE_PLURALS: [&str; 3] = ["pods", "replicasets", "controllerrevisions"];

/// All watched objects, indexed by uid, owner, node and namespace.
#[derive(Debug, Default)]
pub struct InformerCache {
    objects: BTreeMap<Key, Object>,
    change_count: u64,
    by_uid: BTreeMap<String, Key>,
    by_owner: BTreeMap<String, BTreeSet<Key>>,
    by_node: BTreeMap<String, BTreeSet<Key>>,
    by_namespace: BTreeMap<Arc<str>, BTreeSet<Key>>,
    orphans: BTreeSet<Key>,
    unwatched: BTreeSet<Resource>,
    /// The deleted nodes, with the time of the deletion.
    removed_nodes: BTreeMap<Key, Timestamp>,
    /// The registered kinds by `apiVersion` and `kind`.
    kinds: BTreeMap<(String, String), Arc<Kind>>,
}

impl InformerCache {
    /// Applies a change that arrived at `now`.
    pub fn apply_change(&mut self, change: &ObjectChange, now: Timestamp) {
        self.change_count += 1;
        self.record_node_removal(change, now);
        let Some(new) = &change.after else {
            if let Some(old) = self.objects.remove(&change.key) {
                self.remove_from_indexes(&change.key, &old);
            }
            return;
        };
        let old = match self.objects.get_mut(&change.key) {
            Some(known) => Some(std::mem::replace(known, Arc::clone(new))),
            None => self.objects.insert(change.key.clone(), Arc::clone(new)),
        };
        // Most changes do not affect the indexes.
        if old.as_ref().is_some_and(|old| has_same_index_keys(&change.key, old, new)) {
            return;
        }
        if let Some(old) = old {
            self.remove_from_indexes(&change.key, &old);
        }
        self.add_to_indexes(&change.key, new);
    }

    /// The number of applied changes.
    pub fn change_count(&self) -> u64 {
        self.change_count
    }

    /// The object with a key.
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// The time at which a node was deleted; `None` if the node exists or never existed.
    pub fn node_gone_since(&self, node: &Key) -> Option<Timestamp> {
        self.removed_nodes.get(node).copied()
    }

    /// Registers kinds. A kind stays registered after its removal, so that the dependents of its
    /// objects are garbage collected.
    pub fn register_kinds(&mut self, kinds: &Kinds) {
        for kind in kinds.iter() {
            for version in kind.versions.iter().filter(|version| version.served) {
                let name = (kind.api_version(&version.name), kind.kind.to_string());
                self.kinds.insert(name, Arc::clone(kind));
            }
        }
    }

    /// The kind of an owner, if it is known.
    pub fn owner_kind(&self, owner: &OwnerReference<'_>) -> Option<&Kind> {
        let name = (owner.api_version.to_owned(), owner.kind.to_owned());
        self.kinds.get(&name).map(Arc::as_ref)
    }

    /// The scope of an owner's kind. Without registered kinds, every kind counts as cluster-wide.
    pub fn owner_scope(&self, owner: &OwnerReference<'_>) -> OwnerScope {
        match self.owner_kind(owner).map(|kind| kind.namespaced) {
            Some(true) => OwnerScope::Namespaced,
            Some(false) => OwnerScope::ClusterWide,
            None if self.kinds.is_empty() => OwnerScope::ClusterWide,
            None => OwnerScope::Unknown,
        }
    }

    /// Marks a kind as not watched: an object of the kind may exist although the cache does not
    /// contain it.
    pub fn mark_unwatched(&mut self, resource: &Resource) {
        self.unwatched.insert(resource.clone());
    }

    /// Whether the kind is watched, so that an object that is not in the cache does not exist.
    pub fn is_watched(&self, resource: &Resource) -> bool {
        !self.unwatched.contains(resource)
    }

    /// The object with a key, and the cache's own copy of the key.
    pub fn entry(&self, key: &Key) -> Option<(&Key, &Object)> {
        self.objects.get_key_value(key)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, resource: &Resource) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects_from(resource, "").take_while(|(key, _)| key.resource == *resource)
    }

    /// The objects of a kind in a namespace, by name.
    pub fn objects_in_namespace<'v>(
        &'v self,
        resource: &'v Resource,
        namespace: &'v str,
    ) -> impl Iterator<Item = (&'v Key, &'v Object)> {
        self.objects_from(resource, namespace)
            .take_while(move |(key, _)| key.resource == *resource && &*key.namespace == namespace)
    }

    /// The keys of all objects in a namespace.
    pub fn namespace_contents(&self, namespace: &str) -> impl Iterator<Item = &Key> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    /// The key of the object with a uid.
    pub fn key_of_uid(&self, uid: &str) -> Option<&Key> {
        self.by_uid.get(uid)
    }

    /// The objects with an owner reference to a uid.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = (&Key, &Object)> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.objects.get_key_value(key))
    }

    /// The keys of the objects with an owner reference to a uid that the cache does not contain.
    pub fn keys_with_missing_owner(&self) -> impl Iterator<Item = &Key> {
        let lost = self.by_owner.iter().filter(|(uid, _)| !self.by_uid.contains_key(*uid));
        lost.flat_map(|(_, keys)| keys)
    }

    /// The objects of a kind that the object with a uid controls.
    pub fn controlled_by<'v>(
        &'v self,
        uid: &'v str,
        resource: &'v Resource,
    ) -> impl Iterator<Item = (&'v Key, &'v Object)> {
        self.dependents(uid).filter(move |(key, object)| {
            key.resource == *resource
                && controller_reference(object).is_some_and(|owner| owner.uid == uid)
        })
    }

    /// The objects of an adoptable kind in a namespace without a controller.
    pub fn adoptable_orphans<'v>(
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

    fn objects_from(
        &self,
        resource: &Resource,
        namespace: &str,
    ) -> impl Iterator<Item = (&Key, &Object)> {
        let first =
            Key { resource: resource.clone(), namespace: namespace.into(), name: "".into() };
        self.objects.range((Bound::Included(first), Bound::Unbounded))
    }

    fn record_node_removal(&mut self, change: &ObjectChange, now: Timestamp) {
        if !change.key.resource.is("", "nodes") {
            return;
        }
        if change.after.is_some() {
            self.removed_nodes.remove(&change.key);
        } else {
            self.removed_nodes.insert(change.key.clone(), now);
        }
    }

    fn add_to_indexes(&mut self, key: &Key, object: &Object) {
        self.by_uid.insert(uid(object).to_owned(), key.clone());
        for owner in owner_uids(object) {
            self.by_owner.entry(owner.to_owned()).or_default().insert(key.clone());
        }
        if let Some(node) = indexed_node_name(key, object) {
            self.by_node.entry(node.to_owned()).or_default().insert(key.clone());
        }
        if !key.namespace.is_empty() {
            self.by_namespace.entry(Arc::clone(&key.namespace)).or_default().insert(key.clone());
        }
        if ADOPTABLE_PLURALS.contains(&&*key.resource.plural)
            && controller_reference(object).is_none()
        {
            self.orphans.insert(key.clone());
        }
    }

    fn remove_from_indexes(&mut self, key: &Key, object: &Object) {
        if self.by_uid.get(uid(object)) == Some(key) {
            self.by_uid.remove(uid(object));
        }
        for owner in owner_uids(object) {
            remove_from_index(&mut self.by_owner, owner, key);
        }
        if let Some(node) = indexed_node_name(key, object) {
            remove_from_index(&mut self.by_node, node, key);
        }
        remove_from_index(&mut self.by_namespace, &key.namespace, key);
        self.orphans.remove(key);
    }
}

/// Whether the old and the new state of an object have the same entries in the indexes.
fn has_same_index_keys(key: &Key, old: &Value, new: &Value) -> bool {
    metadata_fields_equal(old, new, |field| matches!(field, "uid" | "ownerReferences"))
        && indexed_node_name(key, old) == indexed_node_name(key, new)
}

fn remove_from_index<K: Ord + std::borrow::Borrow<str>>(
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

fn indexed_node_name<'v>(key: &Key, object: &'v Value) -> Option<&'v str> {
    let node = key.resource.is("", "pods").then(|| text(object, &["spec", "nodeName"]))?;
    (!node.is_empty()).then_some(node)
}

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Copy, Debug)]
pub struct OwnerReference<'v> {
    /// The field `apiVersion`.
    pub api_version: &'v str,
    /// The API group: `apiVersion` without the version.
    pub group: &'v str,
    /// The field `kind`.
    pub kind: &'v str,
    /// The field `name`.
    pub name: &'v str,
    /// The field `uid`.
    pub uid: &'v str,
    /// Whether the owner is the managing controller (field `controller`).
    pub is_controller: bool,
    /// Whether the owner's foreground deletion waits for this object (field `blockOwnerDeletion`).
    pub blocks_owner_deletion: bool,
}

/// The scope of an owner's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerScope {
    /// The kind is namespaced.
    Namespaced,
    /// The kind is cluster-scoped.
    ClusterWide,
    /// The kind or version is unknown.
    Unknown,
}

/// The owner references of an object.
pub(crate) fn owner_references(object: &Value) -> impl Iterator<Item = OwnerReference<'_>> {
    list(object, &["metadata", "ownerReferences"]).iter().map(|entry| {
        let version = text(entry, &["apiVersion"]);
        OwnerReference {
            api_version: version,
            group: version.rsplit_once('/').map_or("", |(group, _)| group),
            kind: text(entry, &["kind"]),
            name: entry_name(entry),
            uid: text(entry, &["uid"]),
            is_controller: entry.get("controller") == Some(&Value::Bool(true)),
            blocks_owner_deletion: entry.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
        }
    })
}

fn owner_uids(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "ownerReferences"]).iter().map(|entry| text(entry, &["uid"]))
}

/// The owner reference of the controller of an object.
pub(crate) fn controller_reference(object: &Value) -> Option<OwnerReference<'_>> {
    owner_references(object).find(|owner| owner.is_controller)
}

fn entry_name(entry: &Value) -> &str {
    text(entry, &["name"])
}

/// The key of an object of a kind.
pub(crate) fn key_of(resource: &Resource, object: &Value) -> Key {
    Key {
        resource: resource.clone(),
        namespace: namespace(object).into(),
        name: name(object).into(),
    }
}
