//! One attempt to execute a BindRequest. It reads pod and node anew, so that it can be repeated at
//! any point; the status of the request is written last.

use schedlab_api::{Value, annotations, api_versions, conditions, json};
use schedlab_scheduler_core::model::{Name, Time};
use serde::de::IgnoredAny;

use super::{bind_request::BindRequest, claims, error::BindError, shared_gpu, volumes};
use crate::{
    api::{ApiClient, ApiError, PatchKind, object_path},
    apply::{Event, EventType, InvolvedObject, rfc3339, shared_gpu_labels},
    parse::{at, list, text, uid},
    records::{ObjectKey, placements_to_json},
};

/// A finished attempt, with the pod as it was before the attempt, or as another writer bound it.
pub(super) struct Attempt {
    pub(super) pod: Option<Value>,
    pub(super) result: Result<(), String>,
}

/// Outcome of an attempt.
pub(super) enum AttemptOutcome {
    /// The attempt succeeded, or failed for now or permanently.
    Finished(Attempt),
    /// The attempt waits for another controller, and is repeated.
    Waiting,
}

/// Attempts to bind the pod. `devices` are the indices reserved for it. With `is_patient` false,
/// waiting for another controller counts as a failure.
pub(super) async fn run(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    devices: &[Name],
    is_patient: bool,
) -> Result<AttemptOutcome, ApiError> {
    let pod = api.get(&object_path("v1", &key.namespace, "pods", &key.name)).await;
    let (mut pod, outcome) = match (pod, request.validation_error(&key.name)) {
        (pod, Some(problem)) => (pod.ok(), Err(BindError::Failed(problem))),
        (Ok(pod), None) => {
            let result = attempt_bind(api, key, request, &pod, devices).await;
            (Some(pod), result)
        }
        (Err(error), None) => (None, Err(error.into())),
    };
    let result = match outcome {
        Ok(()) => Ok(()),
        Err(BindError::Waiting(_)) if is_patient => return Ok(AttemptOutcome::Waiting),
        Err(BindError::Failed(why) | BindError::Waiting(why)) => Err(why),
        Err(BindError::BoundElsewhere(on)) => {
            if let Some(pod) = &mut pod {
                pod["spec"]["nodeName"] = json!(&*on);
            }
            Err(format!("the pod is bound to node {on} already"))
        }
        Err(BindError::Unconfirmed(error)) => return Err(error),
    };
    Ok(AttemptOutcome::Finished(Attempt { pod, result }))
}

/// Writes the result to pod and request; returns the updated request.
pub(super) async fn write_result(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    Attempt { pod, result }: &Attempt,
    now: Time,
) -> Result<Value, ApiError> {
    if let Some(pod) = pod {
        report_on_pod(api, key, request, pod, result, now).await?;
    }
    let status = match result {
        Ok(()) => json!({ "phase": "Succeeded", "reason": null }),
        Err(why) => json!({
            "phase": "Failed",
            "reason": why,
            "failedAttempts": request.failed_attempts.saturating_add(1),
        }),
    };
    let path = object_path(api_versions::BIND_REQUEST, &key.namespace, "bindrequests", &key.name);
    api.patch(&format!("{path}/status"), PatchKind::Merge, &json!({ "status": status })).await
}

/// Binds the pod to its node, unless the pod is already bound to this node.
async fn attempt_bind(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
    devices: &[Name],
) -> Result<(), BindError> {
    let uid = uid(pod);
    if !request.is_for_pod_uid(&uid) {
        let why = format!("pod {key} has another UID than the pod of the request");
        return Err(BindError::Failed(why));
    }
    if is_bound_to(pod, &request.node)? {
        return Ok(());
    }
    let node = api.get(&object_path("v1", "", "nodes", &request.node)).await?;
    volumes::bind_volumes(api, key, request, pod, &node).await?;
    if !request.has_claims() {
        return bind_pod(api, key, request, pod, devices).await;
    }
    let mut result = claims::reserve_claims(api, key, request, pod).await;
    if result.is_ok() {
        result = bind_pod(api, key, request, pod, devices).await;
    }
    if let Err(BindError::Failed(_)) = result {
        ignore_rejections(claims::release_claims(api, key, request).await)?;
    }
    result
}

