//! What stands between a decoded object and the store: defaults, what the server adds by itself,
//! and what it refuses. One file a concern; each answers in the real server's words.

mod metadata;
mod namespace;

use jiff::Timestamp;
use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::store::{Key, Store, Subresource};

/// Where a decision about a new state of an object is made.
pub(crate) struct Admission<'s> {
    pub(crate) store: &'s Store,
    pub(crate) kind: &'s Kind,
    pub(crate) key: &'s Key,
    pub(crate) now: Timestamp,
}

/// Defaults, completes and checks a new object.
pub(crate) fn on_create(admission: &Admission<'_>, object: &mut Value) -> Result<(), ApiError> {
    namespace::check(admission)?;
    namespace::complete(admission, object);
    metadata::check(admission, object)
}

/// Defaults, completes and checks a new state of an object that is there.
pub(crate) fn on_update(
    admission: &Admission<'_>,
    subresource: Subresource,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    let _ = (subresource, old);
    metadata::check(admission, new)
}
