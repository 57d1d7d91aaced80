//! Resource quotas: what is used of them. Who lets objects in adds to it; here it is counted
//! anew when a quota is new or different, and when something is gone that it counted.

use super::kinds::{PODS, QUOTAS};
use super::{Actor, Change, Context, Request, Step, View, Watched};
use crate::object::{at, is_deleting, set};
use crate::quota::{Item, collections, free_again, is_over, status};
use crate::store::Key;
use schedlab_json::Value;

/// The quota controller.
pub(super) const ACTOR: Actor = Actor {
    name: "resourcequota",
    manager: "kube-controller-manager",
    watches: Watched::All,
    concerns,
    step,
};

fn concerns(change: &Change, view: &View) -> Vec<Key> {
    let Change { key, before, after } = change;
    if key.resource == *QUOTAS {
        let wanted = |quota: &Value| at(quota, &["spec"]).cloned();
        let is_new =
            before.as_ref().map(|old| wanted(old)) != after.as_ref().map(|new| wanted(new));
        return after.as_ref().filter(|_| is_new).map(|_| key.clone()).into_iter().collect();
    }
    if key.namespace.is_empty() || !(after.is_none() || lets_go(change)) {
        return Vec::new();
    }
    let quotas = view.within(&QUOTAS, &key.namespace);
    let counting = quotas.filter(|(_, quota)| collections(quota).contains(&key.resource));
    counting.map(|(key, _)| key.clone()).collect()
}

/// A pod has ended, or begins to leave: then it is counted until it should be gone.
fn lets_go(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    let ended = |pod: &Value| is_over(pod, jiff::Timestamp::MIN);
    change.key.resource == *PODS
        && (ended(before) != ended(after) || is_deleting(before) != is_deleting(after))
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(quota) = ctx.view.get(key).filter(|quota| !is_deleting(quota)) else {
        return Step::rest();
    };
    let mut seen = Value::clone(quota);
    // What is written is taken in first: it is what the use is counted for.
    set(&mut seen, &["status"], Value::Null);
    let collections = collections(&seen);
    let items = collections.iter().flat_map(|resource| {
        let objects = ctx.view.within(resource, &key.namespace);
        objects.map(move |(_, object)| Item { resource, object, now: ctx.now })
    });
    let counted = status(&seen, items);
    set(&mut seen, &["status"], counted);
    let leaving = collections.iter().filter(|resource| **resource == *PODS);
    let leaving = leaving.flat_map(|pods| ctx.view.within(pods, &key.namespace));
    let later = leaving.filter_map(|(_, pod)| free_again(pod)).filter(|time| *time >= ctx.now);
    let again = later.min().map(|time| super::fields::after_secs(time, 1));
    Step::of(Request::status(key, quota, seen)).by(again)
}
