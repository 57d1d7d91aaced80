//! POST to `pods/{name}/eviction`: a deletion that a `PodDisruptionBudget` can refuse.
//!
//! The budget's status decides; the disruption controller maintains it. An eviction is refused as
//! long as the status does not reflect the budget's current generation.

use super::request::WriteRequest;
use super::webhooks::{self, AdmissionPoint};
use super::{check_delete_preconditions, delete};
use crate::api_types::error::{ApiError, Cause};
use crate::api_types::kinds::typed::{self, BodyKind};
use crate::api_types::label_selector::LabelSelector;
use crate::api_types::resource::Resource;
use crate::store::{
    DeleteOptions, Key, Object, Op, Store, Subresource, Write, WriteError, WriteOutcome,
};
use schedlab_api::{Value, conditions, json, object};

/// The type of the condition that shows whether a `PodDisruptionBudget` allows disruptions.
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

pub(super) fn evict_pod(
    store: &mut Store,
    request: &mut WriteRequest,
    mut eviction: Value,
) -> Result<WriteOutcome, WriteError> {
    if !request.kind.is("", "Pod") {
        return Err(ApiError::no_such_resource().into());
    }
    typed::decode_subresource(BodyKind::Eviction, &mut eviction)?;
    let name = object::name(&eviction);
    if !name.is_empty() && *name != *request.key.name {
        let why = "name in URL does not match name in Eviction object";
        return Err(ApiError::bad_request(why).into());
    }
    let eviction = webhooks::complete_body(request, eviction, "policy/v1", "Eviction");
    let point = AdmissionPoint::create().with_body_kind("policy/v1", "Eviction");
    let eviction = webhooks::call_all_webhooks(store, request, point, eviction)?;
    let pod = store.get(&request.key)?;
    let options = DeleteOptions::from_object(&eviction["deleteOptions"])?;
    let phase = object::text(&pod, &["status", "phase"]);
    let is_free = object::is_deleting(&pod) || matches!(phase, "Succeeded" | "Failed" | "Pending");
    if !is_free {
        take_disruption_from_budget(store, request, &pod)?;
        check_delete_preconditions(request, &pod, &options.preconditions)?;
        set_disruption_target(store, request, &pod);
    }
    Ok(delete::delete_without_webhooks(store, request, &options)?)
}

/// Refuses an eviction that the pod's budget does not allow; otherwise takes one disruption from
/// the budget.
fn take_disruption_from_budget(
    store: &mut Store,
    request: &WriteRequest,
    pod: &Value,
) -> Result<(), ApiError> {
    let budgets = budgets_covering(store, pod)?;
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
    let is_ready = object::condition(pod, conditions::READY) == Some("True");
    let always = object::text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
    if !is_ready && (always || (healthy >= desired && desired > 0)) {
        return Ok(());
    }
    let name = object::name(budget);
    let generation = object::number(budget, &["metadata", "generation"]).unwrap_or(0);
    if of("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(eviction_denied_error(why).with_retry_after(10));
    }
    if of("disruptionsAllowed") <= 0 {
        return Err(eviction_denied_error(denial_reason(budget)));
    }
    record_disruption(store, request, budget);
    Ok(())
}

/// The reason why a budget allows no disruption: a failed sync if there is one, otherwise the
/// counts.
fn denial_reason(budget: &Value) -> String {
    let of = |field: &str| object::number(budget, &["status", field]).unwrap_or(0);
    let (healthy, desired) = (of("currentHealthy"), of("desiredHealthy"));
    let name = object::name(budget);
    let none = format!("The disruption budget {name} does not allow evicting pods currently");
    let all = object::list(budget, &["status", "conditions"]);
    let condition =
        all.iter().find(|one| one["type"] == DISRUPTION_ALLOWED && one["status"] == "False");
    let part = |field: &str| condition.map_or("", |one| object::text(one, &[field]));
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

/// The 429 error of a refused eviction.
fn eviction_denied_error(why: String) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::too_many_requests(message).with_cause(Cause {
        reason: "DisruptionBudget".to_owned(),
        message: why,
        field: String::new(),
    })
}

fn budgets_covering(store: &Store, pod: &Value) -> Result<Vec<Object>, ApiError> {
    let resource = Resource::new("policy", "poddisruptionbudgets");
    let mut budgets = Vec::new();
    for budget in store.list(&resource, Some(object::namespace(pod))) {
        if budget_selector(budget)?.is_some_and(|selector| selector.matches(pod)) {
            budgets.push(budget.clone());
        }
    }
    Ok(budgets)
}

/// The selector of a budget. `None` if the budget has no selector: then it selects no pod. An empty
/// selector selects every pod.
fn budget_selector(budget: &Value) -> Result<Option<LabelSelector>, ApiError> {
    match object::at(budget, &["spec", "selector"]) {
        None | Some(Value::Null) => Ok(None),
        Some(selector) => LabelSelector::from_object(selector).map(Some),
    }
}

/// Records a granted eviction in the budget's status.
fn record_disruption(store: &mut Store, request: &WriteRequest, budget: &Object) {
    if request.dry_run {
        return;
    }
    let mut new = Value::clone(budget);
    let left = object::number(budget, &["status", "disruptionsAllowed"]).unwrap_or(0) - 1;
    object::set(&mut new, &["status", "disruptionsAllowed"], left.into());
    object::set(&mut new, &["status", "disruptedPods", &request.key.name], request.timestamp());
    if left == 0 {
        set_disruption_not_allowed(request, &mut new);
    }
    let resource = Resource::new("policy", "poddisruptionbudgets");
    let key = Key::new(resource, object::namespace(budget), object::name(budget));
    let write = Write::new(key, Op::Update(Subresource::Status, new), "kube-apiserver");
    // A budget that validation refuses keeps its old status; the eviction proceeds.
    drop(store.write(write, request.now));
}

/// Sets the `DisruptionAllowed` condition to false.
fn set_disruption_not_allowed(request: &WriteRequest, budget: &mut Value) {
    let mut conditions = object::list(budget, &["status", "conditions"]).to_vec();
    let old =
        conditions.iter().find(|one| one["type"] == DISRUPTION_ALLOWED && one["status"] == "False");
    let since = old.map_or_else(|| request.timestamp(), |one| one["lastTransitionTime"].clone());
    conditions.retain(|one| one["type"] != DISRUPTION_ALLOWED);
    conditions.push(json!({
        "type": DISRUPTION_ALLOWED,
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": budget["status"]["observedGeneration"],
        "lastTransitionTime": since,
    }));
    object::set(budget, &["status", "conditions"], conditions.into());
}

/// Sets the `DisruptionTarget` condition, which distinguishes an eviction from a deletion.
fn set_disruption_target(store: &mut Store, request: &WriteRequest, pod: &Object) {
    let mut new = Value::clone(pod);
    let mut conditions = object::list(pod, &["status", "conditions"]).to_vec();
    conditions.retain(|condition| condition["type"] != conditions::DISRUPTION_TARGET);
    conditions.push(json!({
        "type": conditions::DISRUPTION_TARGET,
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": null,
        "lastTransitionTime": request.timestamp(),
    }));
    object::set(&mut new, &["status", "conditions"], conditions.into());
    request.commit(store, new, false);
}
