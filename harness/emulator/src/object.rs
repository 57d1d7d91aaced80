//! Reading and writing the fields that every Kubernetes object has, on plain JSON. It knows no
//! kind.

use schedlab_json::{Map, Value};

/// What stands in a field of a map.
pub fn field<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    value.as_object()?.get(name)
}

/// What stands at `path`.
pub fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| field(value, name))
}

/// The text at `path`; empty where there is none.
pub fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The whole number at `path`.
pub fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The list at `path`; empty where there is none.
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

/// One label.
pub fn label<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    at(object, &["metadata", "labels", key]).and_then(Value::as_str)
}

/// One annotation.
pub fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    at(object, &["metadata", "annotations", key]).and_then(Value::as_str)
}

/// Whether its deletion has begun.
pub fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

/// Whether two states of an object have the same in these fields of their metadata. Looking
/// through both at once is quicker than looking each field up.
pub(crate) fn is_metadata_alike(
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

/// Its finalizers.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    list(object, &["metadata", "finalizers"]).iter().filter_map(Value::as_str)
}

/// The status of a condition by its type: `True`, `False`, `Unknown`; `None` when there is no
/// such condition.
pub fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v str> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]) == kind)
        .map(|condition| text(condition, &["status"]))
}

/// What Go's decoder calls a value of this type.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Sets what stands at `path`; makes the maps on the way, and replaces what is not a map.
pub fn set(value: &mut Value, path: &[&str], new: Value) {
    let Some((last, way)) = path.split_last() else {
        *value = new;
        return;
    };
    let mut place = value;
    for field in way {
        place = as_map(place).entry(*field).or_insert_with(|| Value::Object(Map::new()));
    }
    as_map(place).insert(*last, new);
}

/// Sets what stands at `path` unless something (not null) stands there.
pub fn set_default(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    if at(value, path).is_none_or(Value::is_null) {
        set(value, path, new.into());
    }
}

/// The same for a text that is no pointer in the API's own types, where an empty one is not set.
pub fn fill_text(value: &mut Value, path: &[&str], text: &str) {
    if at(value, path).is_some_and(|found| found == "") {
        set(value, path, text.into());
    }
    set_default(value, path, text);
}

/// The same for a count that is no pointer, where 0 is not set.
pub fn fill_count(value: &mut Value, field: &str, count: i64) {
    if value[field] == 0 {
        remove(value, &[field]);
    }
    set_default(value, &[field], count);
}

/// Takes away what stands at `path`.
pub fn remove(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    let mut place = value;
    for field in way {
        place = place.get_mut(field)?;
    }
    place.as_object_mut()?.remove(last)
}

/// `value` as a map; one that is not a map becomes an empty one.
pub fn as_map(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made one")
}