/// Binds a pod that was not bound when it was read, and whose resource claims are allocated.
async fn bind_pod(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
    devices: &[Name],
) -> Result<(), BindError> {
    let uid = uid(pod);
    let pod_path = object_path("v1", &key.namespace, "pods", &key.name);
    shared_gpu::write_config_maps(api, key, request, pod, devices).await?;
    if let Some(mut change) = pod_changes(request, pod) {
        if let Some((annotation, value)) = shared_gpu::cdi_annotation(pod, devices) {
            change["metadata"]["annotations"][annotation] = json!(value);
        }
        change["metadata"]["uid"] = json!(&*uid);
        let _: Value = api.patch(&pod_path, PatchKind::Merge, &change).await?;
    }
    let mut binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": &*key.name, "namespace": &*key.namespace, "uid": &*uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": &*request.node },
    });
    // The API server copies annotations of the Binding to the pod.
    if !request.resource_type.is_empty() {
        let received = json!({ "received-resource-type": &*request.resource_type });
        binding["metadata"]["annotations"] = received;
    }
    if !request.numa.is_empty() {
        let foretold = placements_to_json(&request.numa).to_string();
        binding["metadata"]["annotations"][annotations::NUMA_PLACEMENT_PREDICTED] = json!(foretold);
    }
    let bound: Result<Value, ApiError> = api.create(&format!("{pod_path}/binding"), &binding).await;
    match bound {
        Ok(_) => Ok(()),
        // Another writer may have bound it meanwhile.
        Err(ApiError::Conflict(why)) => {
            let is_bound = is_bound_to(&api.get(&pod_path).await?, &request.node)?;
            if is_bound { Ok(()) } else { Err(BindError::Failed(why)) }
        }
        Err(error) => Err(error.into()),
    }
}

/// Patch with the labels that the pod gets before it is bound; `None` if there are none.
fn pod_changes(request: &BindRequest, pod: &Value) -> Option<Value> {
    if request.gpu_groups.is_empty() && request.labels.is_empty() {
        return None;
    }
    let mut change = json!({ "metadata": { "labels": {} } });
    if !request.gpu_groups.is_empty() {
        let known = at(pod, "/metadata/labels").and_then(Value::as_object);
        change = shared_gpu_labels(
            known.into_iter().flatten().map(|(label, _)| &**label),
            &request.gpu_groups,
        );
    }
    for (label, value) in &request.labels {
        change["metadata"]["labels"][&**label] = json!(&**value);
    }
    Some(change)
}

fn is_bound_to(pod: &Value, node: &str) -> Result<bool, BindError> {
    match text(pod, "/spec/nodeName") {
        None | Some("") => Ok(false),
        Some(on) if on == node => Ok(true),
        Some(on) => Err(BindError::BoundElsewhere(on.into())),
    }
}

/// Writes an event and conditions on the pod with KAI's texts: `PodBound`, and after a failure also
/// `PodScheduled` (which KAI leaves unchanged). Rejected writes are ignored.
async fn report_on_pod(
    api: &ApiClient,
    key: &ObjectKey,
    request: &BindRequest,
    pod: &Value,
    result: &Result<(), String>,
    now: Time,
) -> Result<(), ApiError> {
    let node = &request.node;
    let (level, status, reason, message) = match result {
        Ok(()) => {
            (EventType::Normal, "True", "Bound", format!("Pod bound successfully to node {node}"))
        }
        Err(why) => {
            let to = if node.is_empty() { String::new() } else { format!(" to node {node}") };
            let message = format!("Failed to bind pod {key}{to}: {why}");
            (EventType::Warning, "False", conditions::BINDING_ERROR, message)
        }
    };
    // After a successful Binding the API server sets `PodScheduled` itself.
    let waits = result.is_err() && text(pod, "/spec/nodeName").is_none_or(str::is_empty);
    let kinds: &[&str] =
        if waits { &["PodBound", conditions::POD_SCHEDULED] } else { &["PodBound"] };
    let conditions = list(pod, "/status/conditions");
    let is_current = |kind: &&str| {
        conditions.iter().any(|condition| {
            condition["type"] == **kind
                && condition["status"] == status
                && condition["message"] == *message
        })
    };
    if kinds.iter().all(is_current) {
        return Ok(());
    }
    let uid = uid(pod);
    let about = InvolvedObject::for_pod(key, &uid);
    let occasion = &*request.uid;
    let event = Event {
        involved: &about,
        event_type: level,
        reason,
        message: &message,
        dedup_key: None,
        dedup_scope: occasion,
    };
    let (path_of_event, event) = event.to_request(&api.name, now);
    ignore_rejections(api.create_event(&path_of_event, event).await)?;
    let conditions = kinds.iter().map(|kind| {
        json!({
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": rfc3339(now),
        })
    });
    let change = json!({ "status": { "conditions": conditions.collect::<Value>() } });
    let path = format!("{}/status", object_path("v1", &key.namespace, "pods", &key.name));
    ignore_rejections(api.patch(&path, PatchKind::Strategic, &change).await.map(|IgnoredAny| ()))
}

/// Ignores rejected writes. Returns only an error of unknown outcome, which is retried.
fn ignore_rejections(written: Result<(), ApiError>) -> Result<(), ApiError> {
    match written {
        Err(error @ ApiError::OutcomeUnknown(_)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
