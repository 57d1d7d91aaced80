//! Who owned what before anybody applied: read off the log when it is first asked for, so that
//! nobody pays for it before.

use std::sync::Arc;

use super::patch::path_of;
use super::request::Request;
use crate::object;
use crate::patch::{Author, Shape, note_update};
use crate::store::{Key, LogEntry, Object, Store};
use schedlab_json::Value;

/// The object with the owners of its fields. Where the log no longer reaches back to its
/// creation it stays as it is, and apply takes its fields for older than any owner.
pub(super) fn with_owners(store: &Store, request: &Request, old: &Object, shape: &Shape) -> Object {
    if !object::list(old, &["metadata", "managedFields"]).is_empty() {
        return Arc::clone(old);
    }
    let Some(history) = history(store, &request.key, old) else { return Arc::clone(old) };
    let version = request.kind.api_version(&request.kind.storage);
    let mut state: Option<Value> = None;
    for entry in history.iter().rev() {
        let mut after = Value::clone(&entry.object);
        let author = Author {
            manager: &entry.manager,
            api_version: &version,
            subresource: path_of(entry.part),
            now: entry.time,
        };
        note_update(state.as_ref(), &mut after, shape, &author);
        state = Some(after);
    }
    state.map_or_else(|| Arc::clone(old), Arc::new)
}

/// What happened to an object, the last first. Each entry leads to the one before it, since an
/// object carries the revision of its last change.
fn history<'s>(store: &'s Store, key: &Key, object: &Value) -> Option<Vec<&'s Arc<LogEntry>>> {
    let mut history = Vec::new();
    let mut revision = object::resource_version(object).to_owned();
    loop {
        let before = revision.parse::<u64>().ok()?.checked_sub(1)?;
        let entry = store.log_since(before).ok()?.first().filter(|entry| entry.key == *key)?;
        history.push(entry);
        match &entry.previous {
            None => return Some(history),
            Some(previous) => object::resource_version(previous).clone_into(&mut revision),
        }
    }
}
