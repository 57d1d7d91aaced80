//! POST to `pods/{name}/binding`: sets the pod's node, once.

use super::request::WriteRequest;
use super::webhooks::{self, AdmissionPoint};
use super::{WritePreconditions, check_preconditions};
use crate::api_types::error::ApiError;
use crate::api_types::kinds::typed::{self, BodyKind};
use crate::api_types::resource::Resource;
use crate::store::{Store, WriteError, WriteOutcome};
use schedlab_api::{Value, conditions, json, object};

pub(super) fn bind_pod(
    store: &mut Store,
    request: &mut WriteRequest,
    mut binding: Value,
) -> Result<WriteOutcome, WriteError> {
    typed::decode_subresource(BodyKind::Binding, &mut binding)?;
    check_binding_target(request, &binding)?;
    let binding = webhooks::complete_body(request, binding, "v1", "Binding");
    let point = AdmissionPoint::create().with_body_kind("v1", "Binding");
    let binding = &webhooks::call_all_webhooks(store, request, point, binding)?;
    let pod = store.get(&request.key)?;
    let uid = Some(object::uid(binding)).filter(|uid| !uid.is_empty());
    let revision = Some(object::resource_version(binding)).filter(|revision| !revision.is_empty());
    check_preconditions(request, &pod, &WritePreconditions { uid, revision, is_update: false })?;
    check_pod_is_bindable(&pod).map_err(|why| {
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
    set_scheduled_condition(&mut bound, request);
    Ok(request.commit(store, bound, false))
}

fn check_binding_target(request: &WriteRequest, binding: &Value) -> Result<(), ApiError> {
    if !request.kind.is("", "Pod") {
        return Err(ApiError::no_such_resource());
    }
    let name = object::name(binding);
    if *name != *request.key.name {
        return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
    }
    let kind = object::text(binding, &["target", "kind"]);
    if !matches!(kind, "" | "Node") {
        return Err(ApiError::without_reason(format!(
            "target.kind: Unsupported value: \"{kind}\": supported values: \"Node\", \"<empty>\""
        )));
    }
    if object::text(binding, &["target", "name"]).is_empty() {
        return Err(ApiError::without_reason("target.name: Required value"));
    }
    Ok(())
}

fn check_pod_is_bindable(pod: &Value) -> Result<(), String> {
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

fn set_scheduled_condition(pod: &mut Value, request: &WriteRequest) {
    let condition = json!({
        "type": conditions::POD_SCHEDULED,
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": request.timestamp(),
    });
    let mut conditions = object::list(pod, &["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|condition| condition["type"] == conditions::POD_SCHEDULED) {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
    object::set(pod, &["status", "conditions"], conditions.into());
}
