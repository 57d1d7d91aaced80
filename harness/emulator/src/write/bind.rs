//! POST to `pods/{name}/binding`: a pod gets its node, once.

use super::request::Request;
use super::webhooks::{self, Point};
use super::{Seen, check_seen};
use crate::error::ApiError;
use crate::kinds::Resource;
use crate::object;
use crate::store::{Stop, Store, Written};
use schedlab_json::{Value, json};

pub(super) fn bind(
    store: &mut Store,
    request: &mut Request,
    binding: Value,
) -> Result<Written, Stop> {
    check_target(request, &binding)?;
    let binding = webhooks::whole(request, binding, ("v1", "Binding"));
    let point = Point::create().of_part("v1", "Binding");
    let binding = &webhooks::ask(store, request, point, binding)?;
    let pod = store.get(&request.key)?;
    let uid = Some(object::uid(binding)).filter(|uid| !uid.is_empty());
    let revision = Some(object::resource_version(binding)).filter(|seen| !seen.is_empty());
    check_seen(request, &pod, &Seen { uid, revision, by_update: false })?;
    check_pod(&pod).map_err(|why| {
        ApiError::conflict(&Resource::new("", "pods/binding"), &request.key.name, &why)
    })?;
    let mut bound = Value::clone(&pod);
    let node = object::text(binding, &["target", "name"]);
    object::set(&mut bound, &["spec", "nodeName"], node.into());
    for field in ["annotations", "labels"] {
        for (key, value) in object::map(binding, &["metadata", field]).into_iter().flatten() {
            object::set(&mut bound, &["metadata", field, key], value.clone());
        }
    }
    object::remove(&mut bound, &["status", "nominatedNodeName"]);
    set_scheduled(&mut bound, request);
    Ok(request.commit(store, bound, false))
}

fn check_target(request: &Request, binding: &Value) -> Result<(), ApiError> {
    if !request.kind.is("", "Pod") {
        return Err(ApiError::no_such_resource());
    }
    let name = object::name(binding);
    if *name != *request.key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let kind = object::text(binding, &["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        return Err(ApiError::unforeseen(format!(
            "target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\""
        )));
    }
    if object::text(binding, &["target", "name"]).is_empty() {
        return Err(ApiError::unforeseen("target.name: Required value"));
    }
    Ok(())
}

fn check_pod(pod: &Value) -> Result<(), String> {
    let name = object::name(pod);
    if object::is_deleting(pod) {
        return Err(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let node = object::text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        return Err(format!("pod {name} is already assigned to node \"{node}\""));
    }
    if !object::list(pod, &["spec", "schedulingGates"]).is_empty() {
        return Err(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    Ok(())
}

fn set_scheduled(pod: &mut Value, request: &Request) {
    let condition = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": request.time(),
    });
    let mut conditions = object::list(pod, &["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
    object::set(pod, &["status", "conditions"], conditions.into());
}
