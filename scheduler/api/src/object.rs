//! Access to fields of Kubernetes objects as plain JSON, for any kind.

use super::{Map, Value};

/// The value of a field; `None` if `value` is no map or lacks the field.
pub fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.as_object()?.get(name)
}

/// The value at `path`.
pub fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| field(value, name))
}

/// The string at `path`; empty if there is none.
pub fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at `path`.
pub fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The list at `path`; empty if there is none.
pub fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The map at `path`.
pub fn map<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Map> {
    at(value, path).and_then(Value::as_object)
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `metadata.namespace`; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// `metadata.resourceVersion`.
pub fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

/// The value of a label.
pub fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// The value of an annotation.
pub fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// Whether the selected metadata fields of two states are equal. One pass over both maps is faster
/// than a lookup of each field.
pub fn metadata_fields_equal(
    before: &Value,
    after: &Value,
    is_asked: impl Fn(&str) -> bool,
) -> bool {
    let fields = |object| {
        let all = map(object, &["metadata"]).into_iter().flatten();
        all.filter(|(field, _)| is_asked(field))
    };
    fields(before).eq(fields(after))
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

/// The status of the condition of type `kind`: `True`, `False` or `Unknown`; `None` if the object
/// has no such condition.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v str> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]) == kind)
        .map(|condition| text(condition, &["status"]))
}

/// The name of the JSON type in errors of Go's decoder.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Sets the value at `path`. Creates missing maps on the way, and replaces values that are no maps.
pub fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((last, parents)) = path.split_last() else {
        *value = new;
        return;
    };
    let mut parent = value;
    for field in parents {
        parent = as_map(parent).entry(*field).or_insert_with(|| Value::Object(Map::new()));
    }
    as_map(parent).insert(*last, new);
}

/// Sets the value at `path` if it is absent or null.
pub fn set_default(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if at(value, path).is_none_or(Value::is_null) {
        set(value, path, new.into());
    }
}

/// Like [`set_default`], for a field that is a plain string in Go: an empty string counts as
/// absent.
pub fn fill_text(value: &mut Value, path: &[&str], text: &str) {
    if at(value, path).is_some_and(|found| found == "") {
        set(value, path, text.into());
    }
    set_default(value, path, text);
}

/// Like [`set_default`], for a field that is a plain integer in Go: 0 counts as absent.
pub fn fill_count(value: &mut Value, field: &str, count: i64) {
    if value[field] == 0 {
        remove(value, &[field]);
    }
    set_default(value, &[field], count);
}

/// Removes the value at `path` and returns it.
pub fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut parent = value;
    for field in parents {
        parent = parent.get_mut(field)?;
    }
    parent.as_object_mut()?.remove(last)
}

/// `value` as a map; any other value is replaced by an empty map.
pub fn as_map(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("any other value was replaced by a map above")
}
