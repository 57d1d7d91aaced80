//! One request on its way: whose, to what, when; and its body brought into stored form.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::object;
use crate::store::{Change, FieldValidation, Key, Object, Op, Store, Write, Written};

/// A write without its body.
pub(super) struct Request {
    pub(super) kind: Arc<Kind>,
    /// Where the object is at home, whatever view it was asked for in.
    pub(super) key: Key,
    /// The kind under whose name it was asked for.
    pub(super) asked: Arc<Kind>,
    pub(super) dry_run: bool,
    pub(super) manager: Arc<str>,
    pub(super) validation: FieldValidation,
    pub(super) now: Timestamp,
    pub(super) warnings: Vec<String>,
}

impl Request {
    pub(super) fn new(store: &Store, write: Write, now: Timestamp) -> Result<(Self, Op), ApiError> {
        let Write { mut key, op, dry_run, field_manager, field_validation } = write;
        let asked =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        key.resource = asked.home();
        let kind =
            Arc::clone(store.kinds().get(&key.resource).ok_or_else(ApiError::no_such_resource)?);
        let request = Self {
            kind,
            key,
            asked,
            dry_run,
            manager: field_manager.into(),
            validation: field_validation,
            now,
            warnings: Vec::new(),
        };
        Ok((request, op))
    }

    /// The body as it would be stored: of the right kind, in the storage version.
    pub(super) fn decode(&mut self, body: Value) -> Result<Value, ApiError> {
        let kind = object::text(&body, &["kind"]);
        let version = object::text(&body, &["apiVersion"]);
        if !body.is_object() {
            return Err(ApiError::bad_request("the object provided is unrecognized: not a map"));
        }
        if !kind.is_empty() && kind != &*self.asked.kind {
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {}: converting to {} \
                 failed: no kind \"{kind}\" is registered for this resource",
                self.asked.kind, self.asked.kind
            )));
        }
        let known =
            self.asked.versions.iter().any(|known| self.asked.api_version(&known.name) == version);
        if !version.is_empty() && !known {
            let expected = self.asked.api_version(&self.asked.storage);
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version \
                 ({expected})"
            )));
        }
        Ok(self.asked.to_stored(body))
    }

    /// The time as objects show it: whole seconds.
    pub(super) fn time(&self) -> Value {
        rfc3339(self.now).into()
    }

    /// Makes the change (unless this is a dry run) and says what was done.
    pub(super) fn commit(&self, store: &mut Store, object: Value, created: bool) -> Written {
        let object = if self.dry_run {
            Arc::new(object)
        } else {
            store.commit(Change {
                key: &self.key,
                object: Some(object),
                now: self.now,
                manager: &self.manager,
            })
        };
        Written { object, created, deleted: false, warnings: Vec::new() }
    }

    /// Takes the object away (unless this is a dry run).
    pub(super) fn take_away(&self, store: &mut Store, last: &Object) -> Written {
        let object = if self.dry_run {
            Arc::clone(last)
        } else {
            store.commit(Change {
                key: &self.key,
                object: None,
                now: self.now,
                manager: &self.manager,
            })
        };
        Written { object, created: false, deleted: true, warnings: Vec::new() }
    }

    /// Nothing changed.
    pub(super) fn unchanged(old: &Object) -> Written {
        Written { object: Arc::clone(old), created: false, deleted: false, warnings: Vec::new() }
    }
}

/// A time as `metadata` has it: RFC 3339, whole seconds, UTC.
pub(super) fn rfc3339(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .expect("a whole second of a valid time is valid")
        .to_string()
}
