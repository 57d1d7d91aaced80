//! POST to `pods/{name}/eviction`: a delete that disruption budgets can refuse.
//!
//! The budget's status decides, as the disruption controller keeps it. Where nobody has counted
//! for the budget yet, its pods are counted here.

use serde_json::{Value, json};

use super::delete;
use super::request::Request;
use crate::error::{ApiError, Cause};
use crate::kinds::Resource;
use crate::object;
use crate::select::LabelSelector;
use crate::store::{DeleteOptions, Key, Object, Op, Store, Subresource, Write, Written};

pub(super) fn evict(
    store: &mut Store,
    request: &Request,
    eviction: &Value,
) -> Result<Written, ApiError> {
    if !request.kind.is("", "Pod") {
        return Err(ApiError::no_such_resource());
    }
    let name = object::name(eviction);
    if !name.is_empty() && *name != *request.key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let pod = store.get(&request.key)?;
    let options = DeleteOptions::from_object(&eviction["deleteOptions"])?;
    let phase = object::text(&pod, &["status", "phase"]);
    let is_free = object::is_deleting(&pod) || matches!(phase, "Succeeded" | "Failed" | "Pending");
    if !is_free {
        ask_budget(store, request, &pod)?;
        announce(store, request, &pod);
    }
    delete::delete(store, request, &options)
}

/// Asks the pod's disruption budget and takes one disruption from it.
fn ask_budget(store: &mut Store, request: &Request, pod: &Value) -> Result<(), ApiError> {
    let budgets = budgets_of(store, pod)?;
    let budget = match budgets.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction \
                           subresource does not support.";
            return Err(ApiError::new(500, "InternalError", message));
        }
    };
    let count = Count::told(budget).map_or_else(|| Count::of(store, budget), Ok)?;
    let is_ready = object::condition(pod, "Ready") == Some("True");
    let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    if !is_ready && (always || (count.healthy >= count.desired && count.desired > 0)) {
        return Ok(());
    }
    let refused = count.allowed == 0;
    publish(store, request, (budget, &count, !refused));
    if refused {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        return Err(ApiError::too_many_requests(message).with_cause(Cause {
            reason: "DisruptionBudget".to_owned(),
            message: format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                object::name(budget),
                count.desired,
                count.healthy
            ),
            field: String::new(),
        }));
    }
    Ok(())
}

fn budgets_of(store: &Store, pod: &Value) -> Result<Vec<Object>, ApiError> {
    let resource = Resource::new("policy", "poddisruptionbudgets");
    let mut budgets = Vec::new();
    for budget in store.list(&resource, Some(object::namespace(pod))) {
        if selector(budget)?.is_some_and(|selector| selector.matches(pod)) {
            budgets.push(budget.clone());
        }
    }
    Ok(budgets)
}

/// A budget without a selector selects nothing, one with an empty selector everything.
fn selector(budget: &Value) -> Result<Option<LabelSelector>, ApiError> {
    match object::at(budget, &["spec", "selector"]) {
        None | Some(Value::Null) => Ok(None),
        Some(selector) => LabelSelector::from_object(selector).map(Some),
    }
}

/// What a budget protects, in numbers.
struct Count {
    expected: i64,
    healthy: i64,
    desired: i64,
    allowed: i64,
}

impl Count {
    /// As the budget's status has it, if that is about the budget as it is now.
    fn told(budget: &Value) -> Option<Self> {
        let of = |field: &str| object::number(budget, &["status", field]);
        let seen = of("observedGeneration")?;
        let generation = object::number(budget, &["metadata", "generation"])?;
        let allowed = of("disruptionsAllowed").filter(|_| seen == generation)?;
        Some(Self {
            expected: of("expectedPods").unwrap_or(0),
            healthy: of("currentHealthy").unwrap_or(0),
            desired: of("desiredHealthy").unwrap_or(0),
            allowed: allowed.max(0),
        })
    }

    fn of(store: &Store, budget: &Value) -> Result<Self, ApiError> {
        let selector = selector(budget)?.unwrap_or_default();
        let (mut expected, mut healthy) = (0, 0);
        let namespace = object::namespace(budget);
        for pod in store.list(&Resource::new("", "pods"), Some(namespace)) {
            let phase = object::text(pod, &["status", "phase"]);
            if !selector.matches(pod) || matches!(phase, "Succeeded" | "Failed") {
                continue;
            }
            expected += 1;
            let is_ready = object::condition(pod, "Ready") == Some("True");
            healthy += i64::from(is_ready && !object::is_deleting(pod));
        }
        let share = |field: &str| portion(budget["spec"].get(field)?, expected);
        let desired = match (share("minAvailable"), share("maxUnavailable")) {
            (Some(least), _) => least,
            (None, Some(most)) => (expected - most).max(0),
            (None, None) => 1,
        };
        Ok(Self { expected, healthy, desired, allowed: (healthy - desired).max(0) })
    }
}

/// A number, or a percentage of `whole` rounded up.
fn portion(value: &Value, whole: i64) -> Option<i64> {
    if let Some(text) = value.as_str() {
        let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
        return Some(whole.saturating_mul(percent).saturating_add(99) / 100);
    }
    value.as_i64()
}

/// Writes the budget's status.
fn publish(store: &mut Store, request: &Request, (budget, count, taken): (&Object, &Count, bool)) {
    if request.dry_run {
        return;
    }
    let allowed = count.allowed - i64::from(taken);
    let mut new = Value::clone(budget);
    for (field, number) in [
        ("currentHealthy", count.healthy),
        ("desiredHealthy", count.desired),
        ("disruptionsAllowed", allowed),
        ("expectedPods", count.expected),
        ("observedGeneration", new["metadata"]["generation"].as_i64().unwrap_or(0)),
    ] {
        object::set(&mut new, &["status", field], number.into());
    }
    if taken {
        let name: &str = &request.key.name;
        object::set(&mut new, &["status", "disruptedPods", name], request.time());
    }
    let resource = Resource::new("policy", "poddisruptionbudgets");
    let key = Key::new(resource, object::namespace(budget), object::name(budget));
    let write = Write::new(key, Op::Update(Subresource::Status, new), "kube-apiserver");
    // A budget that its own rules refuse now keeps its old status; the eviction does not hang on it.
    drop(store.write(write, request.now));
}

/// The condition by which an evicted pod can be told from a deleted one.
fn announce(store: &mut Store, request: &Request, pod: &Object) {
    let mut new = Value::clone(pod);
    let mut conditions = object::list(pod, &["status", "conditions"]).to_vec();
    conditions.retain(|condition| condition["type"] != "DisruptionTarget");
    conditions.push(json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": null,
        "lastTransitionTime": request.time(),
    }));
    object::set(&mut new, &["status", "conditions"], conditions.into());
    request.commit(store, new, false);
}
