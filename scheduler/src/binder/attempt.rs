//! One attempt to carry out a request. It looks at the pod and the node as they stand now, so it
//! can be made again at any point; the status of the request is written last.

use schedlab_json::{Value, json};
use schedlab_scheduler_core::model::{Name, Time};
use serde::de::IgnoredAny;

use super::{claims, order::Order, refusal::Refusal, shared_gpu, volumes};
use crate::{
    api::{Api, ApiError, Merge, path},
    apply::{About, Event, Level, rfc3339, share},
    mirror::{BINDING_ERROR, Key, PREDICTED, written_shares},
    parse::{at, list, text, uid},
};

/// What became of an attempt, and the pod as it was before it, or as somebody else bound it.
pub(super) struct Attempt {
    pub(super) pod: Option<Value>,
    pub(super) ended: Result<(), String>,
}

/// What an attempt came to.
pub(super) enum Made {
    /// An end, for now or for good.
    Ended(Attempt),
    /// Nothing yet: it is to be made again when others have done what this waits for.
    Waits,
}

/// Binds the pod, if that can be. `devices`: those that are reserved for it. Where it has waited
/// for others long enough it has failed.
pub(super) async fn make(
    api: &Api,
    (key, order): (&Key, &Order),
    devices: &[Name],
    is_patient: bool,
) -> Result<Made, ApiError> {
    let pod = api.get(&path("v1", &key.namespace, "pods", &key.name)).await;
    let (mut pod, ended) = match (pod, order.problem(&key.name)) {
        (pod, Some(problem)) => (pod.ok(), Err(Refusal::Failed(problem))),
        (Ok(pod), None) => {
            let ended = bind(api, (key, order), (&pod, devices)).await;
            (Some(pod), ended)
        }
        (Err(error), None) => (None, Err(error.into())),
    };
    let ended = match ended {
        Ok(()) => Ok(()),
        Err(Refusal::Waits(_)) if is_patient => return Ok(Made::Waits),
        Err(Refusal::Failed(why) | Refusal::Waits(why)) => Err(why),
        Err(Refusal::Elsewhere(on)) => {
            if let Some(pod) = &mut pod {
                pod["spec"]["nodeName"] = json!(&*on);
            }
            Err(format!("the pod is bound to node {on} already"))
        }
        Err(Refusal::Unknown(error)) => return Err(error),
    };
    Ok(Made::Ended(Attempt { pod, ended }))
}

/// Tells how an attempt ended. Answers the request as it stands then.
pub(super) async fn conclude(
    api: &Api,
    (key, order): (&Key, &Order),
    Attempt { pod, ended }: &Attempt,
    now: Time,
) -> Result<Value, ApiError> {
    if let Some(pod) = pod {
        tell(api, (key, order), pod, (ended, now)).await?;
    }
    let status = match ended {
        Ok(()) => json!({ "phase": "Succeeded", "reason": null }),
        Err(why) => json!({
            "phase": "Failed",
            "reason": why,
            "failedAttempts": order.attempts.saturating_add(1),
        }),
    };
    let path = path("scheduling.run.ai/v1alpha2", &key.namespace, "bindrequests", &key.name);
    api.patch(&format!("{path}/status"), Merge::Plain, &json!({ "status": status })).await
}

/// Binds the pod to its node, unless it is.
async fn bind(
    api: &Api,
    (key, order): (&Key, &Order),
    (pod, devices): (&Value, &[Name]),
) -> Result<(), Refusal> {
    let uid = uid(pod);
    if !order.is_about(&uid) {
        let why = format!("pod {key} is not the one for which the request was made");
        return Err(Refusal::Failed(why));
    }
    if is_bound(pod, &order.node)? {
        return Ok(());
    }
    let node = api.get(&path("v1", "", "nodes", &order.node)).await?;
    volumes::bind(api, (key, order), (pod, &node)).await?;
    if !order.has_claims() {
        return bind_unbound(api, (key, order), (pod, devices)).await;
    }
    let mut ended = claims::reserve(api, (key, order), pod).await;
    if ended.is_ok() {
        ended = bind_unbound(api, (key, order), (pod, devices)).await;
    }
    if let Err(Refusal::Failed(_)) = ended {
        ignored(claims::release(api, (key, order)).await)?;
    }
    ended
}

