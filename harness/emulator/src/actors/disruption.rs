//! Pod disruption budgets: how many pods may be evicted now. The eviction API decides by it.

use jiff::Timestamp;

use super::fields::{Condition, after_secs, note_in_condition, set_condition, time};
use super::kinds::{BUDGETS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, STATEFUL_SETS};
use super::workload::{count_at, counted, is_active, is_ready, share};
use super::{Actor, Change, Context, Request, Step, View, Watched, controller};
use crate::object::{at, is_deleting, map, name, number, remove, set};
use crate::select::LabelSelector;
use crate::store::{Key, Object};
use schedlab_json::{Map, Value, json};

/// How long a pod may take from its eviction to its deletion.
const BELIEVED_SECS: i64 = 120;

/// The disruption controller.
pub(super) const ACTOR: Actor = Actor {
    name: "disruption",
    manager: "kube-controller-manager",
    watches: Watched::Kinds(&[&BUDGETS, &PODS]),
    concerns,
    step,
};

/// A budget's own changes and those of pods it covers or covered.
fn concerns(change: &Change, view: &View) -> Vec<Key> {
    if change.key.resource == *BUDGETS {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.resource != *PODS {
        return Vec::new();
    }
    let budgets = view.within(&BUDGETS, &change.key.namespace);
    let covering = budgets.filter(|(_, budget)| change.sides().any(|pod| covers(budget, pod)));
    covering.map(|(key, _)| key.clone()).collect()
}

/// Whether a budget's selector matches a pod; one without a selector matches none.
fn covers(budget: &Value, pod: &Value) -> bool {
    let selector = at(budget, &["spec", "selector"]);
    let selector = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
    selector.is_some_and(|selector| selector.matches(pod))
}

fn step(key: &Key, ctx: &Context) -> Step {
    let Some(budget) = ctx.view.get(key).filter(|budget| !is_deleting(budget)) else {
        return Step::rest();
    };
    let pods = ctx.view.within(&PODS, &key.namespace);
    let covered = pods.filter(|(_, pod)| covers(budget, pod) && is_active(pod));
    let covered: Vec<&Object> = covered.map(|(_, pod)| pod).collect();
    let (leaving, again) = leaving(budget, &covered, ctx);
    let stays = |pod: &&&Object| !leaving.contains_key(name(pod));
    let healthy = counted(covered.iter().filter(stays).filter(|pod| is_ready(pod)));
    let (expected, desired) = expectation(budget, &covered, ctx.view);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let mut seen = Value::clone(budget);
    let generation = number(budget, &["metadata", "generation"]).unwrap_or(0);
    let counts = [
        ("currentHealthy", healthy),
        ("desiredHealthy", desired),
        ("expectedPods", expected),
        ("disruptionsAllowed", allowed),
        ("observedGeneration", generation),
    ];
    for (field, count) in counts {
        set(&mut seen, &["status", field], json!(count));
    }
    if leaving.is_empty() {
        remove(&mut seen, &["status", "disruptedPods"]);
    } else {
        set(&mut seen, &["status", "disruptedPods"], leaving.into());
    }
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let condition = Condition { kind: "DisruptionAllowed", status, reason, message: "" };
    set_condition(&mut seen, &condition, ctx.now);
    note_in_condition(&mut seen, condition.kind, "observedGeneration", &json!(generation));
    Step::of(Request::status(key, budget, seen)).by(again)
}

/// The pods whose eviction was granted and that are still to go, and until when that is believed.
fn leaving(budget: &Value, covered: &[&Object], ctx: &Context) -> (Map, Option<Timestamp>) {
    let mut still = Map::new();
    let mut again = None;
    for (pod, granted) in map(budget, &["status", "disruptedPods"]).into_iter().flatten() {
        let until = time(budget, &["status", "disruptedPods", pod])
            .map(|granted| after_secs(granted, BELIEVED_SECS));
        let Some(until) = until.filter(|until| ctx.now <= *until) else { continue };
        if covered.iter().any(|one| name(one) == pod) {
            still.insert(pod.clone(), granted.clone());
            again = [again, Some(after_secs(until, 1))].into_iter().flatten().min();
        }
    }
    (still, again)
}

/// How many pods there should be, and how many of them healthy.
fn expectation(budget: &Value, covered: &[&Object], view: &View) -> (i64, i64) {
    let there = counted(covered);
    if let Some(most) = at(budget, &["spec", "maxUnavailable"]) {
        let expected = scale(covered, view);
        let most = share(Some(most), expected, true).unwrap_or(0);
        return (expected, (expected - most).max(0));
    }
    match at(budget, &["spec", "minAvailable"]) {
        Some(Value::String(percent)) => {
            let expected = scale(covered, view);
            let least = share(Some(&json!(percent)), expected, true).unwrap_or(expected);
            (expected, least)
        }
        Some(least) => (there, share(Some(least), there, true).unwrap_or(0)),
        None => (there, 1),
    }
}

/// The replicas that the controllers of pods are asked for; a pod without one counts for itself.
fn scale(covered: &[&Object], view: &View) -> i64 {
    let mut counted_owners = std::collections::BTreeSet::new();
    let mut total = 0_i64;
    for pod in covered {
        let owner = controller(pod).and_then(|owner| view.by_uid(owner.uid));
        let Some(owner) = owner.map(|owner| top(owner, view)) else {
            total += 1;
            continue;
        };
        let Some(object) = view.get(owner) else { continue };
        if !counted_owners.insert(owner) {
            continue;
        }
        let field = if owner.resource == *JOBS { "parallelism" } else { "replicas" };
        let scales = [&*DEPLOYMENTS, &REPLICA_SETS, &STATEFUL_SETS, &JOBS];
        if scales.contains(&&owner.resource) {
            total = total.saturating_add(count_at(object, &["spec", field], 1));
        }
    }
    total
}

/// A ReplicaSet's deployment, else the owner itself.
fn top<'v>(owner: &'v Key, view: &'v View) -> &'v Key {
    let above = view.get(owner).and_then(|object| view.by_uid(controller(object)?.uid));
    above.filter(|above| above.resource == *DEPLOYMENTS).unwrap_or(owner)
}
