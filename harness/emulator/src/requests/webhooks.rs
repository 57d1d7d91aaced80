//! Admission webhooks of a write. Verdicts of earlier attempts are reused; missing ones end the
//! attempt with the pending calls, without a change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::request::WriteRequest;
use crate::admission::webhooks::{self, AdmissionAttributes};
use crate::api_types::error::ApiError;
use crate::api_types::resource::Resource;
use crate::requests::patch_types;
use crate::store::{CompletedCall, PendingCall, Store, Webhook, WebhookVerdict, WriteError};
use schedlab_api::{Value, json, object};

/// The operation of a request that webhooks review, and the object before it.
#[derive(Clone, Copy)]
pub(super) struct AdmissionPoint<'p> {
    /// The operation: `CREATE`, `UPDATE` or `DELETE`.
    operation: &'static str,
    /// The stored object before the operation; `None` for a creation.
    old: Option<&'p Value>,
    /// API version and kind of the body, if it is not the object itself.
    body_kind: Option<(&'static str, &'static str)>,
    /// Fields of `metadata` that the server set and mutating webhooks do not see.
    hidden_fields: &'p [&'static str],
}

/// Prepares an object again after a webhook changed it. The arguments are the object before and
/// after the change.
type Reprepare<'t> =
    &'t dyn Fn(&Store, &mut WriteRequest, &Value, Value) -> Result<Value, ApiError>;

impl<'p> AdmissionPoint<'p> {
    /// Creates the admission point of a creation.
    pub(super) fn create() -> Self {
        Self { operation: "CREATE", old: None, body_kind: None, hidden_fields: &SERVER_FIELDS }
    }

    /// Creates the admission point of an update.
    pub(super) fn update(old: &'p Value) -> Self {
        Self { operation: "UPDATE", old: Some(old), body_kind: None, hidden_fields: &[] }
    }

    /// Creates the admission point of a deletion.
    pub(super) fn delete(old: &'p Value) -> Self {
        Self { operation: "DELETE", old: Some(old), body_kind: None, hidden_fields: &[] }
    }

    /// Hides these fields of `metadata` from mutating webhooks.
    pub(super) fn hiding(self, hidden_fields: &'p [&'static str]) -> Self {
        Self { hidden_fields, ..self }
    }

    /// Sets the API version and kind of a body that is not the object itself.
    pub(super) fn with_body_kind(self, version: &'static str, kind: &'static str) -> Self {
        Self { body_kind: Some((version, kind)), ..self }
    }
}

/// Whether the write may have to call webhooks.
pub(super) fn may_call_webhooks(store: &Store, request: &WriteRequest) -> bool {
    request.webhook_context.is_some()
        && webhooks::has_webhooks(store)
        && !webhooks::is_exempt(&request.kind)
}

/// The body of a subresource, completed with the kind, name and namespace from the path.
pub(super) fn complete_body(
    request: &WriteRequest,
    mut body: Value,
    version: &str,
    kind: &str,
) -> Value {
    object::set_default(&mut body, &["apiVersion"], version);
    object::set_default(&mut body, &["kind"], kind);
    object::set_default(&mut body, &["metadata", "name"], &*request.key.name);
    object::set_default(&mut body, &["metadata", "namespace"], &*request.key.namespace);
    body
}

/// Calls the mutating and then the validating webhooks, for operations in which the server changes
/// nothing in between.
pub(super) fn call_all_webhooks(
    store: &mut Store,
    request: &mut WriteRequest,
    point: AdmissionPoint<'_>,
    object: Value,
) -> Result<Value, WriteError> {
    let object = call_mutating_webhooks_only(store, request, point, object)?;
    call_validating_webhooks(store, request, point, &object)?;
    Ok(object)
}

/// Calls the mutating webhooks, for operations in which the server adds nothing to the webhooks'
/// changes.
pub(super) fn call_mutating_webhooks_only(
    store: &mut Store,
    request: &mut WriteRequest,
    point: AdmissionPoint<'_>,
    object: Value,
) -> Result<Value, WriteError> {
    call_mutating_webhooks(store, request, point, object, &|_, _, _, patched| Ok(patched))
}