/// Binds a pod that was not bound a moment ago, whose claims have their devices.
async fn bind_unbound(
    api: &Api,
    (key, order): (&Key, &Order),
    (pod, devices): (&Value, &[Name]),
) -> Result<(), Refusal> {
    let uid = uid(pod);
    let pod_path = path("v1", &key.namespace, "pods", &key.name);
    shared_gpu::write(api, (key, order), pod, devices).await?;
    if let Some(mut change) = change(order, pod) {
        if let Some((annotation, value)) = shared_gpu::annotation(pod, devices) {
            change["metadata"]["annotations"][annotation] = json!(value);
        }
        change["metadata"]["uid"] = json!(&*uid);
        let _: Value = api.patch(&pod_path, Merge::Plain, &change).await?;
    }
    let mut binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": &*key.name, "namespace": &*key.namespace, "uid": &*uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": &*order.node },
    });
    // The server copies annotations to the pod.
    if !order.resource_type.is_empty() {
        let received = json!({ "received-resource-type": &*order.resource_type });
        binding["metadata"]["annotations"] = received;
    }
    if !order.zones.is_empty() {
        let foretold = written_shares(&order.zones).to_string();
        binding["metadata"]["annotations"][PREDICTED] = json!(foretold);
    }
    let bound: Result<Value, ApiError> = api.create(&format!("{pod_path}/binding"), &binding).await;
    match bound {
        Ok(_) => Ok(()),
        // Somebody may have been quicker.
        Err(ApiError::Conflict(why)) => {
            let is_bound = is_bound(&api.get(&pod_path).await?, &order.node)?;
            if is_bound { Ok(()) } else { Err(Refusal::Failed(why)) }
        }
        Err(error) => Err(error.into()),
    }
}

/// What stands on the pod before it is bound.
fn change(order: &Order, pod: &Value) -> Option<Value> {
    if order.gpu_groups.is_empty() && order.labels.is_empty() {
        return None;
    }
    let mut change = json!({ "metadata": { "labels": {} } });
    if !order.gpu_groups.is_empty() {
        let known = at(pod, "/metadata/labels").and_then(Value::as_object);
        change = share(known.into_iter().flatten().map(|(label, _)| &**label), &order.gpu_groups);
    }
    for (label, value) in &order.labels {
        change["metadata"]["labels"][&**label] = json!(&**value);
    }
    Some(change)
}

fn is_bound(pod: &Value, node: &str) -> Result<bool, Refusal> {
    match text(pod, "/spec/nodeName") {
        None | Some("") => Ok(false),
        Some(on) if on == node => Ok(true),
        Some(on) => Err(Refusal::Elsewhere(on.into())),
    }
}

/// An event and conditions on the pod, in KAI's words: `PodBound`, and of a failure `PodScheduled`
/// (in KAI that stays as it was). That they cannot be written changes nothing.
async fn tell(
    api: &Api,
    (key, order): (&Key, &Order),
    pod: &Value,
    (ended, now): (&Result<(), String>, Time),
) -> Result<(), ApiError> {
    let node = &order.node;
    let (level, status, reason, message) = match ended {
        Ok(()) => {
            (Level::Normal, "True", "Bound", format!("Pod bound successfully to node {node}"))
        }
        Err(why) => {
            let to = if node.is_empty() { String::new() } else { format!(" to node {node}") };
            let message = format!("Failed to bind pod {key}{to}: {why}");
            (Level::Warning, "False", BINDING_ERROR, message)
        }
    };
    // Of a pod that it bound the server says that it is scheduled.
    let waits = ended.is_err() && text(pod, "/spec/nodeName").is_none_or(str::is_empty);
    let kinds: &[&str] = if waits { &["PodBound", "PodScheduled"] } else { &["PodBound"] };
    let stand = list(pod, "/status/conditions");
    let stands = |kind: &&str| {
        stand.iter().any(|condition| {
            condition["type"] == **kind
                && condition["status"] == status
                && condition["message"] == *message
        })
    };
    if kinds.iter().all(stands) {
        return Ok(());
    }
    let uid = uid(pod);
    let about = About::pod(key, &uid);
    let occasion = &*order.uid;
    let event = Event { about: &about, level, reason, message: &message, gist: None, occasion };
    let (path_of_event, event) = event.request(&api.name, now);
    ignored(api.tell(&path_of_event, event).await)?;
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
    let path = format!("{}/status", path("v1", &key.namespace, "pods", &key.name));
    ignored(api.patch(&path, Merge::Strategic, &change).await.map(|IgnoredAny| ()))
}

/// What was refused stays unwritten; only what nobody knows is tried again.
fn ignored(written: Result<(), ApiError>) -> Result<(), ApiError> {
    match written {
        Err(error @ ApiError::Unknown(_)) => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
