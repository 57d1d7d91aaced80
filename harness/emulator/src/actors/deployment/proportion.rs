//! A deployment that is scaled while it rolls, or while it is paused: its ReplicaSets share what
//! comes and goes by their sizes.

use std::cmp::Reverse;

use super::rollout::{note_size, recreates, replicas, room, scale};
use super::{DESIRED, MOST, Sets, age, say_scaled};
use crate::actors::workload::count_at;
use crate::actors::{Context, Request};
use crate::object::{annotation, set};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

type Entry<'v> = (&'v Key, &'v Object);

/// Whether the deployment was scaled since its ReplicaSets were.
pub(super) fn is_due(sets: &Sets) -> bool {
    let is_of_old = |set: &Value| noted(set, DESIRED).is_some_and(|all| all != sets.wanted());
    sets.all().any(|(_, set)| replicas(set) > 0 && is_of_old(set))
}

/// What a ReplicaSet has noted of all of them together.
fn noted(set: &Value, field: &str) -> Option<i64> {
    annotation(set, field)?.parse().ok()
}

/// Scales the ReplicaSets that have pods to what is wanted of them now.
pub(super) fn scale_all(sets: &Sets, ctx: &Context) -> Vec<Request> {
    let wanted = sets.wanted();
    let active: Vec<Entry> = sets.all().filter(|(_, set)| replicas(set) > 0).collect();
    match active.as_slice() {
        [] => {
            let newest = sets.new.or(sets.old.last().copied());
            newest.map(|newest| scale(newest, wanted, sets, ctx)).unwrap_or_default()
        }
        [one] => scale(*one, wanted, sets, ctx),
        _ if sets.new.is_some_and(|(_, new)| is_saturated(new, wanted)) => {
            let old = sets.old.iter().filter(|(_, set)| replicas(set) > 0);
            old.flat_map(|old| scale(*old, 0, sets, ctx)).collect()
        }
        _ if recreates(sets) => Vec::new(),
        _ => share_out(active, sets, ctx),
    }
}

fn is_saturated(new: &Value, wanted: i64) -> bool {
    replicas(new) == wanted
        && noted(new, DESIRED) == Some(wanted)
        && count_at(new, &["status", "availableReplicas"], 0) == wanted
}

/// Larger sets come first and the first gets what is left over. Of equal ones, the newer grow
/// first and the older shrink first.
fn share_out(mut active: Vec<Entry>, sets: &Sets, ctx: &Context) -> Vec<Request> {
    let wanted = sets.wanted();
    let allowed = if wanted == 0 { 0 } else { wanted + room(sets).surge };
    let more = allowed - active.iter().map(|(_, set)| replicas(set)).sum::<i64>();
    active.sort_by_key(|entry| age(*entry));
    if more > 0 {
        active.reverse();
    }
    active.sort_by_key(|(_, set)| Reverse(replicas(set)));
    let mut left = more;
    let mut sizes = Vec::with_capacity(active.len());
    for (_, set) in &active {
        let fraction = fraction(set, sets);
        let part = if more > 0 { fraction.min(left) } else { fraction.max(left) };
        let part = if left == 0 { 0 } else { part };
        left -= part;
        sizes.push(replicas(set) + part);
    }
    sizes[0] = (sizes[0] + left).max(0);
    active.into_iter().zip(sizes).flat_map(|(one, to)| resize(one, to, sets, ctx)).collect()
}

/// What a set's part of the deployment, as it was when the set was scaled last, has become more.
fn fraction(replica_set: &Value, sets: &Sets) -> i64 {
    let (has, wanted) = (replicas(replica_set), sets.wanted());
    if wanted == 0 {
        return -has;
    }
    let most_before = noted(replica_set, MOST).filter(|most| *most > 0);
    let most_before =
        most_before.unwrap_or_else(|| count_at(sets.deployment, &["status", "replicas"], 0));
    if most_before == 0 {
        return 0;
    }
    let most = wanted + room(sets).surge;
    let size = has.saturating_mul(most).saturating_mul(2).saturating_add(most_before);
    size / most_before.saturating_mul(2) - has
}

/// Scales a set; one that keeps its size notes what is wanted of all of them.
fn resize((key, old): Entry, to: i64, sets: &Sets, ctx: &Context) -> Vec<Request> {
    let from = replicas(old);
    let mut new = Value::clone(old);
    set(&mut new, &["spec", "replicas"], json!(to));
    note_size(&mut new, sets);
    if new == **old {
        return Vec::new();
    }
    let said = (from != to).then(|| say_scaled(old, from, to, sets, ctx));
    [Request::update(key, new)].into_iter().chain(said).collect()
}
