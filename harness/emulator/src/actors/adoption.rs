//! Whose is whose: a controller takes what matches its selector and has no controller, and lets go
//! of what matches no more.

use super::view::{Change, View, controller};
use super::workload::controlled_by;
use super::{Context, Request};
use crate::object::{at, is_deleting, is_metadata_alike, list, namespace, remove, set, text, uid};
use crate::select::LabelSelector;
use crate::store::{Key, Object, Resource};
use schedlab_json::{Value, json};

/// The owners of a kind that may take an object that has just come to be nobody's.
pub(super) fn adopters(change: &Change, view: &View, own: &Resource, child: &Resource) -> Vec<Key> {
    let orphan = change.after.as_ref().filter(|one| {
        change.key.resource == *child && controller(one).is_none() && !is_deleting(one)
    });
    let Some(orphan) = orphan else { return Vec::new() };
    let stood = change.before.as_ref().is_some_and(|before| {
        is_metadata_alike(before, orphan, |field| matches!(field, "labels" | "ownerReferences"))
    });
    if stood {
        return Vec::new();
    }
    let owners = view.within(own, namespace(orphan));
    let fitting = owners.filter(|(_, owner)| selector(owner).is_some_and(|is| is.matches(orphan)));
    fitting.map(|(key, _)| key.clone()).collect()
}

/// What an owner that is to stay takes and lets go of. `may_take` has a word on what it takes.
pub(super) fn claim(
    owner: &Value,
    child: &'static Resource,
    may_take: impl Fn(&Value) -> bool,
    ctx: &Context,
) -> Vec<Request> {
    let Some(selector) = selector(owner) else { return Vec::new() };
    let is_fit = |one: &Value| !is_deleting(one) && selector.matches(one) && may_take(one);
    let orphans = ctx.view.orphans(child, namespace(owner)).filter(|(_, one)| is_fit(one));
    let taken = orphans.map(|(key, one)| Request::update(key, taken(one, owner)));
    let own = ctx.view.controlled(uid(owner), child);
    let strangers = own.filter(|(_, one)| !selector.matches(one));
    taken.chain(strangers.map(|(key, one)| Request::update(key, freed(one, owner)))).collect()
}

fn selector(owner: &Value) -> Option<LabelSelector> {
    LabelSelector::from_object(at(owner, &["spec", "selector"])?).ok()
}

const OWNERS: [&str; 2] = ["metadata", "ownerReferences"];

fn taken(orphan: &Object, owner: &Value) -> Value {
    let mut all = others(orphan, owner);
    all.extend(list(&controlled_by(owner), &[]).iter().cloned());
    let mut taken = Value::clone(orphan);
    set(&mut taken, &OWNERS, json!(all));
    taken
}

fn freed(stranger: &Object, owner: &Value) -> Value {
    let left = others(stranger, owner);
    let mut freed = Value::clone(stranger);
    if left.is_empty() {
        remove(&mut freed, &OWNERS);
    } else {
        set(&mut freed, &OWNERS, json!(left));
    }
    freed
}

/// The owners of an object besides this one.
fn others(object: &Value, owner: &Value) -> Vec<Value> {
    let all = list(object, &OWNERS).iter();
    all.filter(|one| text(one, &["uid"]) != uid(owner)).cloned().collect()
}