/// Calls the mutating webhooks one after the other. A webhook with `reinvocationPolicy: IfNeeded`
/// is called once more if a later one changed the object.
pub(super) fn call_mutating_webhooks(
    store: &mut Store,
    request: &mut WriteRequest,
    point: AdmissionPoint<'_>,
    mut object: Value,
    reprepare: Reprepare<'_>,
) -> Result<Value, WriteError> {
    if !may_call_webhooks(store, request) {
        return Ok(object);
    }
    let webhooks = webhooks::configured_webhooks(store, true);
    let mut due: BTreeSet<usize> = (0..webhooks.len()).collect();
    let mut passed = BTreeSet::new();
    for _ in 0..2 {
        let round = std::mem::take(&mut due);
        let mut is_changed = false;
        for index in round {
            let webhook = &webhooks[index];
            let shown = point.shown_to_webhook(request, &object);
            let Some(review) = review_request(store, request, point, &shown, webhook)? else {
                continue;
            };
            if let Some(patched) = patched_by_webhook(store, request, webhook, &review)? {
                object = reprepare(store, request, &object, patched)?;
                is_changed = true;
                due.append(&mut passed);
            }
            if webhook.spec["reinvocationPolicy"] == "IfNeeded" {
                passed.insert(index);
            }
        }
        if !is_changed {
            break;
        }
    }
    Ok(object)
}

/// Calls all validating webhooks in parallel; the first denial decides.
pub(super) fn call_validating_webhooks(
    store: &mut Store,
    request: &WriteRequest,
    point: AdmissionPoint<'_>,
    object: &Value,
) -> Result<(), WriteError> {
    if !may_call_webhooks(store, request) {
        return Ok(());
    }
    if let Some(attributes) = admission_attributes(request, point, object, false) {
        attributes.check_policies(store)?;
    }
    let mut calls = Vec::new();
    for webhook in webhooks::configured_webhooks(store, false) {
        if let Some(review) = review_request(store, request, point, object, &webhook)? {
            calls.push((webhook, review));
        }
    }
    let verdicts = webhook_verdicts(store, request, &calls)?;
    for ((webhook, _), verdict) in calls.iter().zip(verdicts) {
        patch_of_verdict(webhook, verdict)?;
    }
    Ok(())
}

impl AdmissionPoint<'_> {
    /// The object as mutating webhooks see it: without the fields that the server sets.
    fn shown_to_webhook(self, request: &WriteRequest, object: &Value) -> Value {
        let mut shown = object.clone();
        if self.body_kind.is_some() {
            return shown;
        }
        for field in self.hidden_fields {
            object::remove(&mut shown, &["metadata", field]);
        }
        if self.operation != "CREATE" {
            return shown;
        }
        if ["Pod", "Namespace"].iter().any(|kind| request.kind.is("", kind)) {
            object::set(&mut shown, &["status"], json!({}));
        }
        if !request.first_attempt.name.is_empty() {
            object::remove(&mut shown, &["metadata", "name"]);
        }
        shown
    }
}

/// Metadata of a new object that only the server sets.
const SERVER_FIELDS: [&str; 3] = ["uid", "creationTimestamp", "generation"];

/// Metadata that an update may omit.
const OPTIONAL_ON_UPDATE: [&str; 4] = ["uid", "creationTimestamp", "generation", "resourceVersion"];

/// The names of the metadata fields that the update `new` omits.
pub(super) fn omitted_metadata(new: &Value) -> Vec<&'static str> {
    let is_omitted = |field: &&str| object::at(new, &["metadata", field]).is_none();
    OPTIONAL_ON_UPDATE.into_iter().filter(is_omitted).collect()
}

/// Restores the fields that only the server sets, after a webhook changed a new object.
pub(super) fn restore_server_fields(before: &Value, patched: &mut Value) {
    for field in SERVER_FIELDS.into_iter().chain(["name", "namespace"]) {
        match object::at(before, &["metadata", field]) {
            Some(value) => object::set(patched, &["metadata", field], value.clone()),
            None => drop(object::remove(patched, &["metadata", field])),
        }
    }
}

/// The review request for a webhook; `None` if the webhook does not match.
fn review_request(
    store: &Store,
    request: &WriteRequest,
    point: AdmissionPoint<'_>,
    object: &Value,
    webhook: &Webhook,
) -> Result<Option<Value>, ApiError> {
    let is_new = point.operation == "CREATE" && point.body_kind.is_none();
    let is_nameless = is_new && webhook.is_mutating && !request.first_attempt.name.is_empty();
    match admission_attributes(request, point, object, is_nameless) {
        Some(attributes) => attributes.review_request_for(store, webhook),
        None => Ok(None),
    }
}

/// The attributes of a request for webhooks and policies; `None` for a write in this process.
fn admission_attributes<'r>(
    request: &'r WriteRequest,
    point: AdmissionPoint<'r>,
    object: &'r Value,
    is_nameless: bool,
) -> Option<AdmissionAttributes<'r>> {
    let context = request.webhook_context.as_deref()?;
    let is_nameless = is_nameless || context.is_collection;
    let name = if is_nameless { "" } else { &*request.key.name };
    Some(AdmissionAttributes {
        kind: &request.requested_kind,
        context,
        operation: point.operation,
        namespace: &request.key.namespace,
        name,
        body_kind: point.body_kind,
        object: Some(object).filter(|object| !object.is_null()),
        old: point.old,
        dry_run: request.dry_run,
    })
}

