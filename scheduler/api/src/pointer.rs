//! Fields of raw API objects by JSON pointer, for example `/metadata/labels/kai.scheduler~1queue`.
//! Like [`Value::pointer`] without its allocations, because this runs at every write.

use super::Value;

/// The value at a JSON Pointer. A number in the path is the position in a list.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let (mut value, mut rest) = (object, path.strip_prefix('/')?);
    loop {
        // Keys are short: a byte-by-byte search is the fastest.
        let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (key, more) = rest.split_at(end);
        // No key contains a literal `~`, so the unescaped lookup can come first.
        value = match value {
            Value::Object(fields) => fields.get(key).or_else(|| look_up_escaped_key(value, key))?,
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        match more.strip_prefix('/') {
            Some(more) => rest = more,
            None => return Some(value),
        }
    }
}

/// The value of a key that contains `/`, which a JSON Pointer writes as `~1`.
fn look_up_escaped_key<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    if !key.as_bytes().contains(&b'~') {
        return None;
    }
    let is_it = |name: &str| name.len() < key.len() && name.split('/').eq(key.split("~1"));
    value.as_object()?.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value)
}

/// The string at a JSON Pointer.
pub fn text<'a>(object: &'a Value, path: &str) -> Option<&'a str> {
    at(object, path)?.as_str()
}

/// The list at a JSON Pointer; empty if there is none.
pub fn list<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use crate::json;

    use super::*;

    #[test]
    fn paths_lead_to_fields_or_to_nothing() {
        let object = json!({"a": {"b/c": "x", "d": [1], "b/c/d": "y", "bc": "z"}});
        assert_eq!(text(&object, "/a/b~1c"), Some("x"));
        assert_eq!(list(&object, "/a/d"), [json!(1)]);
        assert_eq!(at(&object, "/a/d/0"), Some(&json!(1)));
        assert_eq!(at(&object, "/a/d/1"), None);
        assert_eq!(text(&object, "/a/b~1c~1d"), Some("y"));
        assert_eq!(at(&object, "/a/b~1d"), None);
        assert_eq!(at(&object, "/a/e/f"), None);
    }
}
