//! The disruption controller: computes how many pods each `PodDisruptionBudget` allows to evict.
//! The eviction API decides by this status.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::workload::{api_count, clamped_count_at, int_or_percent_of, is_active, is_ready};
use crate::api_types::label_selector::LabelSelector;
use crate::reconcile::cache::OwnerReference;
use crate::reconcile::fields::{
    Condition, set_condition, set_condition_field, string_entries, time_after_secs, time_at,
};
use crate::reconcile::resources::{BUDGETS, DEPLOYMENTS, PODS};
use crate::reconcile::result::EventSpec;
use crate::reconcile::{
    ApiRequest, Context, Controller, InformerCache, ObjectChange, ReconcileResult, WatchedKinds,
    controller_reference,
};
use crate::store::{Key, Object};
use schedlab_api::{
    Map, Value, json,
    object::{at, is_deleting, list, map, name, namespace, number, remove, set, text, uid},
};

const COMPONENT: &str = "controllermanager";
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// After this time an evicted pod that was not deleted counts as healthy again.
const DELETION_TIMEOUT_SECS: i64 = 120;

/// The disruption controller.
pub(super) const CONTROLLER: Controller = Controller {
    name: "disruption",
    manager: "kube-controller-manager",
    watches: WatchedKinds::Kinds(&[&BUDGETS, &PODS]),
    keys_to_reconcile,
    reconcile,
};

/// A changed budget, and the budgets that cover or covered a changed pod.
fn keys_to_reconcile(change: &ObjectChange, cache: &InformerCache) -> Vec<Key> {
    if change.key.resource == *BUDGETS {
        return change.after.as_ref().map(|_| change.key.clone()).into_iter().collect();
    }
    if change.key.resource != *PODS {
        return Vec::new();
    }
    let budgets = cache.objects_in_namespace(&BUDGETS, &change.key.namespace);
    let covering = budgets.filter(|(_, budget)| change.states().any(|pod| covers_pod(budget, pod)));
    covering.map(|(key, _)| key.clone()).collect()
}

/// Whether a budget's selector matches a pod. A budget without a selector matches none.
fn covers_pod(budget: &Value, pod: &Value) -> bool {
    let selector = at(budget, &["spec", "selector"]);
    let selector = selector.and_then(|selector| LabelSelector::from_object(selector).ok());
    selector.is_some_and(|selector| selector.matches(pod))
}

fn reconcile(key: &Key, ctx: &Context) -> ReconcileResult {
    let Some(budget) = ctx.cache.get(key).filter(|budget| !is_deleting(budget)) else {
        return ReconcileResult::nothing_to_do();
    };
    let pods = ctx.cache.objects_in_namespace(&PODS, &key.namespace);
    let covered: Vec<&Object> =
        pods.filter(|(_, pod)| covers_pod(budget, pod)).map(|(_, pod)| pod).collect();
    let none =
        covered.is_empty().then(|| budget_event("NoPods", "No matching pods found".to_owned()));
    let expected = match expected_pods(budget, &covered, ctx.cache) {
        Ok(expected) => expected,
        Err(why) => {
            let message = format!("Failed to calculate the number of expected pods: {why}");
            let events =
                budget_event("CalculateExpectedPodCountFailed", message).record_once(budget, ctx);
            return ReconcileResult::from_writes(
                failed_sync_update(key, budget, &why, ctx).into_iter().chain(events),
            );
        }
    };
    let unmanaged =
        expected.unmanaged.then(|| budget_event("UnmanagedPods", unmanaged_pods_message(budget)));
    let events =
        none.into_iter().chain(unmanaged).filter_map(|notice| notice.record_once(budget, ctx));
    let living: Vec<&Object> = covered.iter().copied().filter(|pod| is_active(pod)).collect();
    let (leaving, again) = pending_disruptions(budget, &living, ctx);
    let stays = |pod: &&&Object| !leaving.contains_key(name(pod));
    let healthy = api_count(living.iter().filter(stays).filter(|pod| is_ready(pod)));
    let counted = budget_with_counts(budget, &expected, healthy, leaving, ctx.now);
    ReconcileResult::from_writes(
        ApiRequest::status_update(key, budget, counted).into_iter().chain(events),
    )
    .requeue_by(again)
}

/// The budget with its counts and its `DisruptionAllowed` condition.
fn budget_with_counts(
    budget: &Value,
    expected: &ExpectedPods,
    healthy: i64,
    leaving: Map,
    now: Timestamp,
) -> Value {
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
    set_observed_condition(
        &mut seen,
        &Condition { kind: DISRUPTION_ALLOWED, status, reason, message: "" },
        now,
    );
    seen
}

/// The status of a budget whose pods cannot be counted: it allows no disruption, and its other
/// counts stay unchanged.
fn failed_sync_update(key: &Key, budget: &Value, why: &str, ctx: &Context) -> Option<ApiRequest> {
    let mut seen = budget.clone();
    set(&mut seen, &["status", "disruptionsAllowed"], json!(0));
    let condition =
        Condition { kind: DISRUPTION_ALLOWED, status: "False", reason: "SyncFailed", message: why };
    set_observed_condition(&mut seen, &condition, ctx.now);
    ApiRequest::status_update(key, budget, seen)
}

/// Sets a condition with the observed generation.
fn set_observed_condition(budget: &mut Value, condition: &Condition, now: Timestamp) {
    set_condition(budget, condition, now);
    if let Some(counted_for) = at(budget, &["status", "observedGeneration"]).cloned() {
        set_condition_field(budget, condition.kind, "observedGeneration", &counted_for);
    }
}

