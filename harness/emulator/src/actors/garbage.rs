//! The garbage collector: objects whose owners are all gone go too; owners deleted in the
//! foreground wait for their dependents, and dependents of owners deleted with `Orphan` are let
//! go.
//!
//! An owner is known by its uid, in the dependent's namespace or cluster-wide: another object of
//! the same name is not the owner. An object that names an owner of an unknown kind is left alone, as
//! Kubernetes leaves it, and so is a cluster-wide object that names an owner in a namespace.

use super::kinds::DEFINITIONS;
use super::view::{Owner, OwnerKind, owners};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{
    finalizers, is_deleting, is_metadata_alike, list, name, remove, set, text, uid,
};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// The garbage collector.
pub(super) const ACTOR: Actor = Actor {
    name: "garbage",
    manager: "kube-controller-manager",
    watches: Watched::All,
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let mut keys = Vec::new();
    if stands_otherwise(change) {
        let matters = |after: &&Object| owners(after).next().is_some() || is_deleting(after);
        keys.extend(change.after.as_ref().filter(matters).map(|_| change.key.clone()));
        for owner in change.sides().flat_map(|side| owners(side)) {
            let waits = |key: &&Key| view.get(key).is_some_and(|owner| is_deleting(owner));
            keys.extend(view.by_uid(owner.uid).filter(waits).cloned());
        }
    }
    let leaves = change.after.as_ref().is_none_or(|after| is_deleting(after));
    if let Some(before) = change.before.as_ref().filter(|_| leaves) {
        keys.extend(view.dependents(uid(before)).map(|(key, _)| key.clone()));
    }
    if change.key.resource == *DEFINITIONS && change.after.is_some() {
        keys.extend(view.bereft().cloned());
    }
    keys
}

/// Whether the object is new, is gone, or differs in its owners, its finalizers or its deletion.
/// Most changes are of no account here.
fn stands_otherwise(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    !is_metadata_alike(before, after, |field| {
        matches!(field, "ownerReferences" | "finalizers" | "deletionTimestamp")
    })
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(object) = ctx.view.get(key) else { return Step::rest() };
    let waits_with =
        |finalizer| is_deleting(object) && finalizers(object).any(|one| one == finalizer);
    if waits_with(ORPHAN) {
        return Step::of(let_go(key, object, ctx.view));
    }
    if waits_with(FOREGROUND) {
        let blocked = ctx.view.dependents(uid(object)).any(|(_, dependent)| {
            owners(dependent).any(|owner| owner.uid == uid(object) && owner.blocks)
        });
        if !blocked {
            return Step::of([Request::drop_finalizer(key, object, FOREGROUND)]);
        }
    }
    if is_deleting(object) {
        return Step::rest();
    }
    Step::of(collect(key, object, ctx.view))
}

/// Takes an orphaning owner out of its dependents, then lets it go.
fn let_go(key: &Key, object: &Object, view: &View) -> Vec<Request> {
    let owner = uid(object);
    let freed = view
        .dependents(owner)
        .map(|(key, dependent)| without_owners(key, dependent, |one| one.uid == owner));
    freed.chain([Request::drop_finalizer(key, object, ORPHAN)]).collect()
}

/// How an owner stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is there.
    Solid,
    /// It is gone, or never was.
    Gone,
    /// It waits for its dependents to go.
    Waiting,
}

/// Collects an object that nobody owns any more.
fn collect(key: &Key, object: &Object, view: &View) -> Option<Request> {
    if owners(object).any(|owner| is_obscure(key, &owner, view)) {
        return None;
    }
    let standings: Vec<Standing> =
        owners(object).map(|owner| standing(key, &owner, view)).collect();
    if standings.is_empty() || standings.iter().all(|standing| *standing == Standing::Solid) {
        return None;
    }
    if standings.contains(&Standing::Solid) {
        let lost = |owner: &Owner| standing(key, owner, view) != Standing::Solid;
        return Some(without_owners(key, object, lost));
    }
    let owns = view.dependents(uid(object)).next().is_some();
    if standings.contains(&Standing::Waiting) && owns {
        return Some(Request::delete_foreground(key, object));
    }
    Some(Request::delete(key, object))
}

/// Whether nobody can tell how an owner stands.
fn is_obscure(key: &Key, owner: &Owner, view: &View) -> bool {
    match view.kind_of(owner) {
        OwnerKind::Unknown => true,
        OwnerKind::Namespaced => key.namespace.is_empty(),
        OwnerKind::ClusterWide => false,
    }
}

fn standing(key: &Key, owner: &Owner, view: &View) -> Standing {
    if owner.uid.is_empty() {
        return Standing::Solid;
    }
    let Some(owner_key) = view.by_uid(owner.uid) else { return Standing::Gone };
    if key.namespace.is_empty() && !owner_key.namespace.is_empty() {
        return Standing::Solid;
    }
    let found = view.get(owner_key).filter(|object| {
        (owner_key.namespace.is_empty() || owner_key.namespace == key.namespace)
            && name(object) == owner.name
            && text(object, &["kind"]) == owner.kind
            && *owner_key.resource.group == *owner.group
    });
    match found {
        None => Standing::Gone,
        Some(object) if is_deleting(object) && finalizers(object).any(|one| one == FOREGROUND) => {
            Standing::Waiting
        }
        Some(_) => Standing::Solid,
    }
}

fn without_owners(key: &Key, object: &Object, lost: impl Fn(&Owner) -> bool) -> Request {
    let path = &["metadata", "ownerReferences"];
    let gone: Vec<bool> = owners(object).map(|owner| lost(&owner)).collect();
    let all = list(object, path).iter().zip(gone);
    let left: Vec<Value> = all.filter(|(_, gone)| !gone).map(|(one, _)| one.clone()).collect();
    let mut object = Value::clone(object);
    if left.is_empty() {
        remove(&mut object, path);
    } else {
        set(&mut object, path, json!(left));
    }
    Request::update(key, object)
}
