//! Serializes JSON values with the same output as `serde_json`. Faster for Kubernetes objects: they
//! consist of many short strings without escapes, which are copied.

use schedlab_api::{Map, Value};
use serde::Serialize;

/// Appends a value as JSON to `bytes`.
pub(super) fn write_value(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.extend_from_slice(b"null"),
        Value::Bool(true) => bytes.extend_from_slice(b"true"),
        Value::Bool(false) => bytes.extend_from_slice(b"false"),
        Value::Number(number) => write_json(bytes, number),
        Value::String(text) => write_string(bytes, text),
        Value::Array(items) => {
            bytes.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    bytes.push(b',');
                }
                write_value(bytes, item);
            }
            bytes.push(b']');
        }
        Value::Object(map) => write_selected_fields(bytes, map, |_| true),
    }
}

/// Appends a map with only the selected fields as JSON to `bytes`.
pub(super) fn write_selected_fields(
    bytes: &mut Vec<u8>,
    map: &Map,
    is_selected: impl Fn(&str) -> bool,
) {
    bytes.push(b'{');
    let mut is_first = true;
    for (name, value) in map {
        if !is_selected(name) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            bytes.push(b',');
        }
        write_string(bytes, name);
        bytes.push(b':');
        write_value(bytes, value);
    }
    bytes.push(b'}');
}

/// Appends a serializable value as JSON to `bytes`.
pub(super) fn write_json(bytes: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(bytes, value).expect("a JSON value serializes to memory");
}

fn write_string(bytes: &mut Vec<u8>, text: &str) {
    // Without early exit the loop is vectorized.
    let is_escaped = |byte| u8::from(matches!(byte, ..b' ' | b'"' | b'\\'));
    if text.bytes().fold(0, |any, byte| any | is_escaped(byte)) == 0 {
        bytes.reserve(text.len() + 2);
        bytes.push(b'"');
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(b'"');
    } else {
        write_json(bytes, text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, *};

    use schedlab_api::Value;

    fn trees() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~\\n\\t\\u{1f}\\u{7f}é😀\"\\\\]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_tree_is_written_as_serde_json_writes_it(tree in trees()) {
            let mut bytes = Vec::new();
            super::write_value(&mut bytes, &tree);
            prop_assert_eq!(bytes, serde_json::to_vec(&tree).unwrap());
        }
    }
}
