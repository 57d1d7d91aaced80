//! `metadata.managedFields`: the owners of fields, updated by every write.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

use super::diff::diff_states;
use super::fields::{FieldSet, add_all_paths, remove_all_paths};
use super::shape::MergeShape;
use schedlab_api::{Value, json};

/// The API's timestamp format: whole seconds.
const SECONDS: DateTimePrinter = DateTimePrinter::new().precision(Some(0));

/// The author of a write, as `managedFields` records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteAuthor<'w> {
    /// The field manager of the write.
    pub manager: &'w str,
    /// The `apiVersion` of the written object.
    pub api_version: &'w str,
    /// The subresource that the author writes to; empty for the object itself.
    pub subresource: &'w str,
    /// The time of the write.
    pub now: Timestamp,
}

/// How a manager acquired its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagedFieldsEntry {
    pub(super) operation: Operation,
    pub(super) time: String,
    pub(super) manager: String,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) fields: FieldSet,
}

impl ManagedFieldsEntry {
    pub(super) fn new(author: &WriteAuthor<'_>, operation: Operation) -> Self {
        Self {
            operation,
            time: SECONDS.timestamp_to_string(&author.now),
            manager: author.manager.to_owned(),
            api_version: author.api_version.to_owned(),
            subresource: author.subresource.to_owned(),
            fields: FieldSet::new(),
        }
    }

    /// Whether a write of `author` updates this entry instead of adding a new one. Apply entries
    /// are continued across API versions, update entries are not.
    pub(super) fn is_continued_by(&self, author: &WriteAuthor<'_>, operation: Operation) -> bool {
        self.operation == operation
            && self.manager == author.manager
            && self.subresource == author.subresource
            && (operation == Operation::Apply || self.api_version == author.api_version)
    }

    fn from_value(value: &mut Value) -> Option<Self> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let operation = match value["operation"].as_str()? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        Some(Self {
            operation,
            time: text("time"),
            manager: text("manager"),
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            fields: value
                .get_mut("fieldsV1")
                .and_then(Value::as_object_mut)
                .map(std::mem::take)
                .unwrap_or_default(),
        })
    }

    fn into_value(self) -> Value {
        let mut entry = json!({
            "manager": self.manager,
            "operation": self.operation.text(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
        });
        entry["fieldsV1"] = Value::Object(self.fields);
        if !self.time.is_empty() {
            entry["time"] = self.time.into();
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.into();
        }
        entry
    }
}

/// Records an update or a create (`before` is `None`) in `managedFields`: the author becomes the
/// only owner of the changed fields. As in the API, a single empty entry in `after` clears all
/// entries.
pub(crate) fn record_update(
    before: Option<&Value>,
    after: &mut Value,
    shape: &MergeShape,
    author: &WriteAuthor<'_>,
) {
    let sent = take_managed_fields(after);
    if sent.as_array().is_some_and(|sent| matches!(&sent[..], [only] if *only == json!({}))) {
        return;
    }
    let sent_some = sent.as_array().is_some_and(|sent| !sent.is_empty());
    let mut raw = match before {
        Some(before) if !sent_some => before["metadata"]["managedFields"].clone(),
        Some(_) | None => sent,
    };
    let difference = diff_states(before, after, shape);
    if difference.is_empty() {
        restore_managed_fields(after, raw);
        return;
    }
    let mut entries = take_entries(&mut raw);
    let mut mine = ManagedFieldsEntry::new(author, Operation::Update);
    for entry in &mut entries {
        if entry.is_continued_by(author, Operation::Update) {
            mine.fields = std::mem::take(&mut entry.fields);
        } else {
            remove_all_paths(&mut entry.fields, &difference.changed);
            remove_all_paths(&mut entry.fields, &difference.removed);
        }
    }
    add_all_paths(&mut mine.fields, &difference.changed);
    remove_all_paths(&mut mine.fields, &difference.removed);
    entries.push(mine);
    write_entries(after, entries);
}

fn take_managed_fields(object: &mut Value) -> Value {
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.remove("managedFields"))
        .unwrap_or(Value::Null)
}

fn restore_managed_fields(object: &mut Value, raw: Value) {
    if raw.as_array().is_some_and(|entries| !entries.is_empty()) {
        object["metadata"]["managedFields"] = raw;
    }
}

/// Takes the entries out of a `managedFields` list.
pub(super) fn take_entries(raw: &mut Value) -> Vec<ManagedFieldsEntry> {
    let entries = raw.as_array_mut().map(std::mem::take).unwrap_or_default();
    entries.into_iter().filter_map(|mut entry| ManagedFieldsEntry::from_value(&mut entry)).collect()
}

/// Writes the entries that own any field to `managedFields`, in the API's order.
pub(super) fn write_entries(object: &mut Value, mut entries: Vec<ManagedFieldsEntry>) {
    entries.retain(|entry| !entry.fields.is_empty());
    entries.sort_by(|one, other| entry_order_key(one).cmp(&entry_order_key(other)));
    let entries: Vec<Value> = entries.into_iter().map(ManagedFieldsEntry::into_value).collect();
    take_managed_fields(object);
    restore_managed_fields(object, Value::Array(entries));
}

fn entry_order_key(entry: &ManagedFieldsEntry) -> (Operation, &str, &str, &str, &str) {
    (entry.operation, &entry.time, &entry.manager, &entry.api_version, &entry.subresource)
}
