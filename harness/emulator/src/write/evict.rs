//! POST to `pods/{name}/eviction`: a delete that disruption budgets can refuse.
//!
//! The budget's status decides, as the disruption controller keeps it. As long as that has not
//! counted for the budget as it is now, nothing is evicted.

use super::request::Request;
use super::webhooks::{self, Point};
use super::{check_deleted, delete};
use crate::error::{ApiError, Cause};
use crate::kinds::Resource;
use crate::object;
use crate::select::LabelSelector;
use crate::store::{DeleteOptions, Key, Object, Op, Stop, Store, Subresource, Write, Written};
use schedlab_json::{Value, json};

/// The condition that tells whether a budget lets anybody go.
const ALLOWED: &str = "DisruptionAllowed";

pub(super) fn evict(
    store: &mut Store,
    request: &mut Request,
    eviction: Value,
) -> Result<Written, Stop> {
    if !request.kind.is("", "Pod") {
        return Err(ApiError::no_such_resource().into());
    }
    let name = object::name(&eviction);
    if !name.is_empty() && *name != *request.key.name {
        let why = "name in URL does not match name in Eviction object";
        return Err(ApiError::bad_request(why).into());
    }
    let eviction = webhooks::whole(request, eviction, ("policy/v1", "Eviction"));
    let point = Point::create().of_part("policy/v1", "Eviction");
    let eviction = webhooks::ask(store, request, point, eviction)?;
    let pod = store.get(&request.key)?;
    let options = DeleteOptions::from_object(&eviction["deleteOptions"])?;
    let phase = object::text(&pod, &["status", "phase"]);
    let is_free = object::is_deleting(&pod) || matches!(phase, "Succeeded" | "Failed" | "Pending");
    if !is_free {
        ask_budget(store, request, &pod)?;
        check_deleted(request, &pod, &options.preconditions)?;
        announce(store, request, &pod);
    }
    Ok(delete::delete_unasked(store, request, &options)?)
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
    let of = |field: &str| object::number(budget, &["status", field]).unwrap_or(0);
    let (healthy, desired) = (of("currentHealthy"), of("desiredHealthy"));
    let is_ready = object::condition(pod, "Ready") == Some("True");
    let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    if !is_ready && (always || (healthy >= desired && desired > 0)) {
        return Ok(());
    }
    let name = object::name(budget);
    let generation = object::number(budget, &["metadata", "generation"]).unwrap_or(0);
    if of("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refusal(why).with_retry_after(10));
    }
    if of("disruptionsAllowed") <= 0 {
        return Err(refusal(why_none(budget)));
    }
    publish(store, request, budget);
    Ok(())
}

/// Why a budget lets nobody go: that its pods could not be counted comes before the counts.
fn why_none(budget: &Value) -> String {
    let of = |field: &str| object::number(budget, &["status", field]).unwrap_or(0);
    let (healthy, desired) = (of("currentHealthy"), of("desiredHealthy"));
    let name = object::name(budget);
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    let all = object::list(budget, &["status", "conditions"]);
    let said = all.iter().find(|one| one["type"] == ALLOWED && one["status"] == "False");
    let part = |field: &str| said.map_or("", |one| object::text(one, &[field]));
    let (reason, message) = (part("reason"), part("message"));
    if reason == "SyncFailed" && !message.is_empty() {
        return format!("{none} because it failed sync: {message}");
    }
    if healthy <= desired {
        return format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        );
    }
    if message.is_empty() { none } else { format!("{none} ({reason}): {message}") }
}

/// 429: not now.
fn refusal(why: String) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::too_many_requests(message).with_cause(Cause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        field: String::new(),
    })
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

/// Notes in the budget's status that one pod goes.
fn publish(store: &mut Store, request: &Request, budget: &Object) {
    if request.dry_run {
        return;
    }
    let mut new = Value::clone(budget);
    let left = object::number(budget, &["status", "disruptionsAllowed"]).unwrap_or(0) - 1;
    object::set(&mut new, &["status", "disruptionsAllowed"], left.into());
    object::set(&mut new, &["status", "disruptedPods", &request.key.name], request.time());
    if left == 0 {
        note_end(request, &mut new);
    }
    let resource = Resource::new("policy", "poddisruptionbudgets");
    let key = Key::new(resource, object::namespace(budget), object::name(budget));
    let write = Write::new(key, Op::Update(Subresource::Status, new), "kube-apiserver");
    // A budget that its own rules refuse now keeps its old status; the eviction does not hang on it.
    drop(store.write(write, request.now));
}

/// No further disruption is allowed.
fn note_end(request: &Request, budget: &mut Value) {
    let mut conditions = object::list(budget, &["status", "conditions"]).to_vec();
    let old = conditions.iter().find(|one| one["type"] == ALLOWED && one["status"] == "False");
    let since = old.map_or_else(|| request.time(), |one| one["lastTransitionTime"].clone());
    conditions.retain(|one| one["type"] != ALLOWED);
    conditions.push(json!({
        "type": ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": budget["status"]["observedGeneration"],
        "lastTransitionTime": since,
    }));
    object::set(budget, &["status", "conditions"], conditions.into());
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
