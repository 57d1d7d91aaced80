//! Trees of JSON from text. As `serde_json` reads them; but API servers write fields in the order of
//! their names, and a map of fields in order is made in one go.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value};

/// A tree that is read, in place of a [`Value`].
pub(crate) struct Tree(pub(crate) Value);

/// The tree that a text is.
pub(crate) fn tree(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Tree(value)| value)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(is.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut read: Vec<(String, Value)> = Vec::with_capacity(8);
        while let Some((name, Tree(value))) = fields.next_entry()? {
            read.push((name, value));
        }
        // The last of equal names counts.
        Ok(Value::Object(read.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_as_serde_json_reads_it() {
        let texts = [
            "null",
            "[true, false, -1, 18446744073709551615, 1.5, 1e3, \"a\\n\\u00e9\"]",
            r#"{"a": {"b": [], "c": {}}, "d": 1}"#,
            r#"{"z": 1, "a": 2, "z": 3, "b": {"y": 1, "x": [null]}}"#,
            r#"{"a": 1, "a": 2}"#,
        ];
        for text in texts {
            assert_eq!(tree(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        }
        for text in ["", "{", "[1,]", r#"{"a" 1}"#, "nul", "1 2", "\"\u{1}\""] {
            let wrong = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(tree(text).unwrap_err().to_string(), wrong.to_string());
        }
    }
}
