//! The garbage collector: deletes objects whose owners are all gone, deletes dependents before
//! owners under foreground deletion, and removes owner references under `Orphan`.
//!
//! An owner is identified by its uid, in the dependent's namespace or cluster-wide. As in
//! Kubernetes, an object with an owner of an unknown kind is kept, and so is a cluster-scoped
//! object with a namespaced owner.

use crate::reconcile::cache::{OwnerReference, OwnerScope, owner_references};
use crate::reconcile::resources::CRDS;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Value, json,
    object::{finalizers, is_deleting, list, metadata_fields_equal, name, remove, set, text, uid},
};

const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

/// The garbage collector.
pub(super) const CONTROLLER: Controller = Controller {
    name: "garbage",
    manager: "kube-controller-manager",
    watches: WatchedKinds::All,
    keys_to_reconcile,
    reconcile,
};

fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    let mut keys = Vec::new();
    if affects_ownership(change) {
        let matters =
            |after: &&Object| owner_references(after).next().is_some() || is_deleting(after);
        keys.extend(change.after.as_ref().filter(matters).map(|_| change.key.clone()));
        for owner in change.states().flat_map(|side| owner_references(side)) {
            let waits = |key: &&Key| cache.get(key).is_some_and(|owner| is_deleting(owner));
            keys.extend(cache.key_of_uid(owner.uid).filter(waits).cloned());
        }
    }
    let leaves = change.after.as_ref().is_none_or(|after| is_deleting(after));
    if let Some(before) = change.before.as_ref().filter(|_| leaves) {
        keys.extend(cache.dependents(uid(before)).map(|(key, _)| key.clone()));
    }
    if change.key.resource == *CRDS && change.after.is_some() {
        keys.extend(cache.keys_with_missing_owner().cloned());
    }
    keys
}

/// Whether a change matters to garbage collection: it creates or deletes the object, or changes the
/// owners, finalizers or deletion of the object.
fn affects_ownership(change: &ObjectChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    !metadata_fields_equal(before, after, |field| {
        matches!(field, "ownerReferences" | "finalizers" | "deletionTimestamp")
    })
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(object) = ctx.cache.get(key) else { return ReconcileResult::nothing_to_do() };
    let waits_with =
        |finalizer| is_deleting(object) && finalizers(object).any(|one| one == finalizer);
    if waits_with(ORPHAN_FINALIZER) {
        return ReconcileResult::from_writes(orphan_dependents(key, object, ctx.cache));
    }
    if waits_with(FOREGROUND_FINALIZER) {
        let blocked = ctx.cache.dependents(uid(object)).any(|(_, dependent)| {
            owner_references(dependent)
                .any(|owner| owner.uid == uid(object) && owner.blocks_owner_deletion)
        });
        if !blocked {
            return ReconcileResult::from_writes([ApiRequest::remove_finalizer(
                key,
                object,
                FOREGROUND_FINALIZER,
            )]);
        }
    }
    if is_deleting(object) {
        return ReconcileResult::nothing_to_do();
    }
    ReconcileResult::from_writes(collect_object(key, object, ctx.cache))
}

/// Removes the dependents' references to an owner that was deleted with `Orphan`, and then the
/// owner's `orphan` finalizer.
fn orphan_dependents(key: &Key, object: &Object, cache: &InformerCache) -> Vec<ApiRequest> {
    let owner = uid(object);
    let freed = cache
        .dependents(owner)
        .map(|(key, dependent)| remove_owners(key, dependent, |one| one.uid == owner));
    freed.chain([ApiRequest::remove_finalizer(key, object, ORPHAN_FINALIZER)]).collect()
}

/// The state of an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists.
    Solid,
    /// The owner does not exist.
    Gone,
    /// The owner is being deleted in the foreground and waits for its dependents.
    Waiting,
}

/// Deletes an object if none of its owners exists; otherwise removes the references to missing
/// owners.
fn collect_object(key: &Key, object: &Object, cache: &InformerCache) -> Option<ApiRequest> {
    if owner_references(object).any(|owner| is_owner_unknown(key, &owner, cache)) {
        return None;
    }
    let standings: Vec<OwnerState> =
        owner_references(object).map(|owner| owner_state(key, &owner, cache)).collect();
    if standings.is_empty() || standings.iter().all(|standing| *standing == OwnerState::Solid) {
        return None;
    }
    if standings.contains(&OwnerState::Solid) {
        let lost = |owner: &OwnerReference| owner_state(key, owner, cache) != OwnerState::Solid;
        return Some(remove_owners(key, object, lost));
    }
    let owns = cache.dependents(uid(object)).next().is_some();
    if standings.contains(&OwnerState::Waiting) && owns {
        return Some(ApiRequest::delete_foreground(key, object));
    }
    Some(ApiRequest::delete(key, object))
}

/// Whether the existence of an owner cannot be determined, for instance because its kind is
/// unknown.
fn is_owner_unknown(key: &Key, owner: &OwnerReference, cache: &InformerCache) -> bool {
    match cache.owner_scope(owner) {
        OwnerScope::Unknown => true,
        OwnerScope::Namespaced => key.namespace.is_empty(),
        OwnerScope::ClusterWide => false,
    }
}

fn owner_state(key: &Key, owner: &OwnerReference, cache: &InformerCache) -> OwnerState {
    if owner.uid.is_empty() {
        return OwnerState::Solid;
    }
    let Some(owner_key) = cache.key_of_uid(owner.uid) else { return OwnerState::Gone };
    if key.namespace.is_empty() && !owner_key.namespace.is_empty() {
        return OwnerState::Solid;
    }
    let found = cache.get(owner_key).filter(|object| {
        (owner_key.namespace.is_empty() || owner_key.namespace == key.namespace)
            && name(object) == owner.name
            && text(object, &["kind"]) == owner.kind
            && *owner_key.resource.group == *owner.group
    });
    match found {
        None => OwnerState::Gone,
        Some(object)
            if is_deleting(object) && finalizers(object).any(|one| one == FOREGROUND_FINALIZER) =>
        {
            OwnerState::Waiting
        }
        Some(_) => OwnerState::Solid,
    }
}

fn remove_owners(key: &Key, object: &Object, lost: impl Fn(&OwnerReference) -> bool) -> ApiRequest {
    let path = &["metadata", "ownerReferences"];
    let gone: Vec<bool> = owner_references(object).map(|owner| lost(&owner)).collect();
    let all = list(object, path).iter().zip(gone);
    let left: Vec<Value> = all.filter(|(_, gone)| !gone).map(|(one, _)| one.clone()).collect();
    let mut object = Value::clone(object);
    if left.is_empty() {
        remove(&mut object, path);
    } else {
        set(&mut object, path, json!(left));
    }
    ApiRequest::update(key, object)
}
