//! Reconstructs `managedFields` from the log at the first apply of an object. Before that the store
//! does not record field ownership, which saves time and memory.

use std::sync::Arc;

use super::patch::subresource_path;
use super::request::WriteRequest;
use crate::requests::patch_types::{MergeShape, WriteAuthor, record_update};
use crate::store::{Key, LogEntry, Object, Store};
use schedlab_api::{Value, object};

/// The object with `managedFields`, reconstructed from the change log. If the log does not reach
/// back to the object's creation, the object is unchanged, and apply treats its fields as unowned.
pub(super) fn with_managed_fields(
    store: &Store,
    request: &WriteRequest,
    old: &Object,
    shape: &MergeShape,
) -> Object {
    if !object::list(old, &["metadata", "managedFields"]).is_empty() {
        return Arc::clone(old);
    }
    let Some(history) = log_entries_of_object(store, &request.key, old) else {
        return Arc::clone(old);
    };
    let version = request.kind.api_version(&request.kind.storage);
    let mut state: Option<Value> = None;
    for entry in history.iter().rev() {
        let mut after = Value::clone(&entry.object);
        let author = WriteAuthor {
            manager: &entry.manager,
            api_version: &version,
            subresource: subresource_path(entry.subresource),
            now: entry.time,
        };
        record_update(state.as_ref(), &mut after, shape, &author);
        state = Some(after);
    }
    state.map_or_else(|| Arc::clone(old), Arc::new)
}

/// The log entries of an object, newest first; `None` if the log does not reach back to its
/// creation. The resourceVersion of each previous state locates the entry before.
fn log_entries_of_object<'s>(
    store: &'s Store,
    key: &Key,
    object: &Value,
) -> Option<Vec<&'s Arc<LogEntry>>> {
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
