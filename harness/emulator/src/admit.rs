//! What stands between a decoded object and the store: defaults, what the server adds by itself,
//! and what it refuses. One file a concern; each answers in the real server's words.

mod custom;
mod metadata;
mod namespace;

use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::kinds::schema::Schema;
use crate::store::{Key, Store, Subresource};

/// Where a decision about a new state of an object is made.
pub(crate) struct Admission<'s> {
    pub(crate) store: &'s Store,
    pub(crate) kind: &'s Kind,
    pub(crate) key: &'s Key,
    /// Of a custom resource, in the version it was sent in.
    pub(crate) schema: Option<&'s Schema>,
}

/// Defaults, completes and checks a new object.
pub(crate) fn on_create(admission: &Admission<'_>, object: &mut Value) -> Result<(), ApiError> {
    namespace::check(admission)?;
    namespace::complete(admission, object);
    metadata::check(admission, object)?;
    custom::check(admission, None, object)
}

/// Defaults, completes and checks a new state of an object that is there.
pub(crate) fn on_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    let _ = subresource;
    metadata::check(admission, new)?;
    custom::check(admission, Some(old), new)
}