fn budget_event(reason: &str, message: String) -> EventSpec<'_> {
    let kind = if reason == "NoPods" { "Normal" } else { "Warning" };
    EventSpec { component: COMPONENT, kind, reason, message }
}

/// The message of the `UnmanagedPods` event of a budget.
fn unmanaged_pods_message(budget: &Value) -> String {
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As \
         a result, the status of the PDB cannot be calculated correctly, which may result in \
         undefined behavior. To account for these pods please set \".spec.minAvailable\" field of \
         the PDB to an integer value.",
        go_label_selector(&budget["spec"]["selector"])
    )
}

/// A label selector as Go's `%v` prints the API type.
fn go_label_selector(selector: &Value) -> String {
    let labels = string_entries(selector, &["matchLabels"]);
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

/// The entries of `status.disruptedPods` (evicted pods that are not deleted yet), and when the next
/// of them times out.
fn pending_disruptions(
    budget: &Value,
    covered: &[&Object],
    ctx: &Context,
) -> (Map, Option<Timestamp>) {
    let mut still = Map::new();
    let mut again = None;
    for (pod, granted) in map(budget, &["status", "disruptedPods"]).into_iter().flatten() {
        let until = time_at(budget, &["status", "disruptedPods", pod])
            .map(|granted| time_after_secs(granted, DELETION_TIMEOUT_SECS));
        let Some(until) = until.filter(|until| ctx.now <= *until) else { continue };
        if covered.iter().any(|one| name(one) == pod) {
            still.insert(pod.clone(), granted.clone());
            again = [again, Some(time_after_secs(until, 1))].into_iter().flatten().min();
        }
    }
    (still, again)
}

/// How many pods a budget expects, and how many of them must be healthy.
struct ExpectedPods {
    /// The expected number of pods.
    pods: i64,
    /// The number of healthy pods that the budget requires.
    healthy: i64,
    /// Whether the budget covers a pod without a controller, which cannot be counted.
    unmanaged: bool,
}

/// How many pods a budget expects; an error text if that cannot be determined.
fn expected_pods(
    budget: &Value,
    covered: &[&Object],
    cache: &InformerCache,
) -> Result<ExpectedPods, String> {
    if let Some(most) = at(budget, &["spec", "maxUnavailable"]) {
        let OwnerScale { pods, unmanaged } = owner_scale(covered, cache)?;
        let most = int_or_percent_of(Some(most), pods, true).unwrap_or(0);
        return Ok(ExpectedPods { pods, healthy: (pods - most).max(0), unmanaged });
    }
    let there = api_count(covered);
    match at(budget, &["spec", "minAvailable"]) {
        Some(Value::String(percent)) => {
            let OwnerScale { pods, unmanaged } = owner_scale(covered, cache)?;
            let healthy = int_or_percent_of(Some(&json!(percent)), pods, true).unwrap_or(pods);
            Ok(ExpectedPods { pods, healthy, unmanaged })
        }
        Some(least) => {
            let healthy = int_or_percent_of(Some(least), there, true).unwrap_or(0);
            Ok(ExpectedPods { pods: there, healthy, unmanaged: false })
        }
        None => Ok(ExpectedPods { pods: there, healthy: 1, unmanaged: false }),
    }
}

/// The desired replicas of the controllers of the covered pods.
struct OwnerScale {
    pods: i64,
    /// Whether a covered pod has no controller. Such a pod does not count.
    unmanaged: bool,
}

fn owner_scale(covered: &[&Object], cache: &InformerCache) -> Result<OwnerScale, String> {
    let mut total = OwnerScale { pods: 0, unmanaged: false };
    let mut counted_owners = BTreeSet::new();
    for pod in covered {
        let Some(owner) = controller_reference(pod) else {
            total.unmanaged = true;
            continue;
        };
        let (key, replicas) = replicas_of_owner(&owner, pod, cache)?;
        if counted_owners.insert(key) {
            total.pods = total.pods.saturating_add(replicas);
        }
    }
    Ok(total)
}

/// The key and the number of desired replicas of the workload that controls the pods of `owner`,
/// from the workload's `/scale`.
fn replicas_of_owner(
    owner: &OwnerReference,
    pod: &Value,
    cache: &InformerCache,
) -> Result<(Key, i64), String> {
    let version = owner.api_version;
    let kind = cache.owner_kind(owner).ok_or_else(|| {
        format!("no matches for kind \"{}\" in version \"{version}\"", owner.kind)
    })?;
    if kind.stored().scale.is_none() {
        return Err(format!("{} does not implement the scale subresource", kind.resource));
    }
    let key = Key::new(kind.resource.clone(), namespace(pod), owner.name);
    let Some(object) = cache.get(&key).filter(|object| uid(object) == owner.uid) else {
        return Err(format!("found no controllers for pod \"{}\"", name(pod)));
    };
    // A Deployment determines the replicas of its ReplicaSets.
    let parent = controller_reference(object).and_then(|parent| cache.key_of_uid(parent.uid));
    if let Some(deployment) = parent.filter(|parent| parent.resource == *DEPLOYMENTS) {
        let desired =
            cache.get(deployment).map(|object| clamped_count_at(object, &["spec", "replicas"], 1));
        return Ok((deployment.clone(), desired.unwrap_or(0)));
    }
    let scale = kind.scale_for_read(object).map_err(|error| error.message)?;
    Ok((key, clamped_count_at(&scale, &["spec", "replicas"], 0)))
}
