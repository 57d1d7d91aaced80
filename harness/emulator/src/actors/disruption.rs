//! Pod disruption budgets: how many pods may be evicted now. The eviction API decides by it.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::fields::{Condition, after_secs, note_in_condition, set_condition, texts, time};
use super::kinds::{BUDGETS, DEPLOYMENTS, PODS};
use super::step::Notice;
use super::view::Owner;
use super::workload::{count_at, counted, is_active, is_ready, share};
use super::{Actor, Change, Context, Request, Step, View, Watched, controller};
use crate::object::{at, is_deleting, list, map, name, namespace, number, remove, set, text, uid};
use crate::select::LabelSelector;
use crate::store::{Key, Object};
use schedlab_json::{Map, Value, json};

const COMPONENT: &str = "controllermanager";
const ALLOWED: &str = "DisruptionAllowed";
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
    let covered: Vec<&Object> =
        pods.filter(|(_, pod)| covers(budget, pod)).map(|(_, pod)| pod).collect();
    let none = covered.is_empty().then(|| tell("NoPods", "No matching pods found".to_owned()));
    let expected = match expectation(budget, &covered, ctx.view) {
        Ok(expected) => expected,
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            let said = tell("CalculateExpectedPodCountFailed", message).once(budget, ctx);
            return Step::of(fail(key, budget, &why, ctx).into_iter().chain(said));
        }
    };
    let unmanaged = expected.unmanaged.then(|| tell("UnmanagedPods", unmanaged(budget)));
    let said = none.into_iter().chain(unmanaged).filter_map(|notice| notice.once(budget, ctx));
    let living: Vec<&Object> = covered.iter().copied().filter(|pod| is_active(pod)).collect();
    let (leaving, again) = leaving(budget, &living, ctx);
    let stays = |pod: &&&Object| !leaving.contains_key(name(pod));
    let healthy = counted(living.iter().filter(stays).filter(|pod| is_ready(pod)));
    let counted = count(budget, &expected, healthy, leaving, ctx.now);
    Step::of(Request::status(key, budget, counted).into_iter().chain(said)).by(again)
}

/// The budget with its counts, and whether a pod may go.
fn count(budget: &Value, expected: &Expected, healthy: i64, leaving: Map, now: Timestamp) -> Value {
    let allowed = if expected.pods > 0 { (healthy - expected.healthy).max(0) } else { 0 };
    let mut seen = budget.clone();
    let generation = number(budget, &["metadata", "generation"]).unwrap_or(0);
    let counts = [
        ("currentHealthy", healthy),
        ("desiredHealthy", expected.healthy),
        ("expectedPods", expected.pods),
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
    say(&mut seen, &Condition { kind: ALLOWED, status, reason, message: "" }, now);
    seen
}

/// A budget whose pods cannot be counted allows nothing; its other counts stay as they were.
fn fail(key: &Key, budget: &Value, why: &str, ctx: &Context) -> Option<Request> {
    let mut seen = budget.clone();
    set(&mut seen, &["status", "disruptionsAllowed"], json!(0));
    let condition =
        Condition { kind: ALLOWED, status: "False", reason: "SyncFailed", message: why };
    say(&mut seen, &condition, ctx.now);
    Request::status(key, budget, seen)
}

/// Sets a condition as of the generation that was counted for.
fn say(seen: &mut Value, condition: &Condition, now: Timestamp) {
    set_condition(seen, condition, now);
    if let Some(counted_for) = at(seen, &["status", "observedGeneration"]).cloned() {
        note_in_condition(seen, condition.kind, "observedGeneration", &counted_for);
    }
}

fn tell(reason: &str, message: String) -> Notice<'_> {
    let kind = if reason == "NoPods" { "Normal" } else { "Warning" };
    Notice { component: COMPONENT, kind, reason, message }
}

/// What the budget of pods that nobody controls is told.
fn unmanaged(budget: &Value) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As \
         a result, the status of the PDB cannot be calculated correctly, which may result in \
         undefined behavior. To account for these pods please set \".spec.minAvailable\" field of \
         the PDB to an integer value.",
        as_go_prints(&budget["spec"]["selector"])
    )
}

