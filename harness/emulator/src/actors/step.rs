//! What a step answers: requests to the API, and when to look again.

use std::sync::Arc;

use jiff::Timestamp;

use super::fields::stamp;
use super::kinds::EVENTS;
use super::{Context, key_of};
use crate::object::{name, namespace, number, remove, set, text, uid};
use crate::store::{DeleteOptions, Key, Op, Preconditions, Propagation, Resource, Subresource};
use schedlab_json::{Value, json};

/// One request to the API.
#[derive(Clone, Debug)]
pub struct Request {
    /// To which object.
    pub key: Key,
    /// What to do.
    pub op: Op,
}

/// The outcome of a look at an object.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Requests, in order. The first that is refused ends the step.
    pub writes: Vec<Request>,
    /// When to look again even though nothing changes.
    pub again: Option<Timestamp>,
}

impl Step {
    /// Nothing to do until something changes.
    pub fn rest() -> Self {
        Self::default()
    }

    /// Nothing to do before a moment.
    pub fn at(time: Timestamp) -> Self {
        Self { writes: Vec::new(), again: Some(time) }
    }

    /// Does something.
    pub fn of(writes: impl IntoIterator<Item = Request>) -> Self {
        Self { writes: writes.into_iter().collect(), again: None }
    }

    /// Looks again at the earlier of this moment and what was said before.
    #[must_use]
    pub fn by(mut self, time: impl Into<Option<Timestamp>>) -> Self {
        self.again = [self.again, time.into()].into_iter().flatten().min();
        self
    }
}

impl Request {
    /// Makes an object.
    pub fn create(resource: &Resource, object: Value) -> Self {
        Self { key: key_of(resource, &object), op: Op::Create(object) }
    }

    /// Replaces an object, unless somebody wrote it since it was read.
    pub fn update(key: &Key, object: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::None, object) }
    }

    /// Replaces an object's status, unless somebody wrote it since it was read. `None` when it
    /// says what it said.
    pub fn status(key: &Key, before: &Value, after: Value) -> Option<Self> {
        (before.get("status") != after.get("status")).then(|| Self::with_status(key, after))
    }

    /// Writes the status and what goes with it, whatever it was.
    pub fn with_status(key: &Key, after: Value) -> Self {
        Self { key: key.clone(), op: Op::Update(Subresource::Status, after) }
    }

    /// Deletes the very object that was seen, its dependents later.
    pub fn delete(key: &Key, object: &Value) -> Self {
        Self::delete_with(key, object, |_| ())
    }

    /// Deletes the very object that was seen and waits for nothing: a pod's containers have
    /// ended.
    pub fn delete_now(key: &Key, object: &Value) -> Self {
        Self::delete_with(key, object, |options| options.grace_secs = Some(0))
    }

    /// Deletes the very object that was seen, after its dependents.
    pub fn delete_foreground(key: &Key, object: &Value) -> Self {
        Self::delete_with(key, object, |options| {
            options.propagation = Some(Propagation::Foreground);
        })
    }

    fn delete_with(key: &Key, object: &Value, change: impl FnOnce(&mut DeleteOptions)) -> Self {
        let uid = Some(uid(object).to_owned());
        let mut options = DeleteOptions {
            grace_secs: None,
            propagation: Some(Propagation::Background),
            preconditions: Preconditions { uid, resource_version: None },
        };
        change(&mut options);
        Self { key: key.clone(), op: Op::Delete(options) }
    }

    /// Takes a finalizer off an object.
    pub fn drop_finalizer(key: &Key, object: &Value, finalizer: &str) -> Self {
        let left: Vec<Value> = crate::object::finalizers(object)
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

/// An event about an object, for people.
pub(super) struct Notice<'a> {
    /// `source.component`.
    pub component: &'a str,
    /// `type`: `Normal` or `Warning`.
    pub kind: &'a str,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: String,
}

impl Notice<'_> {
    /// The event of something that has just happened. Where this very thing was said of the object
    /// before, that event counts once more.
    pub(super) fn about(self, object: &Value, ctx: &Context) -> Request {
        let gist = self.message.clone();
        self.about_as(&gist, object, ctx)
    }

    /// The same, where the gist of it was said before.
    pub(super) fn about_as(self, gist: &str, object: &Value, ctx: &Context) -> Request {
        let key = self.place(gist, object);
        let now = stamp(ctx.now);
        let Some(said) = ctx.view.get(&key) else {
            let event = self.event(&key, object, &now);
            return Request { key, op: Op::Create(event) };
        };
        let mut again = Value::clone(said);
        let count = number(said, &["count"]).unwrap_or(1).saturating_add(1);
        set(&mut again, &["count"], json!(count));
        set(&mut again, &["lastTimestamp"], json!(now));
        set(&mut again, &["message"], json!(self.message));
        Request::update(&key, again)
    }

    /// The event of something that every look finds anew: it is said of the object once.
    pub(super) fn once(self, object: &Value, ctx: &Context) -> Option<Request> {
        let is_said = ctx.view.get(&self.place(&self.message, object)).is_some();
        (!is_said).then(|| self.about(object, ctx))
    }

    /// Where the event is: it has a name made from what it says.
    fn place(&self, gist: &str, object: &Value) -> Key {
        let said = format!("{}/{}/{gist}", uid(object), self.reason);
        let event_name = format!("{}.{:016x}", name(object), fingerprint(&said));
        let ns = match namespace(object) {
            "" => "default",
            ns => ns,
        };
        Key { resource: EVENTS.clone(), namespace: ns.into(), name: Arc::from(event_name) }
    }

    fn event(&self, key: &Key, object: &Value, now: &str) -> Value {
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

/// A stable number for a text (FNV-1a): names made from it are the same in every run.
pub(super) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
