//! The result of a reconciliation: requests to the API, events, and a requeue time.

use std::sync::Arc;

use jiff::Timestamp;

use super::fields::format_time;
use super::resources::EVENTS;
use crate::reconcile::{Context, key_of};
use crate::store::{DeleteOptions, Key, Op, Preconditions, Propagation, Resource, Subresource};
use schedlab_api::{
    Value, json,
    object::{name, namespace, number, remove, set, text, uid},
};

/// A request to the API.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The object to write.
    pub key: Key,
    /// The operation.
    pub op: Op,
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default)]
pub struct ReconcileResult {
    /// Requests, in order. The first refused one skips the rest.
    pub writes: Vec<ApiRequest>,
    /// When to reconcile again without a change.
    pub requeue_at: Option<Timestamp>,
}

impl ReconcileResult {
    /// No writes, and no requeue.
    pub fn nothing_to_do() -> Self {
        Self::default()
    }

    /// No writes, and a requeue at a time.
    pub fn requeue_at(time: Timestamp) -> Self {
        Self { writes: Vec::new(), requeue_at: Some(time) }
    }

    /// Writes, without a requeue.
    pub fn from_writes(writes: impl IntoIterator<Item = ApiRequest>) -> Self {
        Self { writes: writes.into_iter().collect(), requeue_at: None }
    }

    /// Requeues at the earlier of this time and the current requeue time.
    #[must_use]
    pub fn requeue_by(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.requeue_at = [self.requeue_at, time.into()].into_iter().flatten().min();
        self
    }
}

impl ApiRequest {
    /// Creates an object.
    pub fn create(resource: &Resource, object: Value) -> Self {
        Self { key: key_of(resource, &object), op: Op::Create(object) }
    }

    /// Updates an object; conflicts if it was written since it was read.
    pub fn update(key: &Key, object: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::None, object) }
    }

    /// Updates an object's status; conflicts if it was written since it was read. `None` if the status
    /// did not change.
    pub fn status_update(key: &Key, before: &Value, after: Value) -> Option<Self> {
        (before.get("status") != after.get("status")).then(|| Self::full_status_update(key, after))
    }

    /// Updates an object's status and the metadata that goes with it, even if the status is unchanged.
    pub fn full_status_update(key: &Key, after: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::Status, after) }
    }

    /// Deletes an object by its uid; dependents are deleted in the background.
    pub fn delete(key: &Key, object: &Value) -> Self {
        Self::delete_with_options(key, object, |_| ())
    }

    /// Deletes an object by its uid without a grace period.
    pub fn delete_now(key: &Key, object: &Value) -> Self {
        Self::delete_with_options(key, object, |options| options.grace_secs = Some(0))
    }

    /// Deletes an object by its uid, after its dependents.
    pub fn delete_foreground(key: &Key, object: &Value) -> Self {
        Self::delete_with_options(key, object, |options| {
            options.propagation = Some(Propagation::Foreground);
        })
    }

    fn delete_with_options(
        key: &Key,
        object: &Value,
        change: impl FnOnce(&mut DeleteOptions),
    ) -> Self {
        let uid = Some(uid(object).to_owned());
        let mut options = DeleteOptions {
            grace_secs: None,
            propagation: Some(Propagation::Background),
            preconditions: Preconditions { uid, resource_version: None },
        };
        change(&mut options);
        Self { key: key.clone(), op: Op::Delete(options) }
    }

    /// Removes a finalizer of an object.
    pub fn remove_finalizer(key: &Key, object: &Value, finalizer: &str) -> Self {
        let left: Vec<Value> = schedlab_api::object::finalizers(object)
            .filter(|one| *one != finalizer)
            .map(Value::from)
            .collect();
        let mut object = object.clone();
        if left.is_empty() {
            remove(&mut object, &["metadata", "finalizers"]);
        } else {
            set(&mut object, &["metadata", "finalizers"], Value::Array(left));
        }
        Self::update(key, object)
    }
}

/// A Kubernetes Event about an object.
pub(crate) struct EventSpec<'a> {
    /// `source.component`.
    pub component: &'a str,
    /// `type`: `Normal` or `Warning`.
    pub kind: &'a str,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: String,
}

impl EventSpec<'_> {
    /// Records the event; increments the count if the object already has it.
    pub(crate) fn record(self, object: &Value, ctx: &Context) -> ApiRequest {
        let gist = self.message.clone();
        self.record_as(&gist, object, ctx)
    }

    /// Records the event; `identity` instead of the message decides whether it is the same.
    pub(crate) fn record_as(self, identity: &str, object: &Value, ctx: &Context) -> ApiRequest {
        let key = self.event_key(identity, object);
        let now = format_time(ctx.now);
        let Some(existing) = ctx.cache.get(&key) else {
            let event = self.new_event(&key, object, &now);
            return ApiRequest { key, op: Op::Create(event) };
        };
        let mut again = Value::clone(existing);
        let count = number(existing, &["count"]).unwrap_or(1).saturating_add(1);
        set(&mut again, &["count"], json!(count));
        set(&mut again, &["lastTimestamp"], json!(now));
        set(&mut again, &["message"], json!(self.message));
        ApiRequest::update(&key, again)
    }

    /// Records the event once, for a condition that every reconciliation finds again.
    pub(crate) fn record_once(self, object: &Value, ctx: &Context) -> Option<ApiRequest> {
        let is_recorded = ctx.cache.get(&self.event_key(&self.message, object)).is_some();
        (!is_recorded).then(|| self.record(object, ctx))
    }

    /// The key of the event. Its name is derived from its content.
    fn event_key(&self, identity: &str, object: &Value) -> Key {
        let content = format!("{}/{}/{identity}", uid(object), self.reason);
        let event_name = format!("{}.{:016x}", name(object), stable_hash(&content));
        let ns = match namespace(object) {
            "" => "default",
            ns => ns,
        };
        Key { resource: EVENTS.clone(), namespace: ns.into(), name: Arc::from(event_name) }
    }

    fn new_event(&self, key: &Key, object: &Value, now: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace},
            "involvedObject": {
                "apiVersion": text(object, &["apiVersion"]),
                "kind": text(object, &["kind"]),
                "namespace": namespace(object),
                "name": name(object),
                "uid": uid(object),
            },
            "type": self.kind,
            "reason": self.reason,
            "message": self.message,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        })
    }
}

/// A stable hash (FNV-1a), for names that are the same in every run.
pub(crate) fn stable_hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