/// The object as changed by a mutating webhook; `None` if the webhook changes nothing.
fn patched_by_webhook(
    store: &mut Store,
    request: &WriteRequest,
    webhook: &Arc<Webhook>,
    review: &Value,
) -> Result<Option<Value>, WriteError> {
    let call = (Arc::clone(webhook), review.clone());
    let verdict = webhook_verdicts(store, request, &[call])?.pop();
    let Some(operations) =
        verdict.map_or(Ok(None), |verdict| patch_of_verdict(webhook, verdict))?
    else {
        return Ok(None);
    };
    let internal = |why: String| WriteError::Refused(ApiError::internal(why));
    let operations = operations.as_array().map_or(&[][..], Vec::as_slice);
    if operations.is_empty() {
        return Ok(None);
    }
    let shown = &review["object"];
    if shown.is_null() {
        return Err(internal(format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for \
             this operation",
            webhook.name
        )));
    }
    let patched = apply_operations(shown, operations).map_err(internal)?;
    if patched == *shown {
        return Ok(None);
    }
    let of = |field: &str| object::text(review, &["resource", field]);
    let kind = store.kinds().get(&Resource::new(of("group"), of("resource")));
    let is_object = review["kind"]["kind"] == *request.requested_kind.kind;
    Ok(Some(match kind.filter(|_| is_object) {
        Some(kind) => kind.to_stored(patched),
        None => patched,
    }))
}

/// Applies the operations of a JSON Patch; the error describes the operation that fails.
fn apply_operations(object: &Value, operations: &[Value]) -> Result<Value, String> {
    let mut patched = object.clone();
    for operation in operations {
        let next = patch_types::apply_json_patch(&patched, &json!([operation]));
        patched = next.map_err(|_| patch_operation_error(&patched, operation))?;
    }
    Ok(patched)
}

/// The error text of kube-apiserver's JSON Patch library for an operation that fails.
fn patch_operation_error(object: &Value, operation: &Value) -> String {
    let of = |field: &str| object::text(operation, &[field]);
    let (verb, path) = (of("op"), of("path"));
    let (parent, last) = path.rsplit_once('/').unwrap_or_default();
    match (verb, object.pointer(parent)) {
        ("test", _) => format!("testing value {path} failed: test failed"),
        ("remove", Some(Value::Object(_))) => format!(
            "remove operation does not apply: unable to remove nonexistent key: {last}: missing \
             value"
        ),
        _ => {
            format!("{verb} operation does not apply: doc is missing path: {path:?}: missing value")
        }
    }
}

/// The verdicts of webhook calls; an error with the pending calls if verdicts are missing.
fn webhook_verdicts(
    store: &mut Store,
    request: &WriteRequest,
    calls: &[(Arc<Webhook>, Value)],
) -> Result<Vec<WebhookVerdict>, WriteError> {
    let completed = request.webhook_context.iter().flat_map(|context| &context.completed_calls);
    let verdict_of = |(webhook, review): &(Arc<Webhook>, Value)| {
        let mut completed = completed.clone();
        let is_same = |call: &&CompletedCall| call.webhook == *webhook && call.request == *review;
        completed.find(is_same).map(|call| call.verdict.clone())
    };
    let verdicts: Vec<Option<WebhookVerdict>> = calls.iter().map(verdict_of).collect();
    if verdicts.iter().all(Option::is_some) {
        return Ok(verdicts.into_iter().flatten().collect());
    }
    let missing = calls.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none());
    let missing = missing.map(|((webhook, review), _)| PendingCall {
        uid: store.ids.uid(),
        webhook: Arc::clone(webhook),
        request: review.clone(),
    });
    let missing = missing.collect();
    Err(WriteError::NeedsWebhooks(missing, request.first_attempt.clone()))
}

/// The patch in the verdict of a webhook that allows the request; an error if the webhook denies it
/// or its call failed.
fn patch_of_verdict(webhook: &Webhook, verdict: WebhookVerdict) -> Result<Option<Value>, ApiError> {
    match verdict {
        WebhookVerdict::Allowed(patch) => Ok(patch),
        WebhookVerdict::Denied(status) => Err(webhooks::denial_error(&webhook.name, &status)),
        WebhookVerdict::Failed(_) if webhook.spec["failurePolicy"] == "Ignore" => Ok(None),
        WebhookVerdict::Failed(why) => Err(webhooks::failed_call_error(&webhook.name, &why)),
    }
}
