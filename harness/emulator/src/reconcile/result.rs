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

/// A write request of a controller to the API.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The object to write.
    pub key: Key,
    /// The operation and its body.
    pub op: Op,
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default)]
pub struct ReconcileResult {
    /// The write requests, in order. If one is refused, the rest is skipped.
    pub writes: Vec<ApiRequest>,
    /// The time at which to reconcile again even without a change.
    pub requeue_at: Option<Timestamp>,
}

impl ReconcileResult {
    /// The result without writes and without a requeue.
    pub fn nothing_to_do() -> Self {
        Self::default()
    }

    /// The result without writes and with a requeue at `time`.
    pub fn requeue_at(time: Timestamp) -> Self {
        Self { writes: Vec::new(), requeue_at: Some(time) }
    }

    /// The result with these writes and without a requeue.
    pub fn from_writes(writes: impl IntoIterator<Item = ApiRequest>) -> Self {
        Self { writes: writes.into_iter().collect(), requeue_at: None }
    }

    /// Requeues at `time`, or at the current requeue time if that is earlier.
    #[must_use]
    pub fn requeue_by(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.requeue_at = [self.requeue_at, time.into()].into_iter().flatten().min();
        self
    }
}

impl ApiRequest {
    /// The request that creates an object.
    pub fn create(resource: &Resource, object: Value) -> Self {
        Self { key: key_of(resource, &object), op: Op::Create(object) }
    }

    /// The request that updates an object. It conflicts if the object was written since it was
    /// read.
    pub fn update(key: &Key, object: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::None, object) }
    }

    /// The request that updates an object's status. It conflicts if the object was written since it
    /// was read. `None` if the status did not change.
    pub fn status_update(key: &Key, before: &Value, after: Value) -> Option<Self> {
        (before.get("status") != after.get("status")).then(|| Self::full_status_update(key, after))
    }

    /// The request that updates an object's status and the metadata that a status update may
    /// change, even if the status is unchanged.
    pub fn full_status_update(key: &Key, after: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::Status, after) }
    }

    /// The request that deletes the object with this uid. Dependents are deleted in the background.
    pub fn delete(key: &Key, object: &Value) -> Self {
        Self::delete_with_options(key, object, |_| ())
    }

    /// The request that deletes the object with this uid without a grace period.
    pub fn delete_now(key: &Key, object: &Value) -> Self {
        Self::delete_with_options(key, object, |options| options.grace_secs = Some(0))
    }

    /// The request that deletes the object with this uid after its dependents.
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

    /// The request that removes a finalizer of an object.
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
    /// The component that reports the event (`source.component`).
    pub component: &'a str,
    /// The type of the event: `Normal` or `Warning`.
    pub kind: &'a str,
    /// The `reason` of the event.
    pub reason: &'a str,
    /// The `message` of the event.
    pub message: String,
}

impl EventSpec<'_> {
    /// The request that records the event, or increments its count if it was recorded before.
    pub(crate) fn record(self, object: &Value, ctx: &Context) -> ApiRequest {
        let gist = self.message.clone();
        self.record_as(&gist, object, ctx)
    }

    /// Like [`Self::record`], but `identity` instead of the message decides whether the event was
    /// recorded before.
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

    /// The request that records the event, or `None` if it was recorded before: for a state that
    /// every reconciliation finds again.
    pub(crate) fn record_once(self, object: &Value, ctx: &Context) -> Option<ApiRequest> {
        let is_recorded = ctx.cache.get(&self.event_key(&self.message, object)).is_some();
        (!is_recorded).then(|| self.record(object, ctx))
    }

    /// The key of the event. The name is derived from the object's uid, the reason and `identity`.
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
