//! Adoption and release of objects: an owner adopts matching objects without a controller, and
//! releases objects that no longer match its selector.

use super::workload::controller_references;
use crate::api_types::label_selector::LabelSelector;
use crate::reconcile::cache::{InformerCache, ObjectChange, controller_reference};
use crate::reconcile::{ApiRequest, Context};
use crate::store::{Key, Object, Resource};
use schedlab_api::{
    Value, json,
    object::{at, is_deleting, list, metadata_fields_equal, namespace, remove, set, text, uid},
};

/// The owners of a kind that may adopt the changed object, if the change made it an orphan.
pub(super) fn adopting_owners(
    change: &ObjectChange,
    cache: &InformerCache,
    own: &Resource,
    child: &Resource,
) -> Vec<Key> {
    let orphan = change.after.as_ref().filter(|one| {
        change.key.resource == *child && controller_reference(one).is_none() && !is_deleting(one)
    });
    let Some(orphan) = orphan else { return Vec::new() };
    let is_unchanged = change.before.as_ref().is_some_and(|before| {
        metadata_fields_equal(before, orphan, |field| matches!(field, "labels" | "ownerReferences"))
    });
    if is_unchanged {
        return Vec::new();
    }
    let owners = cache.objects_in_namespace(own, namespace(orphan));
    let fitting =
        owners.filter(|(_, owner)| owner_selector(owner).is_some_and(|is| is.matches(orphan)));
    fitting.map(|(key, _)| key.clone()).collect()
}

/// The updates by which an owner adopts orphans that match its selector, and releases objects that
/// no longer match. `may_take` restricts which orphans are adopted.
pub(super) fn adopt_and_release_objects(
    owner: &Value,
    child: &'static Resource,
    may_take: impl Fn(&Value) -> bool,
    ctx: &Context,
) -> Vec<ApiRequest> {
    let Some(selector) = owner_selector(owner) else { return Vec::new() };
    let is_fit = |one: &Value| !is_deleting(one) && selector.matches(one) && may_take(one);
    let orphans =
        ctx.cache.adoptable_orphans(child, namespace(owner)).filter(|(_, one)| is_fit(one));
    let taken = orphans.map(|(key, one)| ApiRequest::update(key, with_owner_added(one, owner)));
    let own = ctx.cache.controlled_by(uid(owner), child);
    let mismatched = own.filter(|(_, one)| !selector.matches(one));
    taken
        .chain(mismatched.map(|(key, one)| ApiRequest::update(key, with_owner_removed(one, owner))))
        .collect()
}

fn owner_selector(owner: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(at(owner, &["spec", "selector"])?).ok()
}

const OWNERS_PATH: [&str; 2] = ["metadata", "ownerReferences"];

fn with_owner_added(orphan: &Object, owner: &Value) -> Value {
    let mut all = other_owners(orphan, owner);
    all.extend(list(&controller_references(owner), &[]).iter().cloned());
    let mut taken = Value::clone(orphan);
    set(&mut taken, &OWNERS_PATH, json!(all));
    taken
}

fn with_owner_removed(object: &Object, owner: &Value) -> Value {
    let left = other_owners(object, owner);
    let mut freed = Value::clone(object);
    if left.is_empty() {
        remove(&mut freed, &OWNERS_PATH);
    } else {
        set(&mut freed, &OWNERS_PATH, json!(left));
    }
    freed
}

/// The owner references of an object, except those to `owner`.
fn other_owners(object: &Value, owner: &Value) -> Vec<Value> {
    let all = list(object, &OWNERS_PATH).iter();
    all.filter(|one| text(one, &["uid"]) != uid(owner)).cloned().collect()
}
