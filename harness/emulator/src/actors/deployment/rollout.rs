//! How a rollout goes from ReplicaSet to ReplicaSet.

use super::{DESIRED, MOST, Sets, has_pods, new_set, say_scaled, status};
use crate::actors::kinds::REPLICA_SETS;
use crate::actors::workload::{count_at, mark, share};
use crate::actors::{Context, Request};
use crate::object::{at, name, set, text};
use crate::store::{Key, Object};
use schedlab_json::{Value, json};

/// How far a rollout may go beyond and below what is wanted.
pub(super) struct Room {
    pub(super) surge: i64,
    unavailable: i64,
}

pub(super) fn room(sets: &Sets) -> Room {
    let wanted = sets.wanted();
    let of = |field, up, default: i64| {
        let value = at(sets.deployment, &["spec", "strategy", "rollingUpdate", field]);
        share(value, wanted, up).unwrap_or(default)
    };
    let surge = of("maxSurge", true, (wanted + 3) / 4);
    let unavailable = of("maxUnavailable", false, wanted / 4).min(wanted);
    Room { surge, unavailable: if surge == 0 { unavailable.max(1) } else { unavailable } }
}

/// How many of the wanted pods may be missing.
pub(super) fn unavailable_max(sets: &Sets) -> i64 {
    if recreates(sets) { 0 } else { room(sets).unavailable }
}

/// Notes on a ReplicaSet what is wanted of all of them together, now and at most.
pub(super) fn note_size(replica_set: &mut Value, sets: &Sets) {
    let wanted = sets.wanted();
    let most = if recreates(sets) { wanted } else { wanted + room(sets).surge };
    let [wanted, most] = [wanted, most].map(|count| count.to_string());
    mark(replica_set, "annotations", &[(DESIRED, &wanted), (MOST, &most)]);
}

pub(super) fn recreates(sets: &Sets) -> bool {
    text(sets.deployment, &["spec", "strategy", "type"]) == "Recreate"
}

pub(super) fn replicas(set: &Value) -> i64 {
    count_at(set, &["spec", "replicas"], 1)
}

fn available(set: &Value) -> i64 {
    count_at(set, &["status", "availableReplicas"], 0)
}

/// Makes the ReplicaSet of a new template.
pub(super) fn begin(sets: &Sets, ctx: &Context) -> Vec<Request> {
    let wanted = sets.wanted();
    let old: i64 = sets.old.iter().map(|(_, set)| replicas(set)).sum();
    if recreates(sets) {
        if let Some(writes) = end_old(sets, ctx) {
            return writes;
        }
        return create(sets, wanted, ctx);
    }
    let free = if old == 0 { wanted } else { wanted + room(sets).surge - old };
    create(sets, free.clamp(0, wanted), ctx)
}

fn create(sets: &Sets, replicas: i64, ctx: &Context) -> Vec<Request> {
    let made = new_set(sets, replicas);
    let said = (replicas > 0).then(|| say_scaled(&made, 0, replicas, sets, ctx));
    let begun = status::begun(sets.deployment, name(&made), ctx.now);
    let begun = Request::status(sets.key, sets.deployment, begun);
    [Request::create(&REPLICA_SETS, made)].into_iter().chain(said).chain(begun).collect()
}

/// Recreate: old pods go before new ones come. `None` when they are gone.
fn end_old(sets: &Sets, ctx: &Context) -> Option<Vec<Request>> {
    let down: Vec<Request> = sets.old.iter().flat_map(|old| scale(*old, 0, sets, ctx)).collect();
    let running = sets.old.iter().any(|(_, set)| has_pods(set, ctx));
    (running || !down.is_empty()).then_some(down)
}

/// Takes a rollout one step further.
pub(super) fn go_on(sets: &Sets, new: (&Key, &Object), ctx: &Context) -> Vec<Request> {
    if recreates(sets) {
        if let Some(writes) = end_old(sets, ctx) {
            return writes;
        }
        return scale(new, sets.wanted(), sets, ctx);
    }
    let up = grow(sets, new, ctx);
    if up.is_empty() { shrink(sets, new.1, ctx) } else { up }
}

fn grow(sets: &Sets, new: (&Key, &Object), ctx: &Context) -> Vec<Request> {
    let (wanted, has) = (sets.wanted(), replicas(new.1));
    if has >= wanted {
        return scale(new, wanted, sets, ctx);
    }
    let total: i64 = sets.all().map(|(_, set)| replicas(set)).sum();
    let old = total - has;
    let room = if old == 0 { wanted } else { wanted + room(sets).surge };
    let more = (room - total).clamp(0, wanted - has);
    scale(new, has + more, sets, ctx)
}

/// Scales old ReplicaSets down: first by what is broken anyway, then by what is not needed.
fn shrink(sets: &Sets, new: &Value, ctx: &Context) -> Vec<Request> {
    let total: i64 = sets.all().map(|(_, set)| replicas(set)).sum();
    let least = sets.wanted() - room(sets).unavailable;
    let coming = (replicas(new) - available(new)).max(0);
    let mut may_go = total - least - coming;
    let mut spare: i64 = sets.all().map(|(_, set)| available(set)).sum::<i64>() - least;
    let mut writes = Vec::new();
    for old in &sets.old {
        let has = replicas(old.1);
        let broken = (has - available(old.1)).clamp(0, may_go.max(0));
        let healthy = (has - broken).min(spare.max(0)).min((may_go - broken).max(0));
        may_go -= broken + healthy;
        spare -= healthy;
        writes.extend(scale(*old, has - broken - healthy, sets, ctx));
    }
    writes
}

/// Scales one ReplicaSet and says so.
pub(super) fn scale(
    (key, replica_set): (&Key, &Object),
    to: i64,
    sets: &Sets,
    ctx: &Context,
) -> Vec<Request> {
    let from = replicas(replica_set);
    if from == to {
        return Vec::new();
    }
    let mut scaled = Value::clone(replica_set);
    set(&mut scaled, &["spec", "replicas"], json!(to));
    note_size(&mut scaled, sets);
    let said = say_scaled(replica_set, from, to, sets, ctx);
    vec![Request::update(key, scaled), said]
}