/// A label selector as the API's own types are printed.
fn as_go_prints(selector: &Value) -> String {
    let labels = texts(selector, &["matchLabels"]);
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}: {value},")).collect();
    let rules = list(selector, &["matchExpressions"]).iter().map(|rule| {
        let [key, operator] = ["key", "operator"].map(|field| text(rule, &[field]));
        let values: Vec<&str> = list(rule, &["values"]).iter().filter_map(Value::as_str).collect();
        let values = values.join(" ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let (labels, rules) = (labels.concat(), rules.collect::<Vec<_>>().concat());
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{rules}}},}}"
    )
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

/// What a budget counts on.
struct Expected {
    /// How many pods there should be.
    pods: i64,
    /// How many of them healthy.
    healthy: i64,
    /// Whether some of the pods that are to be counted by their controllers have none.
    unmanaged: bool,
}

/// What a budget counts on, or why that cannot be told.
fn expectation(budget: &Value, covered: &[&Object], view: &View) -> Result<Expected, String> {
    if let Some(most) = at(budget, &["spec", "maxUnavailable"]) {
        let Scale { pods, unmanaged } = scale(covered, view)?;
        let most = share(Some(most), pods, true).unwrap_or(0);
        return Ok(Expected { pods, healthy: (pods - most).max(0), unmanaged });
    }
    let there = counted(covered);
    match at(budget, &["spec", "minAvailable"]) {
        Some(Value::String(percent)) => {
            let Scale { pods, unmanaged } = scale(covered, view)?;
            let healthy = share(Some(&json!(percent)), pods, true).unwrap_or(pods);
            Ok(Expected { pods, healthy, unmanaged })
        }
        Some(least) => {
            let healthy = share(Some(least), there, true).unwrap_or(0);
            Ok(Expected { pods: there, healthy, unmanaged: false })
        }
        None => Ok(Expected { pods: there, healthy: 1, unmanaged: false }),
    }
}

/// How many pods the controllers of the covered ones are asked for.
struct Scale {
    pods: i64,
    /// Whether a pod has no controller; it counts for nothing.
    unmanaged: bool,
}

fn scale(covered: &[&Object], view: &View) -> Result<Scale, String> {
    let mut total = Scale { pods: 0, unmanaged: false };
    let mut counted_owners = BTreeSet::new();
    for pod in covered {
        let Some(owner) = controller(pod) else {
            total.unmanaged = true;
            continue;
        };
        let (key, replicas) = replicas(&owner, pod, view)?;
        if counted_owners.insert(key) {
            total.pods = total.pods.saturating_add(replicas);
        }
    }
    Ok(total)
}

/// Who decides how many pods of a controller there are, and how many that are: its scale tells.
fn replicas(owner: &Owner, pod: &Value, view: &View) -> Result<(Key, i64), String> {
    let version = owner.api_version;
    let kind = view.kind(owner).ok_or_else(|| {
        format!("no matches for kind \"{}\" in version \"{version}\"", owner.kind)
    })?;
    if kind.stored().scale.is_none() {
        return Err(format!("{} does not implement the scale subresource", kind.resource));
    }
    let key = Key::new(kind.resource.clone(), namespace(pod), owner.name);
    let Some(object) = view.get(&key).filter(|object| uid(object) == owner.uid) else {
        return Err(format!("found no controllers for pod \"{}\"", name(pod)));
    };
    // A ReplicaSet's deployment speaks for it.
    let above = controller(object).and_then(|above| view.by_uid(above.uid));
    if let Some(deployment) = above.filter(|above| above.resource == *DEPLOYMENTS) {
        let wanted = view.get(deployment).map(|object| count_at(object, &["spec", "replicas"], 1));
        return Ok((deployment.clone(), wanted.unwrap_or(0)));
    }
    let scale = kind.scale_to_read(object).map_err(|error| error.message)?;
    Ok((key, count_at(&scale, &["spec", "replicas"], 0)))
}
